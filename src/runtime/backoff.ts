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
