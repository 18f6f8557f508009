import type { Command } from '../../../src/kernel/plugin.ts';
import { type Arrival, startListener } from '../listen/listener.ts';
import { hooksById } from '../store/hooks.ts';
import { readSecrets } from '../store/secrets.ts';
import type { Db } from '../store/tables.ts';
import { integerOf, JSON_OPTION, textOf, usage, type WebhookCommandParts, whenInterrupted } from './common.ts';

const DEFAULT_PORT = 9_900;
const BODY_CHARS = 400;

export function listenCommand({ context }: WebhookCommandParts): Command {
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
