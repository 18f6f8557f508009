import type { Clock } from '../../ports/clock.ts';

const TICK_MS = 100;

export interface Deadlines {
  /** Calls `expire` once, up to 100 ms after `timeoutMs`; the returned function cancels. */
  watch(timeoutMs: number, expire: () => void): () => void;
}

/**
 * Many deadlines under one timer: a request pays for a set entry instead of a timer of its own, and nothing needs to be exact.
 */
export function createDeadlines(clock: Clock): Deadlines {
  const entries = new Set<{ readonly at: number; readonly expire: () => void }>();
  let armed = false;

  const arm = () => {
    armed = true;
    clock.timeout(TICK_MS, sweep);
  };
  const sweep = () => {
    armed = false;
    const now = clock.monotonic();
    for (const entry of entries) {
      if (entry.at > now) continue;
      entries.delete(entry);
      entry.expire();
    }
    if (entries.size > 0 && !armed) arm();
  };

  return {
    watch: (timeoutMs, expire) => {
      const entry = { at: clock.monotonic() + timeoutMs, expire };
      entries.add(entry);
      if (!armed) arm();
      return () => {
        entries.delete(entry);
      };
    },
  };
}
