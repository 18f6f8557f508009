import type { StoreTx } from '../../../src/kernel/plugin.ts';
import type { Db } from '../store/tables.ts';
import { CONCURRENT_TREE } from './concurrent-tree.ts';
import { type LeafStep, STEP_KIND, stepOf } from './leaf-step.ts';

/** Steps that wait, as far as they follow `seq` without a hole, at most `most`. */
export async function stepsBehind({ db }: StoreTx, tree: number, seq: number, most: number): Promise<LeafStep[]> {
  const rows = await (db as Db)
    .selectFrom('compression_pending')
    .selectAll()
    .where('tree', '=', tree)
    .where('seq', '>', seq)
    .where('seq', '<=', seq + most)
    .where('kind', '=', STEP_KIND)
    .orderBy('seq')
    .execute();
  return rows.filter((row, at) => row.seq === seq + 1 + at).map(stepOf);
}

/** Whether a step waits behind this one. */
export async function someWait({ db }: StoreTx, tree: number, seq: number): Promise<boolean> {
  const row = await (db as Db)
    .selectFrom('compression_pending')
    .select('seq')
    .where('tree', '=', tree)
    .where('seq', '>', seq)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/** Keys of trees whose next step waits, at most `most`. */
export async function treesThatAreReady({ db }: StoreTx, most: number): Promise<Uint8Array[]> {
  const rows = await (db as Db)
    .selectFrom('compression_trees as t')
    .innerJoin('compression_pending as p', (join) => join.onRef('p.tree', '=', 't.id'))
    .select('t.key')
    .where('t.type', '=', CONCURRENT_TREE)
    .where('t.status', '!=', 'diverged')
    .whereRef('p.seq', '=', (is) => is('t.seq', '+', 1))
    .limit(most)
    .execute();
  return rows.map(({ key }) => key);
}
