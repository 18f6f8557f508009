import { CodedError } from '../../src/lib/coded-error.ts';
import { ACCESS_ERRORS } from './errors.ts';

const DAYS = /^([1-9]\d{0,4})d$/;
const DATE = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?(Z|[+-]\d{2}:\d{2}))?$/;
const DAY_MS = 86_400_000;
const USAGE = 64;

/** Unix milliseconds of `90d`, `2030-01-31` (its first moment, UTC) or a full date with its zone. Errors: ACCESS_BAD_EXPIRY. */
export function parseExpiry(text: string, now: number): number {
  const days = DAYS.exec(text)?.[1];
  if (days !== undefined) return now + Number(days) * DAY_MS;
  const at = DATE.test(text) ? Date.parse(text) : Number.NaN;
  // A day that the month lacks is moved into the next month by some parsers; what comes back must be what was said.
  const isReal =
    !Number.isNaN(at) && new Date(`${text.slice(0, 10)}T00:00:00Z`).toISOString().startsWith(text.slice(0, 10));
  if (!isReal || at <= now)
    throw new CodedError('ACCESS_BAD_EXPIRY', ACCESS_ERRORS.ACCESS_BAD_EXPIRY, { exitCode: USAGE });
  return at;
}
