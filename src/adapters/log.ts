import { type DestinationStream, pino } from 'pino';
import { build as pinoPretty } from 'pino-pretty';
import type { Log } from '../ports/log.ts';

export interface LogOptions {
  readonly level: string;
  /** auto = pretty when stdout is a terminal. */
  readonly format: 'auto' | 'json' | 'pretty';
  /** Default: standard output. */
  readonly destination?: DestinationStream;
}

/** A log whose level a reload can change. */
export interface RootLog extends Log {
  setLevel(level: string): void;
}

/** Fields that are cut out wherever a careless caller logs them, as a second line of defence. */
const HIDDEN = ['apiKey', 'api-key', 'authHeader', 'authorization', 'secret', 'signingSecret', 'password'];

export function createLog(options: LogOptions): RootLog {
  const pretty = options.format === 'pretty' || (options.format === 'auto' && process.stdout.isTTY === true);
  const destination =
    options.destination ??
    (pretty ? pinoPretty({ colorize: true, ignore: 'pid,hostname' }) : pino.destination({ fd: 1, sync: true }));
  const root = pino(
    {
      level: options.level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
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
  });
}
