import { sql } from 'kysely';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { HistoryRow } from './flags.ts';
import { slotOf } from './position.ts';
import type { Db } from './tables.ts';
import { partOf, sorted, type TailRow, tailRowsOf, unpackTail } from './tail.ts';

export interface RowRange {
  /** Positions, both exclusive. */
  readonly below: number;
  readonly above: number;
  /** Rows with at least one of these flags. */
  readonly mask: number;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
}

/** Rows of an address in a range of the chain, those of the tail among them. */
export async function readRows(db: Db, a: number, range: RowRange): Promise<HistoryRow[]> {
  const { below, above, mask, limit, order } = range;
  // The tail first: what is merged in between is then seen twice, and never not at all.
  const tail = await db
    .selectFrom('wallet_tail')
    .select(['slot', 'rows'])
    .where('part', '=', partOf(a))
    .where('slot', '>=', slotOf(Math.max(0, above)))
    .where('slot', '<=', slotOf(below))
    .execute();
  const merged = await db
    .selectFrom('wallet_rows')
    .select(['n', 'flags'])
    .where('a', '=', a)
    .where('n', '<', below)
    .where('n', '>', above)
    .where(sql<boolean>`(flags & ${mask}) <> 0`)
    .orderBy('n', order)
    .limit(limit)
    .execute();
  const rows = new Map<number, HistoryRow>(merged.map((row) => [row.n, row]));
  for (const block of tail)
    for (const row of tailRowsOf(block, a))
      if (row.n < below && row.n > above && (row.flags & mask) !== 0) rows.set(row.n, row);
  const sign = order === 'asc' ? 1 : -1;
  return [...rows.values()].sort((left, right) => sign * (left.n - right.n)).slice(0, limit);
}

/** Rows that are final; what is there already stays. */
export async function writeRows(tx: StoreTx, rows: readonly TailRow[]): Promise<void> {
  await tx.insertMany(
    'wallet_rows',
    ['a', 'n', 'flags'],
    sorted(rows).map(({ a, n, flags }) => [a, n, flags]),
    'ignore',
  );
}

/** Blocks that are merged at once at least: sorted rows of many blocks go into the table several times faster than those of one. */
const MERGED_BLOCKS = 32;

/** Merges the tail of final blocks when there are enough of them. Returns the number of rows. */
export async function mergeTail(tx: StoreTx, finalSlot: number, atLeast = MERGED_BLOCKS): Promise<number> {
  const db = tx.db as Db;
  const final = db.selectFrom('wallet_tail').where('slot', '<=', finalSlot);
  const { blocks } = await final
    .select(({ fn }) => fn.count<number>('slot').distinct().as('blocks'))
    .executeTakeFirstOrThrow();
  if (Number(blocks) < atLeast) return 0;
  let count = 0;
  // Part by part: together they are in order as well, and only one is in memory.
  for (const { part } of await final.select('part').distinct().orderBy('part').execute()) {
    const tail = await final.select(['slot', 'rows']).where('part', '=', part).orderBy('slot').execute();
    const rows = tail.flatMap(unpackTail);
    await writeRows(tx, rows);
    count += rows.length;
  }
  await db.deleteFrom('wallet_tail').where('slot', '<=', finalSlot).execute();
  return count;
}
