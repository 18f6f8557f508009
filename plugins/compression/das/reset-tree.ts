import type { StoreTx } from '../../../src/kernel/plugin.ts';
import type { Db } from '../store/tables.ts';
import { HISTORY } from '../trees/history.ts';
import { pageRange } from '../trees/page-store.ts';
import type { ConcurrentHashing } from './concurrent-tree.ts';

/**
 * Makes a tree empty again, as it was before its first change, so that all its changes can be read anew. Nothing else brings a diverged
 * concurrent tree back: what its leaves were is nowhere but in its pages. Steps that wait stay. Until its past has been read it has no proofs.
 */
export async function resetTree(
  { db: queries }: StoreTx,
  hashing: ConcurrentHashing,
  tree: { readonly id: number; readonly height: number },
): Promise<void> {
  const db = queries as Db;
  const { from, to } = pageRange(tree.id);
  await db.deleteFrom('compression_pages').where('id', '>=', from).where('id', '<=', to).execute();
  await db.deleteFrom('compression_assets').where('tree', '=', tree.id).execute();
  await db
    .updateTable('compression_trees')
    .set({
      ...{ seq: 0, root: hashing.emptyRoot(tree.height), next_index: 0, status: 'gap', reason: HISTORY },
      ...{ expected_root: null, computed_root: null, verified_seq: null, verified_slot: null },
    })
    .where('id', '=', tree.id)
    .execute();
}
