import { createRequire } from 'node:module';
import { type DestinationStream, pino } from 'pino';
import type { PrettyOptions } from 'pino-pretty';

type MessageFormatFunc = Exclude<PrettyOptions['messageFormat'], string | false | undefined>;

import { maskKeys } from '../lib/mask-keys.ts';
import type { Log } from '../ports/telemetry.ts';

export interface LogOptions {
  readonly level: string;
  /** auto = pretty when stdout is a terminal. */
  readonly format: 'auto' | 'json' | 'pretty';
  /** Default: standard output. */
  readonly output?: 'stdout' | 'stderr';
  /** Instead of `output`. */
  readonly destination?: DestinationStream;
  /** Role of a daemon's thread; part of every line. */
  readonly role?: string;
}

/** A log whose level a reload can change. */
export interface RootLog extends Log {
  setLevel(level: string): void;
  /** `read` returns fields for each line, of this log and its children; null: none. */
  setContext(read: () => object | null): void;
  /** Writes complete lines of another thread unchanged. */
  writeLines(lines: string): void;
}

/** Lines are written in blocks: written singly they would cost a busy daemon more than the rest of a request. */
const BUFFER_BYTES = 65_536;
const WRITE_BYTES = 131_072;
const FLUSH_INTERVAL_MS = 1_000;
/** Lines beyond this are dropped while the output is not read. */
const MAX_WAITING_BYTES = 16_777_216;

/**
 * Writes to a descriptor without blocking, at the latest after a second. The rest is written when the process exits,
 * also after an uncaught error. `fatal` lines are written at once.
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
  // Buffers: waiting strings would be copied for every added line.
  return {
    write: (lines) => void output.write(Buffer.from(lines) as never),
    flushSync: () => output.flushSync(),
  };
}

/** The time member of a line in ISO form; the part that is constant within a second is cached. */
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
function terminalOutput(destination: 1 | 2): DestinationStream {
  const { build } = createRequire(import.meta.url)('pino-pretty') as typeof import('pino-pretty');
  return build({
    destination,
    colorize: process.env['NO_COLOR'] === undefined,
    ignore: 'pid,hostname',
    translateTime: 'SYS:HH:MM:ss.l',
    // Fields stand behind the message, on the same line.
    hideObject: true,
    messageFormat: terminalLine,
    // What the program prints itself comes after the lines before it.
    sync: true,
  });
}

const IN_PREFIX = new Set(['level', 'time', 'pid', 'hostname', 'msg', 'role', 'err']);

/** `api: request method=GET route=/ping status=200`; the stack of an error follows on lines of its own. */
const terminalLine: MessageFormatFunc = (log, messageKey, _level, { colors }) => {
  const { role, err } = log;
  const who = role === undefined ? '' : colors.gray(`${String(role)}: `);
  const fields = Object.entries(log)
    .filter(([name]) => !IN_PREFIX.has(name))
    .map(([name, value]) => ` ${colors.gray(`${name}=`)}${colors.reset(fieldText(value))}`);
  const stack = (err as { stack?: string } | undefined)?.stack;
  return `${who}${colors.cyan(String(log[messageKey]))}${fields.join('')}${stack === undefined ? '' : `\n${stack.replace(/^/gm, '    ')}`}`;
};

/** The value itself if it is one word, else JSON. */
function fieldText(value: unknown): string {
  return typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
}

/** Fields that are always removed, as a second line of defence. */
const HIDDEN = ['apiKey', 'api-key', 'authHeader', 'authorization', 'secret', 'signingSecret', 'password'];

/** Third-party errors may quote input. */
const errorWithoutKeys = (error: unknown): unknown => {
  if (!(error instanceof Error)) return textWithoutKeys(error);
  const { message, stack, ...rest } = pino.stdSerializers.err(error);
  return { ...rest, message: maskKeys(message), stack: maskKeys(stack) };
};
const textWithoutKeys = (value: unknown): unknown => (typeof value === 'string' ? maskKeys(value) : value);

export function createLog(options: LogOptions): RootLog {
  const output = options.output ?? 'stdout';
  const pretty = options.format === 'pretty' || (options.format === 'auto' && process[output].isTTY === true);
  const descriptor = output === 'stdout' ? 1 : 2;
  const destination = options.destination ?? (pretty ? terminalOutput(descriptor) : bufferedOutput(descriptor));
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
    setContext(read: () => object | null) {
      // Children inherit it. Without a context, lines cost no call.
      Reflect.set(root, pino.symbols.mixinSym, () => ({ ...read() }));
    },
    writeLines(lines: string) {
      destination.write(lines);
    },
  });
}
