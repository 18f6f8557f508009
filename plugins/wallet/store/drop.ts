import { sql } from 'kysely';
import { decode32 } from '../../../src/lib/base58.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import { mergeTail } from './rows.ts';
import { ACCOUNT, type Db, endOf, firstOf, type KeyNumbers, readKeyNumbers, slotOf, type WalletRow } from './tables.ts';
import { keysOf, readBodies } from './transactions.ts';
import { readWalletById } from './wallets.ts';

export interface DeleteOptions {
  /** Unix milliseconds. */
  readonly now: number;
  /** The newest final slot; null when unknown. */
  readonly finalSlot: number | null;
  /** Maximum number of store transactions. */
  readonly steps: number;
}

/** Requests and jobs that read a wallet before it was dropped have ended by then. */
const GRACE_MS = 180_000;
/** Rows that one store transaction deletes. */
const ROWS_AT_ONCE = 200;
const ACCOUNTS_AT_ONCE = 100;
const WALLETS_AT_ONCE = 50;
const PAIRS_AT_ONCE = 400;
const KEY_WORDS = 8;
/** A process that applied this many more blocks has read the followed wallets after the drop. */
const BLOCKS_BEHIND = 32;

/**
 * Deletes stored data of dropped wallets, in small store transactions. Transactions that another wallet or its token accounts use stay.
 * A wallet that is requested in between is no longer dropped; its index starts from scratch. Returns the number of deleted rows.
 */
export async function deleteDropped(store: Store, { now, finalSlot, steps }: DeleteOptions): Promise<number> {
  const dropped = await (store.read as Db)
    .selectFrom('wallet_wallets')
    .select('id')
    .where('dropped_at', '<=', now - GRACE_MS)
    .orderBy('dropped_at')
    .limit(WALLETS_AT_ONCE)
    .execute();
  let left = steps;
  let rows = 0;
  for (const { id } of dropped) {
    for (let hasMore = true; hasMore && left > 0; left -= 1) {
      const deleted = await store.write((tx) => deleteStep(tx, id, finalSlot));
      hasMore = deleted !== null;
      rows += deleted ?? 0;
    }
  }
  return rows;
}

/** The number of deleted rows; null when nothing more can be done now. */
async function deleteStep(tx: StoreTx, id: number, finalSlot: number | null): Promise<number | null> {
  const db = tx.db as Db;
  // One process at a time, as when indexing: a transaction found unused stays unused.
  await db.updateTable('wallet_state').set({ version: sql`version` }).where('id', '=', 1).execute();
  const wallet = await readWalletById(db, id);
  if (wallet === undefined || wallet.dropped_at === null) return null;
  const droppedSlot = wallet.dropped_slot ?? -1;
  if (finalSlot !== null && (await oldestTail(db)) <= Math.min(finalSlot, droppedSlot))
    await mergeTail(tx, finalSlot, 1);
  const tail = await oldestTail(db);
  const below = Number.isFinite(tail) ? firstOf(tail) : Number.MAX_SAFE_INTEGER;
  const numbers = await readKeyNumbers(db);
  const isAccount = await isOwnedByAnother(db, decode32(wallet.address) as Uint8Array, id);
  const own = await rowsOf(db, id, below, isAccount);
  if (own.length > 0) return await deleteRows(tx, numbers, id, own, isAccount);
  const accounts = await db
    .selectFrom('wallet_accounts')
    .select('account')
    .distinct()
    .where('wallet', '=', id)
    .orderBy('account')
    .limit(ACCOUNTS_AT_ONCE)
    .execute();
  for (const { account } of accounts) {
    const a = numbers.of(account);
    const isShared = (await isOwnedByAnother(db, account, id)) || (await isWanted(db, a));
    const rows = isShared ? [] : await rowsOf(db, a, below, false);
    if (rows.length > 0) return await deleteRows(tx, numbers, a, rows, false);
    await db.deleteFrom('wallet_accounts').where('wallet', '=', id).where('account', '=', account).execute();
  }
  if (accounts.length > 0) return 0;
  // Blocks that are not final may still contain rows of it.
  if (tail > droppedSlot) await forget(db, wallet);
  return null;
}

async function oldestTail(db: Db): Promise<number> {
  const row = await db
    .selectFrom('wallet_tail')
    .select(({ fn }) => fn.min<number | null>('slot').as('slot'))
    .executeTakeFirst();
  return row?.slot == null ? Number.POSITIVE_INFINITY : Number(row.slot);
}

/** All data is deleted: deletes the row too, except one that records a refusal. */
async function forget(db: Db, { id, refused, dropped_slot }: WalletRow): Promise<void> {
  if (refused !== null) {
    await db.updateTable('wallet_wallets').set({ dropped_at: null, dropped_slot: null }).where('id', '=', id).execute();
    return;
  }
  const { live_slot } = await db.selectFrom('wallet_state').select('live_slot').executeTakeFirstOrThrow();
  // Processors read the followed wallets from this table: they must see the drop before the row is deleted.
  if (live_slot !== null && live_slot <= (dropped_slot ?? -1) + BLOCKS_BEHIND) return;
  await db.deleteFrom('wallet_wallets').where('id', '=', id).execute();
}

/** Whether another wallet of the index has, or had, an address as its token account. */
async function isOwnedByAnother(db: Db, account: Uint8Array, wallet: number): Promise<boolean> {
  const row = await db
    .selectFrom('wallet_accounts')
    .innerJoin('wallet_wallets', 'wallet_wallets.id', 'wallet_accounts.wallet')
    .select('wallet_wallets.id')
    .where('account', '=', Buffer.from(account))
    .where('wallet', '<>', wallet)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

async function isWanted(db: Db, id: number): Promise<boolean> {
  const row = await readWalletById(db, id);
  return row !== undefined && row.dropped_at === null && row.refused === null;
}

async function rowsOf(db: Db, a: number, below: number, isAccount: boolean): Promise<readonly number[]> {
  let query = db.selectFrom('wallet_rows').select('n').where('a', '=', a).where('n', '<', below);
  if (isAccount) query = query.where('flags', '<>', ACCOUNT);
  return (await query.orderBy('n').limit(ROWS_AT_ONCE).execute()).map(({ n }) => n);
}

async function deleteRows(
  tx: StoreTx,
  numbers: KeyNumbers,
  a: number,
  ns: readonly number[],
  isAccount: boolean,
): Promise<number> {
  const db = tx.db as Db;
  if (isAccount) {
    // As a token account of another wallet it is still shown.
    const flags = sql<number>`flags & ${sql.lit(ACCOUNT)}`;
    await db.updateTable('wallet_rows').set({ flags }).where('a', '=', a).where('n', 'in', ns).execute();
    await db.deleteFrom('wallet_rows').where('a', '=', a).where('n', 'in', ns).where('flags', '=', 0).execute();
  } else await db.deleteFrom('wallet_rows').where('a', '=', a).where('n', 'in', ns).execute();
  const unused = await unusedOf(db, numbers, ns);
  if (unused.length === 0) return ns.length;
  for (const table of ['wallet_transactions', 'wallet_bodies'] as const)
    await db.deleteFrom(table).where('n', 'in', unused).execute();
  const others = sql<boolean>`NOT EXISTS (SELECT 1 FROM wallet_transactions other
    WHERE other.n >= wallet_times.slot * ${sql.lit(endOf(0))} AND other.n < (wallet_times.slot + 1) * ${sql.lit(endOf(0))})`;
  const slots = [...new Set(unused.map(slotOf))];
  await db.deleteFrom('wallet_times').where('slot', 'in', slots).where(others).execute();
  return ns.length;
}

/** The transactions among these that no row references. One without a stored body stays: its addresses are unknown. */
async function unusedOf(db: Db, numbers: KeyNumbers, ns: readonly number[]): Promise<readonly number[]> {
  const bodies = await readBodies(db, ns);
  const pairs: string[] = [];
  for (const [n, text] of bodies) {
    const { keys, transactions } = decodeTransaction(JSON.parse(text));
    const [one] = transactions;
    if (one === undefined) continue;
    for (const key of keysOf(one)) pairs.push(`(${numbers.at(keys.words, key * KEY_WORDS)}, ${n})`);
  }
  const used = new Set<number>();
  for (let at = 0; at < pairs.length; at += PAIRS_AT_ONCE) {
    const part = sql.raw(pairs.slice(at, at + PAIRS_AT_ONCE).join());
    const { rows } = await sql<{
      n: number;
    }>`SELECT DISTINCT n FROM wallet_rows WHERE (a, n) IN (VALUES ${part})`.execute(db);
    for (const { n } of rows) used.add(Number(n));
  }
  return [...bodies.keys()].filter((n) => !used.has(n));
}
