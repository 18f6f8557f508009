import type { Clock } from '../../ports/clock.ts';
import type { GapBook } from '../../ports/gaps.ts';
import type { Store } from '../../ports/store.ts';
import { recordManualGap, wantGaps } from './backfill/gap-changes.ts';
import { gapView, readGaps } from './backfill/gap-record.ts';

/** Reads the gap records of a store, and adds to them. */
export const createGapBook = (store: Store, clock: Pick<Clock, 'now'>): GapBook => ({
  list: async (filter) => (await readGaps(store.read, filter)).map(gapView),
  async request(tx, { chain, processor, fromSlot, toSlot, addresses }) {
    const open = await readGaps(tx.db, { chain, processor: processor.name, isOpen: true, limit: 1_000 });
    const same = open.find(
      (gap) =>
        gap.reason === 'manual' &&
        gap.fromSlot === fromSlot &&
        gap.toSlot === toSlot &&
        gap.fills.every(({ name, version }) => name === processor.name && version === processor.version) &&
        JSON.stringify(gap.addresses) === JSON.stringify(addresses),
    );
    if (same === undefined)
      return await recordManualGap(tx, chain, { fromSlot, toSlot }, [processor], clock.now(), addresses);
    await wantGaps(tx, [same.id], clock.now());
    return same.id;
  },
});
