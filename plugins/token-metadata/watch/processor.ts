import { slotsIn } from '../../../src/lib/chain-lag.ts';
import { inList } from '../../../src/lib/in-list.ts';
import type { BlockProcessor, StoreTx } from '../../../src/plugin/plugin.ts';
import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import type { AddressIndex } from '../../../src/solana/address-set.ts';
import { matchBlock } from '../../../src/solana/match-block.ts';
import type { Db } from '../store/tables.ts';
import type { MintIndex } from './mint-index.ts';

/** How long, behind finality, changes are kept for those that keep facts in memory. */
const KEPT_MS = 600_000;
const PRUNE_EVERY_SLOTS = 100;

/** Finds the mints whose accounts a block may have changed, forgets what the store knows of them, and tells the other threads. */
export function createWatchProcessor(mints: MintIndex, slotMs: () => number | null): BlockProcessor {
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
        .where('slot', '<', slot - slotsIn(KEPT_MS, slotMs()))
        .execute();
    },
    // Forgetting something once more does no harm.
    outOfOrder: true,
    // What was missed grows old by itself.
    wantsGaps: false,
  };
}

const KEY_WORDS = 8;

/** The owners in the index of all accounts that successful transactions of a block may have written to. */
function writtenOwners(block: ChainBlock, index: AddressIndex): ReadonlySet<number> {
  const owners = new Set<number>();
  for (const match of matchBlock(block, index, { owners: false })) {
    const transaction = block.transactions[match.index];
    if (transaction === undefined || transaction.error !== null) continue;
    for (const [position, id] of transaction.keys.entries()) {
      if (!isWritable(transaction, position)) continue;
      const entry = index.find(block.keys.words, id * KEY_WORDS);
      if (entry < 0) continue;
      const count = index.ownerCount(entry);
      for (let at = 0; at < count; at += 1) owners.add(index.ownerAt(entry, at));
    }
  }
  return owners;
}

/** Whether the message lets the account at a position of the merged keys be written to. */
function isWritable({ header, staticKeyCount, loadedWritableCount }: NormalTransaction, position: number): boolean {
  const { numRequiredSignatures, numReadonlySignedAccounts, numReadonlyUnsignedAccounts } = header;
  if (position >= staticKeyCount) return position < staticKeyCount + loadedWritableCount;
  if (position < numRequiredSignatures) return position < numRequiredSignatures - numReadonlySignedAccounts;
  return position < staticKeyCount - numReadonlyUnsignedAccounts;
}

/** Forgets what the store knows of these mints, and tells all threads that it was read before `slot` was over. */
export async function tellChanges(tx: StoreTx, mints: readonly string[], slot: number): Promise<void> {
  await (tx.db as Db)
    .deleteFrom('token_metadata_mints')
    .where(inList(tx.dialect, 'mint', mints))
    .execute();
  await tx.insertMany(
    'token_metadata_changes',
    ['mint', 'slot'],
    mints.map((mint) => [mint, slot]),
  );
}
