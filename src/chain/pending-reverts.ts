import type { BlockProcessor } from '../plugin/plugin.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Queries, StoreTx } from '../ports/store.ts';
import { type CursorOwner, headerOf } from './positions.ts';
import type { Run } from './run.ts';
import { followTables } from './tables.ts';

/**
 * Blocks that the chain has rolled back while a processor could not (`follow.onError: skip-plugin`). Its cursor is at the ancestor like all
 * others; the rows of these blocks are still there, and have to be reverted before the processor gets another block.
 */
export async function deferRevert(tx: StoreTx, chain: ChainId, owner: CursorOwner, header: BlockHeader): Promise<void> {
  await followTables(tx.db)
    .insertInto('follow_pending_reverts')
    .values({
      ...{ chain, processor: owner.name, version: owner.version, slot: header.slot, parent_slot: header.parentSlot },
      ...{ blockhash: header.blockhash, previous_blockhash: header.previousBlockhash },
      ...{ block_height: header.blockHeight, block_time: header.blockTime },
    })
    .execute();
}

export async function hasPendingReverts(db: Queries, chain: ChainId, owner: CursorOwner): Promise<boolean> {
  return (await selectOf(db, chain, owner).select('slot').limit(1).executeTakeFirst()) !== undefined;
}

/** Reverts them newest first, in one transaction. False when there were none. Errors: those of the store, those of the processor. */
export async function revertPending({ store, chain, turn }: Run, processor: BlockProcessor): Promise<boolean> {
  if (!(await hasPendingReverts(store.read, chain, processor))) return false;
  await turn(() =>
    store.write(async (tx) => {
      const rows = await selectOf(tx.db, chain, processor).selectAll().orderBy('slot', 'desc').execute();
      for (const row of rows) await processor.revert(tx, headerOf(row), chain);
      await followTables(tx.db)
        .deleteFrom('follow_pending_reverts')
        .where('chain', '=', chain)
        .where('processor', '=', processor.name)
        .where('version', '=', processor.version)
        .execute();
    }),
  );
  return true;
}

const selectOf = (db: Queries, chain: ChainId, { name, version }: CursorOwner) =>
  followTables(db)
    .selectFrom('follow_pending_reverts')
    .where('chain', '=', chain)
    .where('processor', '=', name)
    .where('version', '=', version);
