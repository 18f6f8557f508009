import type { BlockHeader } from '../../ports/block.ts';
import type { ChainId } from '../../ports/chain.ts';
import type { Queries, Store, StoreTx } from '../../ports/store.ts';
import type { Position } from './decide.ts';
import type { FollowerTables, GapRow, HeaderRow } from './tables.ts';

type Db = Queries<FollowerTables>;
const typed = (db: Queries): Db => db as Db;

/** Name under which the chain's own cursor is kept. */
export const CHAIN_CURSOR = { name: '', version: 0 } as const;

export interface StoredCursor extends Position {
  readonly processor: string;
  readonly version: number;
}

export async function readCursors(store: Store, chain: ChainId): Promise<readonly StoredCursor[]> {
  const rows = await typed(store.read).selectFrom('cursors').selectAll().where('chain', '=', chain).execute();
  return rows.map((row) => ({
    processor: row.processor,
    version: row.version,
    slot: row.slot,
    blockhash: row.blockhash,
    blockTime: row.block_time,
  }));
}

export async function readHeaders(store: Store, chain: ChainId, lane: string): Promise<readonly BlockHeader[]> {
  const rows = await typed(store.read)
    .selectFrom('headers')
    .selectAll()
    .where('chain', '=', chain)
    .where('lane', '=', lane)
    .orderBy('slot')
    .execute();
  return rows.map(headerOf);
}

function headerOf(row: HeaderRow): BlockHeader {
  return {
    slot: row.slot,
    blockhash: row.blockhash,
    parentSlot: row.parent_slot,
    previousBlockhash: row.previous_blockhash,
    blockHeight: row.block_height,
    blockTime: row.block_time,
  };
}

export async function readFinalized(store: Store, chain: ChainId): Promise<number | null> {
  const row = await typed(store.read)
    .selectFrom('finality')
    .select('slot')
    .where('chain', '=', chain)
    .executeTakeFirst();
  return row?.slot ?? null;
}

export async function writeFinalized(tx: StoreTx, chain: ChainId, slot: number): Promise<void> {
  await typed(tx.db)
    .insertInto('finality')
    .values({ chain, slot })
    .onConflict((conflict) => conflict.column('chain').doUpdateSet({ slot }))
    .execute();
}

export async function readOpenGaps(store: Store, chain: ChainId): Promise<readonly GapRow[]> {
  return typed(store.read)
    .selectFrom('gaps')
    .selectAll()
    .where('chain', '=', chain)
    .where('status', '=', 'open')
    .orderBy('from_slot')
    .execute();
}

export async function writeGap(tx: StoreTx, gap: GapRow): Promise<void> {
  await typed(tx.db)
    .insertInto('gaps')
    .values(gap)
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** Names of the processors whose cursors a lane moves. */
export interface CursorOwner {
  readonly name: string;
  readonly version: number;
}

/**
 * Moves the cursors of a lane from one block to another. False when any of them was not where it should be: then another process
 * has moved it, and the transaction must not commit.
 */
export async function moveCursors(
  tx: StoreTx,
  chain: ChainId,
  owners: readonly CursorOwner[],
  from: Position | null,
  to: Position,
): Promise<boolean> {
  const values = { slot: to.slot, blockhash: to.blockhash, block_time: to.blockTime };
  if (from === null) {
    const rows = owners.map(({ name, version }) => ({ chain, processor: name, version, ...values }));
    const written = await typed(tx.db)
      .insertInto('cursors')
      .values(rows)
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst();
    return Number(written.numInsertedOrUpdatedRows ?? 0) === owners.length;
  }
  const moved = await typed(tx.db)
    .updateTable('cursors')
    .set(values)
    .where('chain', '=', chain)
    .where('slot', '=', from.slot)
    .where('blockhash', '=', from.blockhash)
    .where((is) =>
      is.or(owners.map(({ name, version }) => is.and([is('processor', '=', name), is('version', '=', version)]))),
    )
    .executeTakeFirst();
  return Number(moved.numUpdatedRows) === owners.length;
}

export async function insertHeader(tx: StoreTx, chain: ChainId, lane: string, header: BlockHeader): Promise<void> {
  await typed(tx.db)
    .insertInto('headers')
    .values({
      chain,
      lane,
      slot: header.slot,
      blockhash: header.blockhash,
      parent_slot: header.parentSlot,
      previous_blockhash: header.previousBlockhash,
      block_height: header.blockHeight,
      block_time: header.blockTime,
    })
    .execute();
}

/** Deletes headers with slot > above (a roll-back) or slot < below (the window moves on). */
export async function deleteHeaders(
  tx: StoreTx,
  chain: ChainId,
  lane: string,
  range: { above?: number; below?: number },
): Promise<void> {
  let query = typed(tx.db).deleteFrom('headers').where('chain', '=', chain).where('lane', '=', lane);
  if (range.above !== undefined) query = query.where('slot', '>', range.above);
  if (range.below !== undefined) query = query.where('slot', '<', range.below);
  await query.execute();
}
