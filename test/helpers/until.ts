import { setTimeout as sleep } from 'node:timers/promises';

const EVERY_MS = 5;
/** The machine may be busy; long before the runner ends the file without a word. */
const WITHIN_MS = 60_000;

/** Waits until `look` finds something, and returns it. A test that waits in vain fails with `what`; by default the code of `look`. */
export async function until<T>(
  look: () => T | Promise<T>,
  what = String(look),
  withinMs = WITHIN_MS,
): Promise<Exclude<T, false | null | undefined>> {
  for (const startedMs = performance.now(); performance.now() - startedMs < withinMs; await sleep(EVERY_MS)) {
    const found = await look();
    if (found) return found as Exclude<T, false | null | undefined>;
  }
  throw new Error(`waited in vain: ${what}`);
}
