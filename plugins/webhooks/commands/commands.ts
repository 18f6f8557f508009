import { CodedError, type Command, RequestError } from '../../../src/plugin/plugin.ts';
import { sendTestEvent } from '../delivery/test-event.ts';
import { type Arrival, startListener } from '../listen.ts';
import { hooksById, readSecrets } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';
import {
  hookOf,
  ID_OPTION,
  integerOf,
  JSON_OPTION,
  textOf,
  usage,
  type WebhookCommandParts,
  whenInterrupted,
} from './common.ts';
import { replayCommand } from './replay.ts';
import { listCommand, showCommand, tailCommand } from './show.ts';

/** What an operator does with webhooks of all projects. */
export function webhookCommands(parts: WebhookCommandParts): readonly Command[] {
  return [
    listCommand(),
    showCommand(parts),
    testCommand(parts),
    tailCommand(parts),
    replayCommand(parts),
    listenCommand(parts),
  ].map(withRefusals);
}

/** What a route would refuse, a command refuses in the same words. */
const withRefusals = (command: Command): Command => ({
  ...command,
  async run(options, io) {
    try {
      await command.run(options, io);
    } catch (error) {
      throw error instanceof RequestError ? usage(error.message) : error;
    }
  },
});

const EXIT_TEMPORARY = 75;

function testCommand({ context, send, bodies }: WebhookCommandParts): Command {
  return {
    path: ['webhooks', 'test'],
    summary: 'send one made-up event to a webhook and say what came back',
    options: [ID_OPTION, JSON_OPTION],
    async run(options, io) {
      const hook = await hookOf(io, options);
      const { clock, random } = context;
      const parts = { store: io.store, clock, random, send, builder: bodies };
      const result = await sendTestEvent(parts, hook, new AbortController().signal);
      if (options['json'] === true) io.json(result);
      const { delivered, statusCode, durationMs, failure } = result;
      const answer = statusCode === null ? (failure ?? 'no answer') : `HTTP ${statusCode}`;
      if (!delivered)
        throw new CodedError('WEBHOOKS_TEST_FAILED', `the receiver did not take it: ${answer} after ${durationMs} ms`, {
          exitCode: EXIT_TEMPORARY,
        });
      if (options['json'] !== true) io.line(`delivered: ${answer} after ${durationMs} ms`);
    },
  };
}

const DEFAULT_PORT = 9_900;
const BODY_CHARS = 400;

function listenCommand({ context }: WebhookCommandParts): Command {
  return {
    path: ['webhooks', 'listen'],
    summary: 'a local receiver that prints what arrives and verifies its signature, until interrupted',
    options: [
      { flags: '--host <address>', description: 'address to listen on; without it 127.0.0.1' },
      { flags: '--port <number>', description: `its port; without it ${DEFAULT_PORT}; 0 = any free one` },
      { flags: '--secret <whsec>', description: 'verify with this secret; without it with those of the store' },
      { flags: '--forward <url>', description: 'pass each request on and answer with its answer' },
      { flags: '--count <number>', description: 'end after so many' },
      JSON_OPTION,
    ],
    async run(options, io) {
      const forward = textOf(options, 'forward');
      if (forward !== undefined && !/^https?:\/\//.test(forward))
        throw usage('--forward wants an http or https address');
      const count = integerOf(options, 'count', { min: 1, max: 1_000_000 }) ?? Number.POSITIVE_INFINITY;
      const given = textOf(options, 'secret');
      const secretsOf = async (webhookId: string): Promise<readonly string[]> => {
        if (given !== undefined) return [given];
        const { read, dialect } = io.store;
        const [hook] = await hooksById(read as Db, dialect, [webhookId]);
        if (hook === undefined) return [];
        return (await readSecrets(read as Db, dialect, [hook.number], context.clock.now())).get(hook.number) ?? [];
      };
      const interrupted = whenInterrupted();
      let seen = 0;
      let finish = (): void => {};
      const done = new Promise<void>((resolve) => {
        finish = resolve;
      });
      interrupted.signal.addEventListener('abort', () => finish());
      const listener = await startListener({
        host: textOf(options, 'host') ?? '127.0.0.1',
        port: integerOf(options, 'port', { min: 0, max: 65_535 }) ?? DEFAULT_PORT,
        ...(forward === undefined ? {} : { forward }),
        secretsOf,
        nowMs: () => context.clock.now(),
        arrived(arrival) {
          if (options['json'] === true) io.json(arrival);
          else io.line(textOfArrival(arrival));
          seen += 1;
          if (seen >= count) finish();
        },
      });
      if (options['json'] === true) io.json({ url: listener.url });
      else io.line(`listening on ${listener.url} (webhooks.allowCidrs has to allow this address)`);
      await done;
      interrupted.end();
      await listener.close();
    },
  };
}

function textOfArrival({ id, attempt, bytes, verified, status, body }: Arrival): string {
  const text = body.length > BODY_CHARS ? `${body.slice(0, BODY_CHARS)}…` : body;
  // A terminal obeys control characters.
  return `${id ?? '(no webhook-id)'} attempt ${attempt ?? '?'}, ${bytes} bytes, signature ${verified}, answered ${status}\n${text.replaceAll(/\p{Cc}/gu, ' ')}`;
}
