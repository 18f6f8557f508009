/**
 * `Retry-After` in either of its forms, seconds or an HTTP date, as milliseconds from `now` (unix milliseconds), at most `mostMs`.
 * Null when absent or malformed. Without `now` a date counts as absent.
 */
export function retryAfterMs(value: string | undefined, now: number | null, mostMs?: number): number | null {
  const text = value?.trim() ?? '';
  const atMost = (ms: number) => Math.min(ms, mostMs ?? ms);
  if (/^\d{1,15}(\.\d+)?$/.test(text)) return atMost(Number(text) * 1_000);
  // Only HTTP dates: the date parser accepts almost any text that contains a number.
  if (now === null || !/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : atMost(Math.max(0, at - now));
}
