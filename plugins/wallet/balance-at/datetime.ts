/** `2025-01-10`, `2025-01-10 19:20`, with `T`, seconds, a fraction, and `Z` or an offset. */
const FORM =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d{1,9})?)?(?:(Z)|([+\- ])(\d{2}):(\d{2}))?)?$/;
const MOST_OFFSET_MINUTES = 14 * 60;

/**
 * Unix seconds of a date and time of the calendar, UTC unless it names a zone; null for anything else. A blank before an offset is
 * a plus sign that the query turned into one.
 */
export function readDatetime(text: string): number | null {
  const parts = FORM.exec(text);
  if (parts === null) return null;
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map((part) => Number(part ?? 0)) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  if (hour > 23 || minute > 59 || second > 59) return null;
  const atMs = Date.UTC(year, month - 1, day, hour, minute, second);
  const date = new Date(atMs);
  // Years below 100 would be moved by a century, and days that do not exist to the next month.
  if (date.getUTCFullYear() !== year || date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return null;
  const [sign, hours, minutes] = [parts[8], Number(parts[9] ?? 0), Number(parts[10] ?? 0)];
  const offset = hours * 60 + minutes;
  if (minutes > 59 || offset > MOST_OFFSET_MINUTES) return null;
  return atMs / 1_000 - (sign === '-' ? -offset : offset) * 60;
}
