import { createLru } from '../../../src/lib/lru.ts';
import type { Clock, Store } from '../../../src/plugin/plugin.ts';
import { type HistoryRow, PROVISIONAL_PLACE, placeOf, slotOf } from '../store/tables.ts';
import { placeFromOrder } from '../store/transactions.ts';
import type { ChainHistory } from './chain-history.ts';

/** A block that no upstream had is requested again after this time. */
const ASK_AGAIN_MS = 10_000;
const REMEMBERED = 10_000;

interface PlaceResolverParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly upstream: ChainHistory;
}

/**
 * Rows with provisional positions (no upstream had their block) may be in a wrong order within their slot. Asks for the order
 * again; true when it arrived and the rows must be read again. Never rejects: a wrong order is better than no response.
 */
export function createPlaceResolver({ store, clock, upstream }: PlaceResolverParts) {
  const missing = createLru<number, number>({ max: REMEMBERED });

  async function take(slot: number, signal: AbortSignal): Promise<boolean> {
    const since = missing.get(slot);
    if (since !== undefined && clock.monotonic() - since < ASK_AGAIN_MS) return false;
    missing.set(slot, clock.monotonic());
    const order = await upstream.order(slot, { commitment: 'finalized', signal });
    if (order === null) return false;
    await store.write((tx) => placeFromOrder(tx, slot, order));
    return true;
  }

  return async (rows: readonly HistoryRow[], signal: AbortSignal): Promise<boolean> => {
    const slots = new Set(rows.filter(({ n }) => placeOf(n) >= PROVISIONAL_PLACE).map(({ n }) => slotOf(n)));
    if (slots.size === 0) return false;
    const taken = await Promise.allSettled([...slots].map((slot) => take(slot, signal)));
    return taken.some((one) => one.status === 'fulfilled' && one.value);
  };
}

export type PlaceResolver = ReturnType<typeof createPlaceResolver>;
