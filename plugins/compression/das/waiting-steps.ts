import type { StoreTx } from '../../../src/kernel/plugin.ts';
import { pieces } from '../store/by-keys.ts';
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

/**
 * Which of these trees were changed by blocks that may still be taken back. What comes later for older blocks must not change them: a
 * roll-back would put back what they were before it.
 */
export async function heldTrees({ db }: StoreTx, ids: readonly number[]): Promise<ReadonlySet<number>> {
  const first = await (db as Db)
    .selectFrom('compression_undo')
    .select((is) => is.fn.min('slot').as('slot'))
    .executeTakeFirst();
  const slot = first?.slot;
  const held = new Set<number>();
  if (slot == null) return held;
  for (const piece of pieces(ids)) {
    const changed = await (db as Db)
      .selectFrom('compression_trees')
      .select('id')
      .where('id', 'in', [...piece])
      .where('verified_slot', '>=', slot)
      .execute();
    const waiting = await (db as Db)
      .selectFrom('compression_pending')
      .select('tree as id')
      .distinct()
      .where('tree', 'in', [...piece])
      .where('slot', '>=', slot)
      .execute();
    for (const { id } of [...changed, ...waiting]) held.add(id);
  }
  return held;
}
