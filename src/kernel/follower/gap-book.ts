import type { GapBook } from '../../ports/gaps.ts';
import type { Store } from '../../ports/store.ts';
import { gapView, readGaps } from './backfill/gap-record.ts';

/** Reads the gap records of a store. */
export const createGapBook = (store: Store): GapBook => ({
  list: async (filter) => (await readGaps(store.read, filter)).map(gapView),
});
