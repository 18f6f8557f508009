import { sql } from 'kysely';
import type { Migration, Queries, StoreTx } from '../../../src/ports/store.ts';
import { createKeyHash, hashKey, hashView } from '../../../src/solana/key-hash.ts';

/** A wallet: an address whose history was requested. Slots are inclusive. README.md explains head, floor and live. */
export interface WalletRow {
  /** The number of its address. */
  id: number;
  address: string;
  /** Unix milliseconds of the last request; 0 for configured wallets. */
  requested_at: number;
  is_pinned: number;
  /** Whether blocks are matched against it. */
  is_followed: number;
  /** Everything of it in [floor, head] is stored; both null before the first step. */
  floor: number | null;
  head: number | null;
  /** Whether nothing exists below `floor`. */
  is_complete: number;
  /** Upstreams have no data below this slot; null when they do, or before that is known. */
  pruned_below: number | null;
  pruned_at: number | null;
  /** Everything from this slot on is read from blocks; null when the wallet is not live. */
  live_from: number | null;
  /** Version of the last change of `is_followed`. */
  follow_version: number;
  /** Signatures stored so far. */
  found: number;
  /** Message of the last failed step. */
  last_error: string | null;
  /** Stored transactions of the wallet, including those of its token accounts. */
  stored: number;
  /** Transactions in final blocks since `rate_from` (unix seconds). */
  rate_from: number;
  rate_count: number;
  /** Why it is not indexed: too many transactions a minute (`busy`), in total (`large`), or for the plans of its projects (`budget`). */
  refused: WalletRefusal | null;
  /** Unix milliseconds. */
  refused_at: number | null;
  /** Transactions a minute (`busy`), or in total. */
  refused_size: number | null;
  /** Unix milliseconds: no project uses it any more, and its data is being deleted. */
  dropped_at: number | null;
  /** The newest slot whose blocks may have added rows of it. */
  dropped_slot: number | null;
}

export type WalletRefusal = 'busy' | 'large' | 'budget';

/** A project that asked for a wallet. Times in unix milliseconds. */
interface WantedRow {
  wallet: number;
  project: string;
  requested_at: number;
  /** Set when this project was the first that asked; null for the others. */
  started_at: number | null;
}

interface Tables {
  wallet_wallets: WalletRow;
  wallet_projects: WantedRow;
  wallet_accounts: { wallet: number; account: Uint8Array; mint: Uint8Array };
  wallet_rows: { a: number; n: number; flags: number };
  wallet_tail: { part: number; slot: number; rows: Uint8Array };
  wallet_transactions: { n: number; tag: number; signature: Uint8Array };
  wallet_bodies: { n: number; body: Uint8Array };
  wallet_times: { slot: number; time: number };
  wallet_fundings: { address: string; body: string };
  wallet_state: { id: number; version: number; seed: Uint8Array; live_slot: number | null; full_from: number | null };
}

export type WalletDb = Queries<Tables>;

export {
  CHANGED,
  endOf,
  firstOf,
  NAMED,
  PROVISIONAL_PLACE,
  placeOf,
  positionOf,
  slotOf,
  TOUCHED,
} from '../../../src/ports/address-history.ts';

/** The address is a token account, touched while its owner was known. */
export const ACCOUNT = 8;

export interface HistoryRow {
  readonly n: number;
  readonly flags: number;
}

/**
 * Addresses as numbers of 48 bits, so that a row of the history takes a few bytes and writing it needs no look-up. They are hashes
 * with a seed of this store: collisions are rare and cannot be forced. Readers compare rows with their
 * transactions (`loadRows`).
 */
export interface KeyNumbers {
  /** Number of a key of 32 bytes. */
  of(key: Uint8Array): number;
  /** Number of the key in the eight words from `words[at]`. */
  at(words: Uint32Array, at: number): number;
}

const SEED_WORDS = 8;
const LOW_BITS = 65_536;

export async function readKeyNumbers(db: WalletDb): Promise<KeyNumbers> {
  const { seed } = await db.selectFrom('wallet_state').select('seed').where('id', '=', 1).executeTakeFirstOrThrow();
  const view = new DataView(seed.buffer, seed.byteOffset, seed.byteLength);
  const words = Uint32Array.from({ length: SEED_WORDS }, (_, at) => view.getUint32(at * 4, true));
  const high = createKeyHash(words.subarray(0, 4), true);
  const low = createKeyHash(words.subarray(4), true);
  const join = (upper: number, lower: number) => (upper >>> 0) * LOW_BITS + (lower & (LOW_BITS - 1));
  return {
    of(key) {
      const bytes = new DataView(key.buffer, key.byteOffset, key.byteLength);
      return join(hashView(high, bytes, 0), hashView(low, bytes, 0));
    },
    at: (keys, at) => join(hashKey(high, keys, at), hashKey(low, keys, at)),
  };
}

async function createTables(tx: StoreTx): Promise<void> {
  const isSqlite = tx.dialect === 'sqlite';
  const int = sql.raw(isSqlite ? 'INTEGER' : 'BIGINT');
  const blob = sql.raw(isSqlite ? 'BLOB' : 'BYTEA');
  const seed = sql.raw(isSqlite ? 'randomblob(32)' : "decode(md5(random()::text) || md5(random()::text), 'hex')");
  const clustered = sql.raw(isSqlite ? ' WITHOUT ROWID' : '');
  const statements = [
    sql`CREATE TABLE wallet_wallets (
      id ${int} PRIMARY KEY, address TEXT NOT NULL UNIQUE, requested_at ${int} NOT NULL, is_pinned ${int} NOT NULL,
      is_followed ${int} NOT NULL, follow_version ${int} NOT NULL, floor ${int}, head ${int}, live_from ${int},
      is_complete ${int} NOT NULL, pruned_below ${int}, pruned_at ${int}, found ${int} NOT NULL,
      stored ${int} NOT NULL DEFAULT 0, rate_from ${int} NOT NULL DEFAULT 0, rate_count ${int} NOT NULL DEFAULT 0,
      last_error TEXT, refused TEXT, refused_at ${int}, refused_size ${int}, dropped_at ${int}, dropped_slot ${int})`,
    sql`CREATE INDEX wallet_wallets_by_version ON wallet_wallets (follow_version)`,
    sql`CREATE INDEX wallet_wallets_dropped ON wallet_wallets (dropped_at) WHERE dropped_at IS NOT NULL`,
    sql`CREATE TABLE wallet_projects (
      wallet ${int} NOT NULL, project TEXT NOT NULL, requested_at ${int} NOT NULL, started_at ${int},
      PRIMARY KEY (wallet, project))`,
    sql`CREATE INDEX wallet_projects_by_project ON wallet_projects (project, started_at)`,
    sql`CREATE TABLE wallet_accounts (
      wallet ${int} NOT NULL, account ${blob} NOT NULL, mint ${blob} NOT NULL, PRIMARY KEY (wallet, account, mint))${clustered}`,
    sql`CREATE INDEX wallet_accounts_by_account ON wallet_accounts (account)`,
    // a: number of the address (KeyNumbers); n: position, slot * 65536 + place in the block.
    sql`CREATE TABLE wallet_rows (
      a ${int} NOT NULL, n ${int} NOT NULL, flags ${int} NOT NULL, PRIMARY KEY (a, n))${clustered}`,
    // Rows of blocks that are not final: a blob for each block and part of the addresses.
    sql`CREATE TABLE wallet_tail (
      part ${int} NOT NULL, slot ${int} NOT NULL, rows ${blob} NOT NULL, PRIMARY KEY (part, slot))`,
    sql`CREATE TABLE wallet_transactions (n ${int} PRIMARY KEY, tag ${int} NOT NULL, signature ${blob} NOT NULL)`,
    // The first bytes of the signature: a shorter key than the whole.
    sql`CREATE INDEX wallet_transactions_by_tag ON wallet_transactions (tag)`,
    sql`CREATE TABLE wallet_bodies (n ${int} PRIMARY KEY, body ${blob} NOT NULL)`,
    sql`CREATE TABLE wallet_times (slot ${int} PRIMARY KEY, time ${int} NOT NULL)`,
    sql`CREATE INDEX wallet_times_by_time ON wallet_times (time, slot)`,
    sql`CREATE TABLE wallet_fundings (address TEXT PRIMARY KEY, body TEXT NOT NULL)`,
    sql`CREATE TABLE wallet_state (
      id ${int} PRIMARY KEY, version ${int} NOT NULL, seed ${blob} NOT NULL, live_slot ${int}, full_from ${int})`,
    sql`INSERT INTO wallet_state (id, version, seed) VALUES (1, 0, ${seed})`,
  ];
  for (const statement of statements) await statement.execute(tx.db);
}

export const migrations: readonly Migration[] = [
  { version: 1, name: 'create wallets and their history', breaking: true, up: createTables },
];
