import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import type { LeafChange } from '../../../src/solana/merkle/update-trees.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import type { Hashing } from './hashing.ts';
import { hashIndexedLeaves, isStateTree } from './leaf-hash.ts';

/**
 * The leaves that a tree has by its rows, ascending from an index on, at most `limit` of them; those that are left out are zero. Only
 * updates up to the tree's own sequence number count. Errors: those of the store.
 */
export async function readStoredLeaves(
  db: Db,
  hashing: Hashing,
  tree: Pick<TreeRow, 'id' | 'type' | 'seq'>,
  fromIndex: number,
  limit: number,
): Promise<LeafChange[]> {
  if (!isStateTree(tree.type)) return await indexedLeaves(db, hashing, tree, fromIndex, limit);
  const all = db
    .selectFrom('compression_accounts')
    .select(['leaf_index', 'hash', 'nullifier', 'nullified'])
    .where('tree', '=', tree.id)
    .where('leaf_index', '>=', fromIndex)
    .orderBy('leaf_index')
    .limit(limit);
  if (tree.type === TREE_TYPE.stateV1) {
    const rows = await all.where('nullified', '=', 0).where('seq', '<=', tree.seq).execute();
    return rows.map(({ leaf_index, hash }) => ({ index: leaf_index, hash }));
  }
  const rows = await all.where((is) => is.or([is('queued', '=', 0), is('nullified', '=', 1)])).execute();
  return rows.flatMap(({ leaf_index, hash, nullifier, nullified }) => {
    const leaf = nullified === 1 ? nullifier : hash;
    return leaf === null ? [] : [{ index: leaf_index, hash: leaf }];
  });
}

async function indexedLeaves(
  db: Db,
  { poseidon }: Hashing,
  { id, type }: Pick<TreeRow, 'id' | 'type'>,
  fromIndex: number,
  limit: number,
): Promise<LeafChange[]> {
  const rows = await db
    .selectFrom('compression_indexed_leaves')
    .select(['leaf_index', 'value', 'next_index', 'next_value'])
    .where('tree', '=', id)
    .where('leaf_index', '>=', fromIndex)
    .orderBy('leaf_index')
    .limit(limit)
    .execute();
  return hashIndexedLeaves(poseidon, type, rows).map((hash, i) => ({ index: rows[i]?.leaf_index ?? 0, hash }));
}
