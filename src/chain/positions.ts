import type { ExpressionBuilder } from 'kysely';
import { CodedError } from '../lib/coded-error.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Queries, StoreTx } from '../ports/store.ts';
import { EXIT } from '../runtime/errors.ts';
import type { Position } from './decide.ts';
import { type FollowTables, followTables, type HeaderRow, MAIN } from './tables.ts';

/** Whose cursor: a processor, or `MAIN` for the chain itself. */
export type CursorOwner = Pick<BlockProcessor, 'name' | 'version'>;

const ownerIs = (owners: readonly CursorOwner[]) => (eb: ExpressionBuilder<FollowTables, 'follow_cursors'>) =>
  eb.or(owners.map(({ name, version }) => eb.and([eb('processor', '=', name), eb('version', '=', version)])));

export async function readCursor(db: Queries, chain: ChainId, owner: CursorOwner = MAIN): Promise<Position | null> {
  const row = await followTables(db)
    .selectFrom('follow_cursors')
    .select(['slot', 'blockhash'])
    .where('chain', '=', chain)
    .where(ownerIs([owner]))
    .executeTakeFirst();
  return row ?? null;
}

/**
 * Moves cursors from one block to another and proves on the way that they stood where we think: whoever else writes them is
 * found out, and the transaction is rolled back. Comes first in a transaction, so that a rival waits before it has written
 * anything. Errors: FOLLOW_FENCED, exit 75.
 */
export async function moveCursors(
  tx: StoreTx,
  chain: ChainId,
  owners: readonly CursorOwner[],
  from: Position | null,
  to: Position & { readonly blockTime: number | null },
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
  to: Position & { readonly blockTime: number | null },
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
  from: Position,
  to: Position & { readonly blockTime: number | null },
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

export const headerOf = (row: HeaderRow): BlockHeader => ({
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
