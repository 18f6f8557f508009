import type { StoreTx } from '../../../src/kernel/plugin.ts';
import type { Db } from '../store/tables.ts';
import type { BlockBooks } from './block-books.ts';
import type { DecodedBlock } from './decoded-block.ts';

/** So many other transactions are listed. */
const MOST_RECENT = 1_000;

/** Notes the transactions of a block that are neither votes nor compression. */
export function noteRecent({ recent }: BlockBooks, { slot, blockTime, others }: DecodedBlock): void {
  if (others.length === 0) return;
  recent.put({ slot, block_time: blockTime, count: others.length, body: JSON.stringify(others) });
}

/** What `noteRecent` wrote. */
export async function recentOf(tx: StoreTx, slot: number): Promise<DecodedBlock['others']> {
  const row = await (tx.db as Db)
    .selectFrom('compression_recent')
    .select('body')
    .where('slot', '=', slot)
    .executeTakeFirst();
  return row === undefined ? [] : (JSON.parse(row.body) as DecodedBlock['others']);
}

/** Whether the list is full without this slot, also when all blocks that are not final are taken back. */
export async function isListed(tx: StoreTx, slot: number, firstUndo: number | null): Promise<boolean> {
  const newer = (tx.db as Db)
    .selectFrom('compression_recent')
    .select((is) => is.fn.sum<number>('count').as('count'))
    .where('slot', '>', slot);
  const row = await (firstUndo === null ? newer : newer.where('slot', '<', firstUndo)).executeTakeFirst();
  return Number(row?.count ?? 0) < MOST_RECENT;
}

/** Drops the rows of final blocks that are no longer among the newest. `slot` is the newest final one. */
export async function pruneRecent(tx: StoreTx, slot: number): Promise<void> {
  const db = tx.db as Db;
  const rows = await db
    .selectFrom('compression_recent')
    .select(['slot', 'count'])
    .where('slot', '<=', slot)
    .orderBy('slot', 'desc')
    .limit(MOST_RECENT + 1)
    .execute();
  let count = 0;
  const last = rows.find((row) => {
    count += row.count;
    return count >= MOST_RECENT;
  });
  if (last !== undefined && rows.at(-1) !== last)
    await db.deleteFrom('compression_recent').where('slot', '<', last.slot).execute();
}
