import { isLeaf } from '../proofs/leaf.ts';
import type { PathPages, PathReader } from '../proofs/path-reader.ts';
import { requireProvable } from '../proofs/refusal.ts';
import { distinctBytes } from '../rpc/records/by-bytes.ts';
import type { AssetRow, Db, TreeRow } from '../store/tables.ts';

/** An asset that is in its tree, with the path there. */
export interface AssetPath extends Pick<AssetRow, 'id' | 'leaf_index' | 'leaf'> {
  readonly tree: Pick<TreeRow, 'id' | 'key' | 'height' | 'seq' | 'root' | 'status' | 'reason'>;
  readonly pages: PathPages;
}

/**
 * The paths of assets, all of one state of the store. Those that are not known or no longer in their tree are left out. Errors: -32603 for a
 * tree that may not be proved; DamagedPage; those of the store.
 */
export async function findAssets(
  db: Db,
  reader: PathReader,
  ids: readonly Uint8Array[],
): Promise<readonly AssetPath[]> {
  const distinct = distinctBytes(ids);
  if (distinct.length === 0) return [];
  const rows = await db
    .selectFrom('compression_assets as a')
    .innerJoin('compression_trees as t', 't.id', 'a.tree')
    .select(['a.id as asset', 'a.leaf_index', 'a.leaf'])
    .select(['t.id', 't.key', 't.height', 't.seq', 't.root', 't.status', 't.reason'])
    .where('a.id', 'in', distinct)
    .execute();
  for (const row of rows) requireProvable(row);
  const pages = await reader.paths(
    db,
    rows.map((row) => ({ tree: row, leafIndex: row.leaf_index })),
  );
  return rows
    .map(({ asset, leaf_index, leaf, ...tree }, i) => ({ id: asset, leaf_index, leaf, tree, pages: pages[i] ?? [] }))
    .filter((path) => isLeaf(path.pages, path.leaf_index, path.leaf));
}
