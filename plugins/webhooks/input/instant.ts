import { RequestError } from '../../../src/plugin/request.ts';

const DATE = /^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?$/i;
const ZONED = /(Z|[+-]\d{2}:?\d{2})$/i;

/** A time as unix seconds or as an ISO 8601 date (UTC where it names no zone), in unix milliseconds. Errors: 400. */
export function instantOf(name: string, value: unknown, now: number): number {
  const ms = typeof value === 'number' && Number.isInteger(value) ? value * 1_000 : parseDate(value);
  if (ms === null || ms < 0) throw new RequestError(400, `${name} must be unix seconds or an ISO 8601 date`);
  if (ms > now) throw new RequestError(400, `${name} must not be in the future`);
  return ms;
}

/** The end of a range: now where it is missing. Errors: 400. */
export function untilOf(value: unknown, now: number, sinceMs: number): number {
  if (value === undefined || value === null) return now + 1;
  const untilMs = instantOf('until', value, now);
  if (untilMs < sinceMs) throw new RequestError(400, 'until must not be before since');
  return untilMs + 1;
}

function parseDate(value: unknown): number | null {
  if (typeof value !== 'string' || !DATE.test(value)) return null;
  const hasTime = value.length > 10;
  const ms = Date.parse(hasTime && !ZONED.test(value) ? `${value}Z` : value);
  return Number.isNaN(ms) ? null : ms;
}
