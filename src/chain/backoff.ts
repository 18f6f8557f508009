import type { Random } from '../ports/clock.ts';

const FIRST_MS = 250;
const LONGEST_MS = 10_000;

/** Pause before the next try after `attempts` failed ones: doubling from 250 ms to 10 s, give or take a fifth. */
export function backoffMs(attempts: number, random: Random): number {
  const base = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempts - 1, 16));
  return base * (0.8 + 0.4 * random.float());
}
