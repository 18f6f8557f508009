import type { ExpressionBuilder } from 'kysely';
import { CodedError, EXIT } from '../lib/coded-error.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Queries, StoreTx } from '../ports/store.ts';
import { type FollowTables, followTables, type HeaderRow, MAIN } from './tables.ts';

/** A block by the two things that identify it. */
export interface BlockPosition {
  readonly slot: number;
  readonly blockhash: string;
}

export const samePosition = (a: BlockPosition | null, b: BlockPosition | null): boolean =>
  a === null || b === null ? a === b : a.slot === b.slot && a.blockhash === b.blockhash;

export interface Situation {
  /** The last released block; null before the first. */
  readonly cursor: BlockPosition | null;
  /** While the cursor is below it, the first block at or above it is accepted although its parent is unknown. */
  readonly floor: number;
  /** The lowest fetched block above the cursor; null for none. */
  readonly next: BlockHeader | null;
}

export type Decision =
  /** Nothing fetched yet. */
  | { readonly kind: 'wait' }
  /** `next` continues the chain: everything between is proven skipped. */
  | { readonly kind: 'release' }
  /** The block at this slot exists, because `next` names it as its parent, and is missing here. */
  | { readonly kind: 'hole'; readonly slot: number }
  /** `next` and the cursor are on different branches. */
  | { readonly kind: 'fork' };

/** Decides from links alone: no error code and no list of slots can make it release past a block that exists. */
export function decide({ cursor, floor, next }: Situation): Decision {
  if (next === null) return { kind: 'wait' };
  if (cursor === null || cursor.slot < floor) {
    return next.parentSlot < floor || next.slot === 0 ? { kind: 'release' } : { kind: 'hole', slot: next.parentSlot };
  }
  if (next.parentSlot > cursor.slot) return { kind: 'hole', slot: next.parentSlot };
  if (next.parentSlot < cursor.slot || next.previousBlockhash !== cursor.blockhash) return { kind: 'fork' };
  return { kind: 'release' };
}

/** Owner of a cursor: a processor, or `MAIN` for the chain itself. */
export type CursorOwner = Pick<BlockProcessor, 'name' | 'version'>;

const ownerIs = (owners: readonly CursorOwner[]) => (eb: ExpressionBuilder<FollowTables, 'follow_cursors'>) =>
  eb.or(owners.map(({ name, version }) => eb.and([eb('processor', '=', name), eb('version', '=', version)])));

export async function readCursor(
  db: Queries,
  chain: ChainId,
  owner: CursorOwner = MAIN,
): Promise<BlockPosition | null> {
  const row = await followTables(db)
    .selectFrom('follow_cursors')
    .select(['slot', 'blockhash'])
    .where('chain', '=', chain)
    .where(ownerIs([owner]))
    .executeTakeFirst();
  return row ?? null;
}

/**
 * Moves cursors from one block to another and proves in the same statement that they were where we think: otherwise another process has
 * written them, and the transaction is rolled back. Comes first in a transaction, so that the other process waits before it has written
 * anything. Errors: FOLLOW_FENCED, exit 75.
 */
export async function moveCursors(
  tx: StoreTx,
  chain: ChainId,
  owners: readonly CursorOwner[],
  from: BlockPosition | null,
  to: BlockPosition & { readonly blockTime: number | null },
): Promise<void> {
  if (owners.length === 0) return;
  const moved =
    from === null ? await insertCursors(tx, chain, owners, to) : await updateCursors(tx, chain, owners, from, to);
  if (moved === owners.length) return;
  throw new CodedError('FOLLOW_FENCED', `another process follows the ${chain} chain on this database`, {
    exitCode: EXIT.temporary,
    facts: { chain, from: from?.slot ?? null, to: to.slot },
  });
}

async function insertCursors(
  tx: StoreTx,
  chain: ChainId,
  owners: readonly CursorOwner[],
  to: BlockPosition & { readonly blockTime: number | null },
): Promise<number> {
  return await tx.insertMany(
    'follow_cursors',
    ['chain', 'processor', 'version', 'slot', 'blockhash', 'block_time'],
    owners.map(({ name, version }) => [chain, name, version, to.slot, to.blockhash, to.blockTime]),
    'ignore',
  );
}

async function updateCursors(
  tx: StoreTx,
  chain: ChainId,
  owners: readonly CursorOwner[],
  from: BlockPosition,
  to: BlockPosition & { readonly blockTime: number | null },
): Promise<number> {
  const { numUpdatedRows } = await followTables(tx.db)
    .updateTable('follow_cursors')
    .set({ slot: to.slot, blockhash: to.blockhash, block_time: to.blockTime })
    .where('chain', '=', chain)
    .where('slot', '=', from.slot)
    .where('blockhash', '=', from.blockhash)
    .where(ownerIs(owners))
    .executeTakeFirst();
  return Number(numUpdatedRows);
}

/** Removes cursors; the same proof as `moveCursors`. */
export async function removeCursors(tx: StoreTx, chain: ChainId, owners: readonly CursorOwner[]): Promise<void> {
  await followTables(tx.db).deleteFrom('follow_cursors').where('chain', '=', chain).where(ownerIs(owners)).execute();
}

export async function insertHeader(tx: StoreTx, chain: ChainId, header: BlockHeader): Promise<void> {
  await tx.insertMany(
    'follow_headers',
    ['chain', 'slot', 'parent_slot', 'blockhash', 'previous_blockhash', 'block_height', 'block_time'],
    [
      [
        chain,
        header.slot,
        header.parentSlot,
        header.blockhash,
        header.previousBlockhash,
        header.blockHeight,
        header.blockTime,
      ],
    ],
  );
}

/** Stored headers from the newest down, those at or above `fromSlot`. */
export async function readHeaders(db: Queries, chain: ChainId, fromSlot: number): Promise<BlockHeader[]> {
  const rows = await followTables(db)
    .selectFrom('follow_headers')
    .selectAll()
    .where('chain', '=', chain)
    .where('slot', '>=', fromSlot)
    .orderBy('slot', 'desc')
    .execute();
  return rows.map(headerOf);
}

export async function readHeader(db: Queries, chain: ChainId, slot: number): Promise<BlockHeader | null> {
  const row = await followTables(db)
    .selectFrom('follow_headers')
    .selectAll()
    .where('chain', '=', chain)
    .where('slot', '=', slot)
    .executeTakeFirst();
  return row === undefined ? null : headerOf(row);
}

export async function readOldestSlot(db: Queries, chain: ChainId): Promise<number | null> {
  const row = await followTables(db)
    .selectFrom('follow_headers')
    .select('slot')
    .where('chain', '=', chain)
    .orderBy('slot')
    .limit(1)
    .executeTakeFirst();
  return row?.slot ?? null;
}

const headerOf = (row: HeaderRow): BlockHeader => ({
  slot: row.slot,
  parentSlot: row.parent_slot,
  blockhash: row.blockhash,
  previousBlockhash: row.previous_blockhash,
  blockHeight: row.block_height,
  blockTime: row.block_time,
});

/** Keeps the newest `keep` headers. */
export async function pruneHeaders(tx: StoreTx, chain: ChainId, keep: number): Promise<void> {
  const last = await followTables(tx.db)
    .selectFrom('follow_headers')
    .select('slot')
    .where('chain', '=', chain)
    .orderBy('slot', 'desc')
    .offset(keep)
    .limit(1)
    .executeTakeFirst();
  if (last === undefined) return;
  await followTables(tx.db)
    .deleteFrom('follow_headers')
    .where('chain', '=', chain)
    .where('slot', '<=', last.slot)
    .execute();
}

export interface ChainMarks {
  readonly floor: number;
  readonly finalizedSlot: number | null;
}

export async function readMarks(db: Queries, chain: ChainId): Promise<ChainMarks | null> {
  const row = await followTables(db)
    .selectFrom('follow_chains')
    .select(['floor_slot', 'finalized_slot'])
    .where('chain', '=', chain)
    .executeTakeFirst();
  return row === undefined ? null : { floor: row.floor_slot, finalizedSlot: row.finalized_slot };
}

/** Stores the first slot of the chain, or of the part above a gap. */
export async function writeFloor(tx: StoreTx, chain: ChainId, floor: number): Promise<void> {
  await followTables(tx.db)
    .insertInto('follow_chains')
    .values({ chain, floor_slot: floor, finalized_slot: null })
    .onConflict((conflict) => conflict.column('chain').doUpdateSet({ floor_slot: floor }))
    .execute();
}

/** Where the chain starts, unless that is stored already. Returns the stored value. */
export async function writeFirstFloor(tx: StoreTx, chain: ChainId, floor: number): Promise<number> {
  await followTables(tx.db)
    .insertInto('follow_chains')
    .values({ chain, floor_slot: floor, finalized_slot: null })
    .onConflict((conflict) => conflict.column('chain').doNothing())
    .execute();
  return (await readMarks(tx.db, chain))?.floor ?? floor;
}

/** The mark never goes back. */
export async function writeFinalized(tx: StoreTx, chain: ChainId, slot: number): Promise<void> {
  await followTables(tx.db)
    .updateTable('follow_chains')
    .set({ finalized_slot: slot })
    .where('chain', '=', chain)
    .where((eb) => eb.or([eb('finalized_slot', 'is', null), eb('finalized_slot', '<', slot)]))
    .execute();
}

/** Moves the mark back to a slot, for a rewind. */
export async function resetFinalized(tx: StoreTx, chain: ChainId, slot: number): Promise<void> {
  await followTables(tx.db)
    .updateTable('follow_chains')
    .set({ finalized_slot: slot })
    .where('chain', '=', chain)
    .where('finalized_slot', '>', slot)
    .execute();
}

/**
 * Records a block that the chain has rolled back while a processor could not (`follow.onError: skip-plugin`). Its cursor is at the
 * ancestor like all others; its rows of these blocks are still there, and are reverted before it gets another block.
 */
export async function deferRevert(tx: StoreTx, chain: ChainId, owner: CursorOwner, header: BlockHeader): Promise<void> {
  await followTables(tx.db)
    .insertInto('follow_pending_reverts')
    .values({
      chain,
      processor: owner.name,
      version: owner.version,
      slot: header.slot,
      parent_slot: header.parentSlot,
      blockhash: header.blockhash,
      previous_blockhash: header.previousBlockhash,
      block_height: header.blockHeight,
      block_time: header.blockTime,
    })
    .execute();
}

export async function hasPendingReverts(db: Queries, chain: ChainId, owner: CursorOwner): Promise<boolean> {
  return (await selectOf(db, chain, owner).select('slot').limit(1).executeTakeFirst()) !== undefined;
}

/** Newest first. */
export async function readPendingReverts(db: Queries, chain: ChainId, owner: CursorOwner): Promise<BlockHeader[]> {
  return (await selectOf(db, chain, owner).selectAll().orderBy('slot', 'desc').execute()).map(headerOf);
}

export async function removePendingReverts(tx: StoreTx, chain: ChainId, owner: CursorOwner): Promise<void> {
  await followTables(tx.db)
    .deleteFrom('follow_pending_reverts')
    .where('chain', '=', chain)
    .where('processor', '=', owner.name)
    .where('version', '=', owner.version)
    .execute();
}

const selectOf = (db: Queries, chain: ChainId, { name, version }: CursorOwner) =>
  followTables(db)
    .selectFrom('follow_pending_reverts')
    .where('chain', '=', chain)
    .where('processor', '=', name)
    .where('version', '=', version);
