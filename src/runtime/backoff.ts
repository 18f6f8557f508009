import type { Random } from '../ports/clock.ts';

export interface BackoffOptions {
  /** Pause after the first failure; default 250 ms. */
  readonly firstMs?: number;
  /** Default 10 s. */
  readonly longestMs?: number;
  /** Random part of each pause, up or down; default 0.2. */
  readonly jitter?: number;
}

/** Pause after `failures` failed attempts: it doubles from `firstMs` up to `longestMs`. Without `random`: no jitter. */
export function backoffMs(
  failures: number,
  random: Pick<Random, 'float'> | null,
  { firstMs = 250, longestMs = 10_000, jitter = 0.2 }: BackoffOptions = {},
): number {
  const base = Math.min(longestMs, firstMs * 2 ** Math.min(Math.max(0, failures - 1), 40));
  return random === null ? base : base * (1 - jitter + 2 * jitter * random.float());
}

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
