import { sql } from 'kysely';
import { decode32 } from '../../../src/lib/base58.ts';
import { CodedError } from '../../../src/plugin/plugin.ts';
import { rawQuery } from '../../../src/ports/raw-query.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import { readKeyNumbers, type WalletDb, type WalletRefusal, type WalletRow } from './tables.ts';
import { timeBefore } from './transactions.ts';

export const readWallet = (db: WalletDb, address: string): Promise<WalletRow | undefined> =>
  db.selectFrom('wallet_wallets').selectAll().where('address', '=', address).executeTakeFirst();

export const readWalletById = (db: WalletDb, id: number): Promise<WalletRow | undefined> =>
  db.selectFrom('wallet_wallets').selectAll().where('id', '=', id).executeTakeFirst();

/** Addresses of the wallets that an operator follows. */
export async function pinnedAddresses(db: WalletDb): Promise<ReadonlySet<string>> {
  const pinned = db
    .selectFrom('wallet_wallets')
    .select('address')
    .where('is_pinned', '=', 1)
    .where('is_followed', '=', 1);
  return new Set((await pinned.execute()).map(({ address }) => address));
}

/** A wallet and the newest live slot, read at one moment. */
export type WalletNow = WalletRow & { readonly live_slot: number | null };

/** Finds a wallet by its address, for requests; the statement is prepared once. Errors: those of the store. */
export function createWalletReader(store: Store): (address: string) => Promise<WalletNow | undefined> {
  const read = rawQuery<WalletNow>(
    store,
    (place) =>
      'SELECT w.*, s.live_slot FROM wallet_wallets w CROSS JOIN wallet_state s ' +
      `WHERE w.address = ${place()} AND s.id = 1`,
  );
  return async (address) => (await read(store.read, [address]))[0];
}

/** Increments the version of the followed set; other writers wait for the commit. */
async function takeVersion(tx: StoreTx): Promise<number> {
  const row = await (tx.db as WalletDb)
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
  /** Stays followed without requests. */
  readonly isPinned?: boolean;
}

/** Registers a wallet and follows it; an existing one keeps its state. Returns its number. */
export async function registerWallet(tx: StoreTx, { key, address, now, isPinned }: Registration): Promise<number> {
  const db = tx.db as WalletDb;
  const version = await takeVersion(tx);
  const id = (await readKeyNumbers(db)).of(key);
  const pinned = isPinned === true ? 1 : 0;
  await tx.insertMany(
    'wallet_wallets',
    ['id', 'address', 'requested_at', 'is_pinned', 'is_followed', 'is_complete', 'follow_version', 'found'],
    [[id, address, now, pinned, 1, 0, version, 0]],
    'ignore',
  );
  // Collisions are rare, so no second number is tried.
  if ((await readWalletById(db, id))?.address !== address)
    throw new CodedError('WALLET_NUMBER_TAKEN', 'another wallet has the number of this one');
  await db
    .updateTable('wallet_wallets')
    .set({
      requested_at: now,
      is_followed: 1,
      dropped_at: null,
      dropped_slot: null,
      refused: null,
      refused_at: null,
      refused_size: null,
      is_pinned: sql`CASE WHEN is_pinned = 1 THEN 1 ELSE ${pinned} END`,
      follow_version: sql`CASE WHEN is_followed = 1 THEN follow_version ELSE ${version} END`,
    })
    .where('id', '=', id)
    .execute();
  return id;
}

/**
 * Stops following wallets: they are read from the upstream again when requested. The stored head stays where it
 * was, below everything that may still be reverted.
 */
export async function unfollowWallets(tx: StoreTx, ids: readonly number[]): Promise<void> {
  if (ids.length === 0) return;
  const version = await takeVersion(tx);
  await (tx.db as WalletDb)
    .updateTable('wallet_wallets')
    .set({ is_followed: 0, follow_version: version, live_from: null })
    .where('id', 'in', ids)
    .execute();
}

/**
 * Drops wallets that are idle or refused: blocks are no longer matched against them, requests do not see them, and what is
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
  const db = tx.db as WalletDb;
  await db
    .updateTable('wallet_wallets')
    .set({
      floor: null,
      head: null,
      is_complete: 0,
      pruned_below: null,
      pruned_at: null,
      found: 0,
      last_error: null,
      stored: 0,
      rate_from: 0,
      rate_count: 0,
      dropped_at: now,
      dropped_slot: sql`(SELECT COALESCE(live_slot, -1) FROM wallet_state WHERE id = 1)`,
      ...(refusal === null ? {} : { refused: refusal.refused, refused_at: now, refused_size: refusal.size }),
    })
    .where('id', 'in', ids)
    .execute();
  await db.deleteFrom('wallet_projects').where('wallet', 'in', ids).execute();
}

/** Wallets that one statement drops. */
const DROPPED_AT_ONCE = 1_000;

/**
 * Forgets the wallets that a project requested; those of no other project are dropped, unless an operator follows them. With the full
 * index they are kept.
 */
export async function leaveProject(tx: StoreTx, project: string, isFull: boolean, now: number): Promise<void> {
  const db = tx.db as WalletDb;
  const own = await db
    .selectFrom('wallet_projects')
    .innerJoin('wallet_wallets', 'wallet_wallets.id', 'wallet_projects.wallet')
    .select('id')
    .where('project', '=', project)
    .where('is_pinned', '=', 0)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('wallet_projects as other')
            .select('other.wallet')
            .whereRef('other.wallet', '=', 'wallet_wallets.id')
            .where('other.project', '!=', project),
        ),
      ),
    )
    .execute();
  await db.deleteFrom('wallet_projects').where('project', '=', project).execute();
  if (isFull) return;
  const ids = own.map(({ id }) => id);
  for (let at = 0; at < ids.length; at += DROPPED_AT_ONCE)
    await dropWallets(tx, ids.slice(at, at + DROPPED_AT_ONCE), now);
}

/** Followed wallets that changed after a version; with `after` -1 all followed ones. */
export async function changedWallets(
  db: WalletDb,
  after: number,
): Promise<readonly { readonly id: number; readonly key: Uint8Array; readonly is_followed: number }[]> {
  let query = db.selectFrom('wallet_wallets').select(['id', 'address', 'is_followed']);
  query = after < 0 ? query.where('is_followed', '=', 1) : query.where('follow_version', '>', after);
  const rows = await query.execute();
  return rows.map(({ id, address, is_followed }) => ({ id, is_followed, key: decode32(address) as Uint8Array }));
}

/** An upstream that lacked the past of a wallet is called again after this time. */
export const PRUNED_MS = 600_000;

/** Whether nothing more of the past can be expected: it is complete, or known to be pruned. `now` in unix milliseconds. */
export const isPastKnown = (row: WalletRow, now: number): boolean =>
  row.is_complete === 1 || (row.pruned_below !== null && (row.pruned_at ?? 0) > now - PRUNED_MS);

/** The past below a slot is no longer known to be missing. */
export async function forgetPruned(tx: StoreTx, id: number, below: number): Promise<void> {
  await (tx.db as WalletDb)
    .updateTable('wallet_wallets')
    .set({ pruned_below: null, pruned_at: null })
    .where('id', '=', id)
    .where('pruned_below', '=', below)
    .execute();
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

/** All token accounts that a wallet is known to have owned, or those of a mint. An account is returned once per mint. */
export async function readOwnedAccounts(db: WalletDb, wallet: number, mint?: Uint8Array): Promise<OwnedAccount[]> {
  let query = db.selectFrom('wallet_accounts').select(['account', 'mint']).where('wallet', '=', wallet);
  if (mint !== undefined) query = query.where('mint', '=', Buffer.from(mint));
  return await query.orderBy('account').execute();
}

/** Limits of one wallet. */
export interface WalletLimits {
  /** In total. */
  readonly transactions: number;
  readonly transactionsPerMinute: number;
  /** Unix milliseconds. */
  now(): number;
}

/** A rate is measured over this many transactions, a page of signatures: shorter bursts do not count. */
export const RATE_TRANSACTIONS = 1_000;
const IDS_AT_ONCE = 400;

/**
 * Counts the transactions that final blocks up to a slot added to the followed wallets among `counts`, and drops those that are too busy or
 * large; their row records why. Wallets pinned by the operator are only counted.
 */
export async function countTransactions(
  tx: StoreTx,
  counts: ReadonlyMap<number, number>,
  slot: number,
  limits: WalletLimits,
): Promise<void> {
  if (counts.size === 0) return;
  const db = tx.db as WalletDb;
  const ids = [...counts.keys()];
  const time = (await timeBefore(db, slot)) ?? 0;
  for (let at = 0; at < ids.length; at += IDS_AT_ONCE) {
    const rows = await db
      .selectFrom('wallet_wallets')
      .selectAll()
      .where('id', 'in', ids.slice(at, at + IDS_AT_ONCE))
      .where('is_followed', '=', 1)
      .execute();
    if (rows.length === 0) continue;
    const counted = rows.map((row) => count(row, counts.get(row.id) ?? 0, time, limits));
    const values = counted.map(({ id, stored, from, rateCount }) => `(${id}, ${stored}, ${from}, ${rateCount})`);
    await sql`UPDATE wallet_wallets SET stored = v.column2, rate_from = v.column3, rate_count = v.column4
      FROM (VALUES ${sql.raw(values.join())}) AS v WHERE wallet_wallets.id = v.column1`.execute(tx.db);
    for (const { id, refused, size } of counted)
      if (refused !== null) await dropWallets(tx, [id], limits.now(), { refused, size });
  }
}

interface Counted {
  readonly id: number;
  readonly stored: number;
  readonly from: number;
  readonly rateCount: number;
  readonly refused: WalletRefusal | null;
  readonly size: number;
}

function count(row: WalletRow, added: number, time: number, limits: WalletLimits): Counted {
  const { id, is_pinned } = row;
  const stored = row.stored + added;
  const rateCount = row.rate_count + added;
  const seconds = Math.max(1, time - row.rate_from);
  const perMinute = Math.round((rateCount * 60) / seconds);
  const isFull = rateCount >= RATE_TRANSACTIONS;
  const isBusy = isFull && row.rate_from > 0 && perMinute > limits.transactionsPerMinute;
  const refused = is_pinned === 1 ? null : isBusy ? 'busy' : stored >= limits.transactions ? 'large' : null;
  // Below the limit: the measurement starts again.
  const isSlow = seconds * limits.transactionsPerMinute > RATE_TRANSACTIONS * 60;
  const restarts = row.rate_from === 0 || isFull || isSlow;
  return {
    id,
    stored,
    refused,
    size: isBusy ? perMinute : stored,
    from: restarts ? time : row.rate_from,
    rateCount: restarts ? 0 : rateCount,
  };
}
