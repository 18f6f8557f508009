import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { EXIT } from '../../src/lib/coded-error.ts';
import { parseVerbatim } from '../../src/lib/json.ts';
import { tableLines } from '../../src/lib/table-lines.ts';
import { type Clock, CodedError, type Command, type CommandIo } from '../../src/plugin/plugin.ts';
import { DEFAULT_LISTEN, SHADOW_COMMANDS } from './command-list.ts';
import { SHADOW_ERRORS } from './config.ts';
import { DeliveryPairs, type Side } from './delivery-pairs.ts';

const MAX_BYTES = 16 * 1024 * 1024;
const MAX_CONNECTIONS = 256;
const MAX_WEBHOOKS = 10_000;
/** `/ours/NAME` and `/theirs/NAME`. */
const PATH = /^\/(ours|theirs)\/([\w.-]{1,100})$/;

/** Receives the deliveries of both services and compares them. Errors: SHADOW_USAGE, SHADOW_LISTEN. */
export function listenCommand(clock: Clock): Command {
  return {
    ...SHADOW_COMMANDS.listen,
    async run(options, io) {
      const port = numberOption(options['port'], 'port', 65_535) ?? DEFAULT_LISTEN.port;
      const seconds = numberOption(options['seconds'], 'seconds', 31_536_000);
      const pairs = new DeliveryPairs({
        waitMs: (numberOption(options['wait'], 'wait', 86_400) ?? DEFAULT_LISTEN.waitSeconds) * 1_000,
        laterMs: numberOption(options['later'], 'later', 86_400_000) ?? DEFAULT_LISTEN.laterMs,
      });
      const host = typeof options['host'] === 'string' ? options['host'] : '127.0.0.1';
      const stop = await startReceiver(pairs, { host, port, clock, io, isJson: options['json'] === true });
      try {
        await interrupted(seconds === null ? null : seconds * 1_000);
      } finally {
        await stop();
      }
      pairs.expire(clock.monotonic());
      if (options['json'] === true)
        io.json({ webhooks: pairs.report(), open: pairs.open, unreadable: pairs.unreadable });
      else show(pairs, io);
    },
  };
}

interface ReceiverOptions {
  readonly host: string;
  readonly port: number;
  readonly clock: Clock;
  readonly io: CommandIo;
  readonly isJson: boolean;
}

async function startReceiver(pairs: DeliveryPairs, { host, port, clock, io, isJson }: ReceiverOptions) {
  const names = new Set<string>();
  const server = createServer((request, response) => {
    const answer = async (): Promise<number> => {
      const [, side, webhook = ''] = PATH.exec((request.url ?? '').split('?')[0]!) ?? [];
      if (side === undefined || request.method !== 'POST') return 404;
      names.add(webhook);
      if (names.size > MAX_WEBHOOKS) return 503;
      const body = await readBody(request);
      if (body === null) return 413;
      pairs.take(side as Side, webhook, body, { nowMs: clock.now(), at: clock.monotonic() });
      return 200;
    };
    answer().then(
      (status) => response.writeHead(status).end(),
      () => response.destroy(),
    );
  });
  server.maxConnections = MAX_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(new CodedError('SHADOW_LISTEN', SHADOW_ERRORS.SHADOW_LISTEN, { cause, exitCode: EXIT.temporary })),
    );
    server.listen(port, host, resolve);
  });
  const { port: taken } = server.address() as AddressInfo;
  if (!isJson) io.line(`listening on http://${host}:${taken}: /ours/NAME and /theirs/NAME, one name for each webhook`);
  return async () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await closed;
  };
}

/** Null: too large. What is no JSON is a text, without a signature. */
async function readBody(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request) {
    bytes += (part as Buffer).length;
    if (bytes > MAX_BYTES) return null;
    parts.push(part as Buffer);
  }
  const text = Buffer.concat(parts).toString();
  try {
    return parseVerbatim(text) ?? '';
  } catch {
    return text;
  }
}

/** Resolves with Ctrl+C, or after the time. */
function interrupted(ms: number | null): Promise<void> {
  return new Promise((resolve) => {
    const timer = ms === null ? undefined : setTimeout(() => end(), ms);
    const end = () => {
      clearTimeout(timer);
      process.off('SIGINT', end).off('SIGTERM', end);
      resolve();
    };
    process.on('SIGINT', end).on('SIGTERM', end);
  });
}

function show(pairs: DeliveryPairs, io: CommandIo): void {
  const report = pairs.report();
  const ms = (value: number | null) => (value === null ? '-' : `${value} ms`);
  const two = (here: number, there: number) => `${here} / ${there}`;
  const rows = report.map((one) => [
    one.webhook,
    one.matched,
    two(one.missingHere, one.missingThere),
    two(one.doubledHere, one.doubledThere),
    two(one.laterHere, one.laterThere),
    one.different,
    ms(one.medianLeadMs),
    `${ms(one.p95HereMs)} / ${ms(one.p95ThereMs)}`,
  ]);
  const head = [
    'WEBHOOK',
    'MATCHED',
    'MISSING',
    'DOUBLED',
    'LATER',
    'DIFFERENT',
    'OURS AFTER THEIRS',
    'P95 AFTER BLOCK',
  ];
  for (const line of tableLines(head, rows)) io.line(line);
  for (const { webhook, members } of report)
    for (const { path, kind, count } of members.slice(0, 20))
      io.line(`${webhook}: ${kind} ${path || '(whole event)'}: ${count}`);
  io.line(
    `pairs of numbers are ours / theirs; ${pairs.open} events still wait for their counterpart, ${pairs.unreadable} have no signature`,
  );
}

function numberOption(value: unknown, name: string, most: number): number | null {
  if (value === undefined) return null;
  if (/^\d+$/.test(String(value)) && Number(value) <= most) return Number(value);
  throw new CodedError('SHADOW_USAGE', `--${name} must be an integer from 0 to ${most}`, { exitCode: EXIT.usage });
}
