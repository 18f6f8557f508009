import type { Log } from '../../src/ports/telemetry.ts';

export interface LogLine {
  readonly level: string;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

/** A log that keeps its lines for assertions. */
export function createMemoryLog(): Log & { readonly lines: readonly LogLine[] } {
  const lines: LogLine[] = [];
  const at =
    (level: string, bound: object) =>
    (fields: object, message: string): void =>
      void lines.push({ level, fields: { ...bound, ...fields }, message });
  const make = (bound: object): Log => ({
    trace: at('trace', bound),
    debug: at('debug', bound),
    info: at('info', bound),
    warn: at('warn', bound),
    error: at('error', bound),
    fatal: at('fatal', bound),
    child: (fields) => make({ ...bound, ...fields }),
  });
  return Object.assign(make({}), { lines });
}
