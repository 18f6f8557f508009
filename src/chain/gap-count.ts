import type { ChainId } from '../ports/chain.ts';
import type { Queries } from '../ports/store.ts';
import { gapView, missingSlots, readGaps } from './backfill/gap-record.ts';
import type { FollowState } from './follow-state.ts';

/** Gaps that the status shows one by one. */
const MOST_SHOWN = 20;

/** Reads anew which gaps are open. */
export async function countGaps(db: Queries, chain: ChainId, state: FollowState): Promise<void> {
  const open = await readGaps(db, { chain, isOpen: true, limit: 1_000 });
  state.openGaps = open.length;
  state.gapSlots = open.reduce((sum, gap) => sum + missingSlots(gap), 0);
  state.gaps = open.slice(-MOST_SHOWN).reverse().map(gapView);
}
