import { createRequire } from 'node:module';
import { type DestinationStream, pino } from 'pino';
import { maskKeys } from '../lib/mask-keys.ts';
import type { Log } from '../ports/log.ts';

export interface LogOptions {
  readonly level: string;
  /** auto = pretty when stdout is a terminal. */
  readonly format: 'auto' | 'json' | 'pretty';
  /** Default: standard output. */
  readonly destination?: DestinationStream;
  /** Of a daemon's thread; stands in every line. */
  readonly role?: string;
}

/** A log whose level a reload can change. */
export interface RootLog extends Log {
  setLevel(level: string): void;
  /** Writes whole lines as they are: those of another thread. */
  writeLines(lines: string): void;
}

/** Lines are written together: one by one they would cost a busy daemon more than all else that it does for a request. */
const BUFFER_BYTES = 65_536;
const WRITE_BYTES = 131_072;
const FLUSH_INTERVAL_MS = 1_000;
/** Lines beyond this are dropped while nobody reads the output. */
const MAX_WAITING_BYTES = 16_777_216;

/**
 * Writes to a descriptor without waiting for it, at the latest after a second, and whatever is left at the exit of the process,
 * also at one by an uncaught error. `fatal` lines go out at once.
 */
export function bufferedOutput(dest: number | string): DestinationStream & { flushSync(): void } {
  const output = pino.destination({
    dest,
    sync: false,
    contentMode: 'buffer',
    minLength: BUFFER_BYTES,
    maxWrite: WRITE_BYTES,
    maxLength: MAX_WAITING_BYTES,
    periodicFlush: FLUSH_INTERVAL_MS,
  });
  // As strings the waiting lines would be copied anew for every line that joins them.
  return {
    write: (lines) => void output.write(Buffer.from(lines) as never),
    flushSync: () => output.flushSync(),
  };
}

/** The time member of a line in ISO form; the part that stays the same for a second is kept. */
function createIsoTime(): () => string {
  let second = -1;
  let prefix = '';
  return () => {
    const now = Date.now();
    const current = Math.floor(now / 1_000);
    if (current !== second) {
      second = current;
      prefix = `,"time":"${new Date(current * 1_000).toISOString().slice(0, -4)}`;
    }
    return `${prefix}${String(now - current * 1_000).padStart(3, '0')}Z"`;
  };
}

/** Loaded only for a terminal. */
function terminalOutput(): DestinationStream {
  const { build } = createRequire(import.meta.url)('pino-pretty') as typeof import('pino-pretty');
  return build({ colorize: true, ignore: 'pid,hostname' });
}

/** Fields that are cut out wherever a careless caller logs them, as a second line of defence. */
const HIDDEN = ['apiKey', 'api-key', 'authHeader', 'authorization', 'secret', 'signingSecret', 'password'];

/** Errors of others may quote what somebody sent. */
const errorWithoutKeys = (error: unknown): unknown => {
  if (!(error instanceof Error)) return textWithoutKeys(error);
  const { message, stack, ...rest } = pino.stdSerializers.err(error);
  return { ...rest, message: maskKeys(message), stack: maskKeys(stack) };
};
const textWithoutKeys = (value: unknown): unknown => (typeof value === 'string' ? maskKeys(value) : value);

export function createLog(options: LogOptions): RootLog {
  const pretty = options.format === 'pretty' || (options.format === 'auto' && process.stdout.isTTY === true);
  const destination = options.destination ?? (pretty ? terminalOutput() : bufferedOutput(1));
  const root = pino(
    {
      level: options.level,
      base: { pid: process.pid, ...(options.role === undefined ? {} : { role: options.role }) },
      timestamp: createIsoTime(),
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorWithoutKeys, error: textWithoutKeys },
      redact: {
        paths: HIDDEN.map((name) => `["${name}"]`),
        censor: '***',
      },
    },
    destination,
  );
  return Object.assign(root, {
    setLevel(level: string) {
      root.level = level;
    },
    writeLines(lines: string) {
      destination.write(lines);
    },
  });
}
