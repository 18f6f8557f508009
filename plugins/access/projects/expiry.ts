import { usageError } from '../usage-error.ts';

const DAYS = /^([1-9]\d{0,4})d$/;
const DATE = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:\d{2}))?$/;
const SPAN = /^(\d{1,5})(m|h|d)$/;
const DAY_MS = 86_400_000;
const UNIT_MS = { m: 60_000, h: 3_600_000, d: DAY_MS } as const;

/** Unix milliseconds of `90d`, `2030-01-31` (its first moment, UTC) or a full date with its zone. Errors: ACCESS_BAD_EXPIRY. */
export function parseExpiry(text: string, now: number): number {
  const days = DAYS.exec(text)?.[1];
  if (days !== undefined) return now + Number(days) * DAY_MS;
  const at = DATE.test(text) ? Date.parse(text) : Number.NaN;
  // A day that the month lacks is moved into the next month by some parsers; what comes back must be what was said.
  const isReal =
    !Number.isNaN(at) && new Date(`${text.slice(0, 10)}T00:00:00Z`).toISOString().startsWith(text.slice(0, 10));
  if (!isReal || at <= now) throw usageError('ACCESS_BAD_EXPIRY');
  return at;
}

/** Milliseconds of `30m`, `24h`, `7d` or `0`. Errors: ACCESS_BAD_OVERLAP. */
export function parseOverlap(text: string): number {
  if (text === '0') return 0;
  const match = SPAN.exec(text);
  if (match === null) throw usageError('ACCESS_BAD_OVERLAP');
  return Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS];
}
