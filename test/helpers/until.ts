import { setTimeout as sleep } from 'node:timers/promises';

export const LEAST_PAUSE_MS = 5;
const MOST_PAUSE_MS = 50;
/** A look over HTTP or into a database costs CPU on both sides: looking takes a fifth of the time at most, on a busy machine too. */
const PAUSE_PER_LOOK = 4;
/** The machine may be busy; long before the runner ends the file without a word. */
const WITHIN_MS = 60_000;

/** Resolves when it is time for the next look, after one that took so long. */
export const pauseAfter = (tookMs: number, leastMs = LEAST_PAUSE_MS, mostMs = MOST_PAUSE_MS): Promise<void> =>
  sleep(Math.min(mostMs, Math.max(leastMs, PAUSE_PER_LOOK * tookMs)));

/**
 * Waits until `look` finds something, and returns it. A test that waits in vain fails with `what`; by default the code of `look`.
 * `mostPauseMs`: of a look that itself moves things on.
 */
export async function until<T>(
  look: () => T | Promise<T>,
  what = String(look),
  withinMs = WITHIN_MS,
  mostPauseMs = MOST_PAUSE_MS,
): Promise<Exclude<T, false | null | undefined>> {
  for (let nowMs = performance.now(), endMs = nowMs + withinMs; nowMs < endMs; ) {
    const found = await look();
    if (found) return found as Exclude<T, false | null | undefined>;
    await pauseAfter(performance.now() - nowMs, LEAST_PAUSE_MS, mostPauseMs);
    nowMs = performance.now();
  }
  throw new Error(`waited in vain: ${what}`);
}
