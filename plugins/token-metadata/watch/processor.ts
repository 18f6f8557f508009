import type { BlockProcessor } from '../../../src/kernel/plugin.ts';
import type { Db } from '../store/tables.ts';
import type { MintIndex } from './mint-index.ts';
import { tellChanges } from './tell-changes.ts';
import { writtenOwners } from './written-keys.ts';

/** How long changes are told to those that keep facts in memory, in slots behind finality: about ten minutes. */
const KEPT_SLOTS = 1_500;
const PRUNE_EVERY_SLOTS = 100;

/** Finds the mints whose accounts a block may have changed, forgets what the store knows of them, and tells the other threads. */
export function createWatchProcessor(mints: MintIndex): BlockProcessor {
  let prunedSlot = 0;
  return {
    name: 'token-metadata',
    version: 1,
    chains: ['main'],
    async apply(tx, block) {
      const { index, mintOf, late } = await mints.current(tx, block.parentSlot);
      if (late.length > 0) await tellChanges(tx, late, block.parentSlot);
      if (index.size === 0) return;
      const changed = [...writtenOwners(block, index)].map(mintOf);
      if (changed.length > 0) await tellChanges(tx, changed, block.slot);
    },
    async revert(tx, header) {
      mints.reverted(header.slot);
      // What was read in between may be of the branch that is gone.
      const rows = await (tx.db as Db)
        .selectFrom('token_metadata_changes')
        .select('mint')
        .where('slot', '=', header.slot)
        .union((tx.db as Db).selectFrom('token_metadata_mints').select('mint').where('slot', '>=', header.slot))
        .execute();
      const changed = rows.map(({ mint }) => mint);
      if (changed.length > 0) await tellChanges(tx, changed, header.slot);
    },
    async finalized(tx, slot) {
      if (slot - prunedSlot < PRUNE_EVERY_SLOTS) return;
      prunedSlot = slot;
      await (tx.db as Db)
        .deleteFrom('token_metadata_changes')
        .where('slot', '<', slot - KEPT_SLOTS)
        .execute();
    },
    // Forgetting something once more does no harm.
    outOfOrder: true,
    // What was missed grows old by itself.
    wantsGaps: false,
  };
}
