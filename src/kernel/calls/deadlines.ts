import { Bag, type InBag } from '../../lib/bag.ts';
import type { Clock } from '../../ports/clock.ts';

const TICK_MS = 100;

interface Entry extends InBag {
  readonly at: number;
  readonly expire: () => void;
}

export interface Deadlines {
  /** Calls `expire` once, up to 100 ms after `timeoutMs`; the returned function cancels. */
  watch(timeoutMs: number, expire: () => void): () => void;
}

/**
 * Many deadlines under one timer: a request pays for an entry instead of a timer of its own, and nothing needs to be exact.
 */
export function createDeadlines(clock: Clock): Deadlines {
  const entries = new Bag<Entry>();
  let armed = false;

  const arm = () => {
    armed = true;
    clock.timeout(TICK_MS, sweep);
  };
  const sweep = () => {
    armed = false;
    const now = clock.monotonic();
    for (const entry of entries.all()) if (entry.at <= now && entries.remove(entry)) entry.expire();
    if (entries.size > 0 && !armed) arm();
  };

  return {
    watch: (timeoutMs, expire) => {
      const entry: Entry = { at: clock.monotonic() + timeoutMs, expire, place: -1 };
      entries.add(entry);
      if (!armed) arm();
      return () => {
        entries.remove(entry);
      };
    },
  };
}
