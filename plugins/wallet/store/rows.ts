import { rawQuery } from '../../../src/ports/raw-query.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import type { HistoryRow } from './flags.ts';
import { slotOf } from './position.ts';
import type { Db } from './tables.ts';
import { partOf, sorted, type TailPart, type TailRow, tailRowsOf, unpackTail } from './tail.ts';

export interface RowRange {
  /** Positions, both exclusive. */
  readonly below: number;
  readonly above: number;
  /** Rows with at least one of these flags. */
  readonly mask: number;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
}

/** Rows of an address in a range of the chain, those of the tail among them. Errors: those of the store. */
export type ReadRows = (a: number, range: RowRange) => Promise<readonly HistoryRow[]>;

/** Every page asks these statements: they are made once. */
export function createRowReader(store: Store): ReadRows {
  const readTail = rawQuery<Pick<TailPart, 'slot' | 'rows'>>(
    store,
    (place) =>
      `SELECT slot, rows FROM wallet_tail WHERE part = ${place()} AND slot >= ${place()} AND slot <= ${place()}`,
  );
  const readMerged = (order: 'ASC' | 'DESC') =>
    rawQuery<HistoryRow>(
      store,
      (place) =>
        `SELECT n, flags FROM wallet_rows WHERE a = ${place()} AND n < ${place()} AND n > ${place()} ` +
        `AND (flags & ${place()}) <> 0 ORDER BY n ${order} LIMIT ${place()}`,
    );
  const merged = { asc: readMerged('ASC'), desc: readMerged('DESC') };

  return async (a, { below, above, mask, limit, order }) => {
    // The tail first: what is merged in between is then seen twice, and never not at all.
    const tail = await readTail(store.read, [partOf(a), slotOf(Math.max(0, above)), slotOf(below)]);
    const rows = await merged[order](store.read, [a, below, above, mask, limit]);
    const fresh = tail
      .flatMap((block) => tailRowsOf(block, a))
      .filter(({ n, flags }) => n < below && n > above && (flags & mask) !== 0);
    return unite(rows, fresh, order).slice(0, limit);
  };
}

/** Both lists without repeats, where there is one in both that of the second; in the order asked for, which is that of the first. */
export function unite<R extends HistoryRow>(
  first: readonly R[],
  second: readonly R[],
  order: 'asc' | 'desc',
): readonly R[] {
  if (second.length === 0) return first;
  const rows = new Map<number, R>(first.map((row) => [row.n, row]));
  for (const row of second) rows.set(row.n, row);
  const sign = order === 'asc' ? 1 : -1;
  return [...rows.values()].sort((left, right) => sign * (left.n - right.n));
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
