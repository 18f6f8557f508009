import type { Clock, Store } from '../../../src/kernel/plugin.ts';
import { createLru } from '../../../src/lib/lru.ts';
import type { HistoryRow } from '../store/flags.ts';
import { MADE_UP_PLACE, placeOf, slotOf } from '../store/position.ts';
import { takeOrder } from '../store/real-places.ts';
import type { WalletUpstream } from './upstream.ts';

/** A block that no upstream had is asked for again after this time. */
const AGAIN_MS = 10_000;
const REMEMBERED = 10_000;

interface RealOrderParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly upstream: WalletUpstream;
}

/**
 * Rows whose places were made up, because no upstream had their block, may stand in a wrong order within their slot. Asks for it once
 * more; true where it came and the rows have to be read again. Never rejects: such an order is better than no answer.
 */
export function createRealOrder({ store, clock, upstream }: RealOrderParts) {
  const missing = createLru<number, number>({ max: REMEMBERED });

  async function take(slot: number, signal: AbortSignal): Promise<boolean> {
    const since = missing.get(slot);
    if (since !== undefined && clock.monotonic() - since < AGAIN_MS) return false;
    missing.set(slot, clock.monotonic());
    const order = await upstream.order(slot, { commitment: 'finalized', signal });
    if (order === null) return false;
    await store.write((tx) => takeOrder(tx, slot, order));
    return true;
  }

  return async (rows: readonly HistoryRow[], signal: AbortSignal): Promise<boolean> => {
    const slots = new Set(rows.filter(({ n }) => placeOf(n) >= MADE_UP_PLACE).map(({ n }) => slotOf(n)));
    if (slots.size === 0) return false;
    const taken = await Promise.allSettled([...slots].map((slot) => take(slot, signal)));
    return taken.some((one) => one.status === 'fulfilled' && one.value);
  };
}
