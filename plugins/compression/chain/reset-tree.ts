import type { StoreTx } from '../../../src/kernel/plugin.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import { freshTree } from '../trees/fresh-tree.ts';
import { emptyRoot, type Hashing } from '../trees/hashing.ts';
import { writePages } from '../trees/page-book.ts';
import { pageId, pageRange } from '../trees/page-store.ts';
import { changeTree } from './tree-rows.ts';

/** Nullifiers are read again with the transactions that made them. */
const QUEUED = { queued: 1, seq: null, nullifier: null, nullifier_index: null, tx_hash: null };

/**
 * Makes a tree what it was before its first leaf, so that its updates can be applied again. Its accounts stay, as they were before any
 * batch and any nullification. The status is the caller's.
 */
export async function resetTree(tx: StoreTx, tree: TreeRow, hashing: Hashing): Promise<void> {
  const db = tx.db as Db;
  const { id, height, type } = tree;
  const pages = pageRange(id);
  await db.deleteFrom('compression_pages').where('id', '>=', pages.from).where('id', '<=', pages.to).execute();
  for (const table of [
    'compression_roots',
    'compression_pending',
    'compression_indexed_leaves',
    'compression_address_queue',
  ] as const)
    await db.deleteFrom(table).where('tree', '=', id).execute();
  const isQueued = type === TREE_TYPE.stateV2;
  await db
    .updateTable('compression_accounts')
    .set(isQueued ? { ...QUEUED, nullified: 0 } : { nullified: 0 })
    .where('tree', '=', id)
    .execute();
  const { seq, nextIndex, values, leaves } = freshTree(hashing, type);
  const rows = values.map((value, leaf) => [id, leaf, value.value, value.next_index, value.next_value, seq]);
  const columns = ['tree', 'leaf_index', 'value', 'next_index', 'next_value', 'seq'];
  await tx.insertMany('compression_indexed_leaves', columns, rows);
  const [planted] = leaves.length === 0 ? [] : hashing.update([{ height, page: () => null, leaves }]);
  await writePages(
    tx,
    [...(planted?.pages ?? [])].map(([key, nodes]) => ({ id: pageId(id, key), nodes })),
  );
  await changeTree(tx, id, {
    ...{ seq, next_index: nextIndex, root: Uint8Array.from(planted?.root ?? emptyRoot(hashing, height)) },
    ...{ expected_root: null, computed_root: null, verified_seq: null, verified_slot: null },
  });
}
