import type { StoreTx } from '../../../src/kernel/plugin.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import type { Db, TreeRow } from '../store/tables.ts';

/** The Light trees, by id. */
export async function readLightTrees(db: Db): Promise<TreeRow[]> {
  return await db
    .selectFrom('compression_trees')
    .selectAll()
    .where('type', 'in', Object.values(TREE_TYPE))
    .orderBy('id')
    .execute();
}

/** A tree as it is now; locked until the transaction ends, so that the indexer does not write over what is decided on it. */
export async function lockTree({ db, dialect }: StoreTx, id: number): Promise<TreeRow | null> {
  const query = (db as Db).selectFrom('compression_trees').selectAll().where('id', '=', id);
  // SQLite has one writer at a time, and no word for this.
  return (await (dialect === 'postgres' ? query.forUpdate() : query).executeTakeFirst()) ?? null;
}

export async function changeTree(
  { db }: StoreTx,
  id: number,
  changes: Partial<Omit<TreeRow, 'id' | 'key'>>,
): Promise<void> {
  await (db as Db).updateTable('compression_trees').set(changes).where('id', '=', id).execute();
}
