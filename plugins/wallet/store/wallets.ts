import { sql } from 'kysely';
import { decode32 } from '../../../src/lib/base58.ts';
import { CodedError } from '../../../src/plugin/plugin.ts';
import { rawQuery } from '../../../src/ports/raw-query.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import { type Db, readKeyNumbers, type WalletRefusal, type WalletRow } from './tables.ts';

export const readWallet = (db: Db, address: string): Promise<WalletRow | undefined> =>
  db.selectFrom('wallet_wallets').selectAll().where('address', '=', address).executeTakeFirst();

export const readWalletById = (db: Db, id: number): Promise<WalletRow | undefined> =>
  db.selectFrom('wallet_wallets').selectAll().where('id', '=', id).executeTakeFirst();

/** A wallet, and the newest slot that came with the blocks: both as they were at one moment. */
export type WalletNow = WalletRow & { readonly live_slot: number | null };

/** Finds a wallet by its address, for requests: the statement is made once. Errors: those of the store. */
export function createWalletReader(store: Store): (address: string) => Promise<WalletNow | undefined> {
  const read = rawQuery<WalletNow>(
    store,
    (place) =>
      'SELECT w.*, s.live_slot FROM wallet_wallets w CROSS JOIN wallet_state s ' +
      `WHERE w.address = ${place()} AND s.id = 1`,
  );
  return async (address) => (await read(store.read, [address]))[0];
}

/** Takes the next version of the followed set; others wait for the commit. */
async function takeVersion(tx: StoreTx): Promise<number> {
  const row = await (tx.db as Db)
    .updateTable('wallet_state')
    .set({ version: sql`version + 1` })
    .where('id', '=', 1)
    .returning('version')
    .executeTakeFirstOrThrow();
  return row.version;
}

interface Registration {
  readonly key: Uint8Array;
  /** base58 of `key`. */
  readonly address: string;
  /** Unix milliseconds. */
  readonly now: number;
  /** Stays followed without being asked for. */
  readonly isPinned?: boolean;
}

/** Makes a wallet known and followed; one that is keeps its state. Returns its number. */
export async function registerWallet(tx: StoreTx, { key, address, now, isPinned }: Registration): Promise<number> {
  const db = tx.db as Db;
  const version = await takeVersion(tx);
  const id = (await readKeyNumbers(db)).of(key);
  const pinned = isPinned === true ? 1 : 0;
  await tx.insertMany(
    'wallet_wallets',
    ['id', 'address', 'asked_at', 'is_pinned', 'is_followed', 'is_complete', 'changed', 'found'],
    [[id, address, now, pinned, 1, 0, version, 0]],
    'ignore',
  );
  // Seldom enough to do without the second one.
  if ((await readWalletById(db, id))?.address !== address)
    throw new CodedError('WALLET_NUMBER_TAKEN', 'another wallet has the number of this one');
  await db
    .updateTable('wallet_wallets')
    .set({
      asked_at: now,
      is_followed: 1,
      ...{ dropped_at: null, dropped_slot: null, refused: null, refused_at: null, refused_size: null },
      is_pinned: sql`CASE WHEN is_pinned = 1 THEN 1 ELSE ${pinned} END`,
      changed: sql`CASE WHEN is_followed = 1 THEN changed ELSE ${version} END`,
    })
    .where('id', '=', id)
    .execute();
  return id;
}

/**
 * What comes with blocks no longer counts: the wallet is read from the upstream again when it is asked for. Its stored head stays where it
 * was, below all that may still be taken back.
 */
export async function unfollowWallets(tx: StoreTx, ids: readonly number[]): Promise<void> {
  if (ids.length === 0) return;
  const version = await takeVersion(tx);
  await (tx.db as Db)
    .updateTable('wallet_wallets')
    .set({ is_followed: 0, changed: version, live_from: null })
    .where('id', 'in', ids)
    .execute();
}

/**
 * Wallets that nobody wants, or that are refused: no block is matched against them any more, nothing of them is answered, and what is
 * stored of them is deleted later (`deleteDropped`). `now` in unix milliseconds.
 */
export async function dropWallets(
  tx: StoreTx,
  ids: readonly number[],
  now: number,
  refusal: { readonly refused: WalletRefusal; readonly size: number } | null = null,
): Promise<void> {
  if (ids.length === 0) return;
  await unfollowWallets(tx, ids);
  const db = tx.db as Db;
  await db
    .updateTable('wallet_wallets')
    .set({
      ...{ floor: null, head: null, is_complete: 0, pruned_below: null, pruned_at: null, found: 0, trouble: null },
      ...{ stored: 0, rate_from: 0, rate_count: 0, dropped_at: now },
      dropped_slot: sql`(SELECT COALESCE(live_slot, -1) FROM wallet_state WHERE id = 1)`,
      ...(refusal === null ? {} : { refused: refusal.refused, refused_at: now, refused_size: refusal.size }),
    })
    .where('id', 'in', ids)
    .execute();
  await db.deleteFrom('wallet_wanted').where('wallet', 'in', ids).execute();
}

/** Followed wallets that changed after a version; with `after` -1 all followed ones. */
export async function changedWallets(
  db: Db,
  after: number,
): Promise<readonly { readonly id: number; readonly key: Uint8Array; readonly is_followed: number }[]> {
  let query = db.selectFrom('wallet_wallets').select(['id', 'address', 'is_followed']);
  query = after < 0 ? query.where('is_followed', '=', 1) : query.where('changed', '>', after);
  const rows = await query.execute();
  return rows.map(({ id, address, is_followed }) => ({ id, is_followed, key: decode32(address) as Uint8Array }));
}

/** Whether everything above `head` comes with the blocks. */
export const isJoined = ({ live_from, head }: Pick<WalletRow, 'live_from' | 'head'>): boolean =>
  live_from !== null && head !== null && head >= live_from - 1;

/** A wallet whose past the upstream did not have is tried again after this time. */
const PRUNED_MS = 600_000;

/** Whether the past is settled: all of it there, or known to be lost. `now` in unix milliseconds. */
export const isSettled = (row: WalletRow, now: number): boolean =>
  row.is_complete === 1 || (row.pruned_below !== null && (row.pruned_at ?? 0) > now - PRUNED_MS);

/** A wallet of the index as operators see it. */
export function walletView(row: WalletRow) {
  return {
    address: row.address,
    state: stateOf(row),
    followed: row.is_followed === 1,
    pinned: row.is_pinned === 1,
    fromSlot: row.floor,
    toSlot: row.head,
    complete: row.is_complete === 1,
    prunedBelow: row.pruned_below,
    transactions: row.found,
    trouble: row.trouble,
  };
}

const REFUSALS = {
  busy: (size: number) => `too busy: about ${size} transactions a minute`,
  large: (size: number) => `too large: more than ${size} transactions`,
  budget: (size: number) => `no project that asked for it has room for its ${size} transactions`,
} as const;

function stateOf(row: WalletRow): string {
  if (row.refused !== null) return REFUSALS[row.refused](row.refused_size ?? 0);
  if (row.dropped_at !== null) return 'is being deleted: nobody asked for it';
  if (row.head === null) return 'waits to be indexed';
  if (row.trouble !== null) return `stands still: ${row.trouble}`;
  if (row.is_complete === 0 && row.pruned_below === null) return `is being indexed, down to slot ${row.floor}`;
  const past = row.is_complete === 1 ? 'complete' : `lacks what is below slot ${row.pruned_below}`;
  return isJoined(row) ? `${past}, current` : `${past}, up to slot ${row.head}`;
}

/** A token account that a wallet owns or owned. */
export interface OwnedAccount {
  readonly account: Uint8Array;
  readonly mint: Uint8Array;
}

export async function writeAccounts(tx: StoreTx, wallet: number, accounts: Iterable<OwnedAccount>): Promise<void> {
  const rows = [...accounts].map(({ account, mint }) => [wallet, Buffer.from(account), Buffer.from(mint)]);
  if (rows.length > 0) await tx.insertMany('wallet_accounts', ['wallet', 'account', 'mint'], rows, 'ignore');
}

/** All token accounts that a wallet is known to have owned, or those of a mint. An account is named once for each of its mints. */
export async function readAccounts(db: Db, wallet: number, mint?: Uint8Array): Promise<OwnedAccount[]> {
  let query = db.selectFrom('wallet_accounts').select(['account', 'mint']).where('wallet', '=', wallet);
  if (mint !== undefined) query = query.where('mint', '=', Buffer.from(mint));
  return await query.orderBy('account').execute();
}
