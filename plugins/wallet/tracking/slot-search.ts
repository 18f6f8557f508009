import type { ChainHistory, HistoryAskOptions } from './chain-history.ts';

/** Slots by time, found on the chain itself: block times rise with slots, but for a few seconds. */
export interface SlotSearch {
  /** A slot that is no later than a time in unix seconds, close to it; null when all are later. */
  at(time: number): Promise<number | null>;
  /** A slot that is later than a time in unix seconds, close to it; null when none is. */
  after(time: number): Promise<number | null>;
}

interface SearchParts {
  readonly upstream: Pick<ChainHistory, 'blockFrom' | 'blockTime'>;
  readonly ask: HistoryAskOptions;
  /** The oldest and the newest slot that are searched. */
  readonly first: () => Promise<number>;
  readonly top: () => Promise<number>;
}

interface TimedSlot {
  readonly slot: number;
  /** Unix seconds. */
  readonly time: number;
}

/** What is found is at most this far from the time, or the next slot to it. */
const CLOSE_S = 3_600;
/** Halving alone finds any slot of the chain in fewer. */
const MAX_STEPS = 64;

export function createSlotSearch({ upstream, ask, first: firstSlot, top }: SearchParts): SlotSearch {
  /** The first block from a slot on that has a time; null without one up to `end`. */
  async function timed(slot: number, end: number): Promise<TimedSlot | null> {
    const block = slot > end ? null : await upstream.blockFrom(slot, end, ask);
    const time = block === null ? null : await upstream.blockTime(block, ask.signal);
    return block === null || time === null ? null : { slot: block, time };
  }

  /** The slots beside a time. `low` null: all are later; `high` null: none is. */
  async function around(time: number): Promise<{ readonly low: TimedSlot | null; readonly high: TimedSlot | null }> {
    const newest = await top();
    const newestTime = await upstream.blockTime(newest, ask.signal);
    const first = await timed(await firstSlot(), newest);
    if (first === null || newestTime === null) return { low: null, high: null };
    if (first.time > time) return { low: null, high: first };
    if (newestTime <= time) return { low: { slot: newest, time: newestTime }, high: null };
    let low = first;
    let high: TimedSlot = { slot: newest, time: newestTime };
    for (let step = 0; step < MAX_STEPS && high.slot - low.slot > 1; step += 1) {
      if (time - low.time <= CLOSE_S && high.time - time <= CLOSE_S) break;
      // Slots do not all take the same time: every other step halves the range.
      const share = step % 2 === 0 ? (time - low.time) / Math.max(1, high.time - low.time) : 0.5;
      const guess = Math.min(
        high.slot - 1,
        Math.max(low.slot + 1, Math.floor(low.slot + (high.slot - low.slot) * share)),
      );
      const found = await timed(guess, high.slot - 1);
      if (found === null) high = { slot: guess, time: high.time };
      else if (found.time <= time) low = found;
      else high = { slot: guess, time: found.time };
    }
    return { low, high };
  }

  return {
    at: async (time) => (await around(time)).low?.slot ?? null,
    after: async (time) => (await around(time)).high?.slot ?? null,
  };
}
