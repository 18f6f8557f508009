import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Migration, Queries, Store, StoreTx } from '../../../src/ports/store.ts';

/** A known tree. Keys and hashes are 32 bytes. */
export interface TreeRow {
  /** Small number that identifies the tree in all other tables. */
  id: number;
  key: Uint8Array;
  /** `TREE_TYPE` of the Light programs, or `CONCURRENT_TREE`. */
  type: number;
  /** The tree itself when it is its own queue; null without one. */
  queue: Uint8Array | null;
  height: number;
  /** Null until the account was read. */
  root_capacity: number | null;
  /** Successor of a full tree. */
  next_tree: Uint8Array | null;
  seq: number;
  root: Uint8Array;
  /** Leaves so far. */
  next_index: number;
  /** `ok` | `unverified` | `gap` | `diverged` */
  status: string;
  /** Why it is not ok: `decode`, `root`, `cpi-context`, `page`, … */
  reason: string | null;
  expected_root: Uint8Array | null;
  computed_root: Uint8Array | null;
  /** Newest sequence number, and its slot, at which the root matched the chain. */
  verified_seq: number | null;
  verified_slot: number | null;
}

/**
 * Whether an account was spent. `unverified`: a spend was indexed, and its tree is being read again; the account counts as spent until that has
 * finished, and is restored if no block confirms the spend.
 */
export const SPENT = { no: 0, yes: 1, unverified: 2 } as const;

/** Amounts and lamports are u64: 8 big-endian bytes, which sort like numbers. */
export interface CompressedAccountRow {
  hash: Uint8Array;
  /** Id of its tree. */
  tree: number;
  leaf_index: number;
  owner: Uint8Array;
  lamports: Uint8Array;
  address: Uint8Array | null;
  /** All three are null together. */
  discriminator: Uint8Array | null;
  data: Uint8Array | null;
  data_hash: Uint8Array | null;
  /** V1: sequence number of its leaf. V2: sequence number of the batch that appended it, null before. */
  seq: number | null;
  slot_created: number;
  /** 64 bytes. */
  created_by: Uint8Array;
  /** `SPENT`. */
  spent: number;
  slot_spent: number | null;
  spent_by: Uint8Array | null;
  /** In the output queue. */
  queued: number;
  nullifier: Uint8Array | null;
  /** Index in the nullifier queue. */
  nullifier_index: number | null;
  tx_hash: Uint8Array | null;
  /** Its leaf has been replaced: by zero (V1) or by the nullifier (V2). */
  nullified: number;
  onchain_pubkey: Uint8Array | null;
}

export interface TokenAccountRow {
  hash: Uint8Array;
  owner: Uint8Array;
  mint: Uint8Array;
  delegate: Uint8Array | null;
  /** 0 initialized, 1 frozen. */
  state: number;
  amount: Uint8Array;
  tlv: Uint8Array | null;
  spent: number;
  ata_owner: Uint8Array | null;
}

/**
 * What became of the leaf of an asset. `redeemed`: emptied, for the asset to become an account. `unknown`: another leaf is there, of a kind
 * that cannot be read.
 */
export const LEAF_STATE = { present: 0, burnt: 1, redeemed: 2, unknown: 3 } as const;

/** The asset of a concurrent tree. Hashes and keys are 32 bytes. */
export interface CompressedAssetRow {
  id: Uint8Array;
  tree: number;
  leaf_index: number;
  /** Its leaf at the last change; if the tree now has another leaf there, the asset is no longer in it. */
  leaf: Uint8Array;
  /** Sequence number and slot of that change. */
  seq: number;
  slot: number;
  /** `LEAF_STATE`. */
  state: number;
  /** Sequence number of the last change that left a leaf, which the columns below are of; 0: none was indexed, and they are null. */
  leaf_seq: number;
  version: number | null;
  owner: Uint8Array | null;
  delegate: Uint8Array | null;
  data_hash: Uint8Array | null;
  creator_hash: Uint8Array | null;
  /** The last three: version 2 only. */
  collection_hash: Uint8Array | null;
  asset_data_hash: Uint8Array | null;
  flags: number | null;
}

/** The kind of key that a list of signatures belongs to. */
export const SUBJECT = { owner: 1, address: 2, tokenOwner: 3 } as const;

export interface CompressionTables {
  compression_trees: TreeRow;
  /** Keys that are not our trees. */
  compression_foreign: { key: Uint8Array; slot: number; reason: string };
  /** Nodes in pages of six levels: id = tree * 2^37 + `pageKey`; the bytes end with a CRC-32 (big-endian) of the rest. */
  compression_pages: { id: number; bytes: Uint8Array };
  compression_roots: { tree: number; seq: number; root: Uint8Array; slot: number };
  compression_accounts: CompressedAccountRow;
  compression_token_accounts: TokenAccountRow;
  compression_balances: { owner: Uint8Array; lamports: Uint8Array };
  compression_token_balances: { owner: Uint8Array; mint: Uint8Array; amount: Uint8Array };
  /** Spends of accounts that are not indexed yet: blocks may arrive out of order. */
  compression_early_spends: { hash: Uint8Array; slot: number; body: string };
  /** Leaves of address trees. */
  compression_indexed_leaves: {
    tree: number;
    leaf_index: number;
    value: Uint8Array;
    next_index: number;
    next_value: Uint8Array;
    seq: number;
  };
  compression_address_queue: { tree: number; queue_index: number; address: Uint8Array };
  /** Events of a tree that cannot be applied yet: an earlier one is missing, or the tree is diverged. `body` is JSON. */
  compression_pending: { tree: number; seq: number; kind: string; slot: number; body: string };
  compression_assets: CompressedAssetRow;
  /** Metadata of assets by their data hash, in the bytes that have it. Many assets may share it. */
  compression_metadata: { hash: Uint8Array; body: Uint8Array };
  /** Changes of leaves. `operation`: the instruction of Bubblegum, empty when it is unknown. */
  compression_changes: {
    tree: number;
    seq: number;
    leaf_index: number;
    slot: number;
    signature: Uint8Array;
    operation: string;
  };
  /** Transactions with compression. `error` is the text of its JSON. */
  compression_transactions: { slot: number; signature: Uint8Array; error: string | null };
  compression_subjects: { kind: number; subject: Uint8Array; slot: number; signature: Uint8Array };
  /** Newest other non-vote transactions, a row per block: JSON list of [signature, error text or null]. */
  compression_recent: { slot: number; block_time: number | null; count: number; body: string };
  compression_blocks: { slot: number; block_time: number | null };
  /** One row: the newest indexed block. */
  compression_head: { id: number; slot: number; block_time: number | null };
  /** Data to revert a block. */
  compression_undo: { slot: number; body: Uint8Array };
  /** Names and values of notes. */
  compression_notes: { name: string; value: string };
}

/** Query handle with the tables of the plugin. */
export type CompressionDb = Queries<CompressionTables>;

/** What was read, and the slot of the state of the store that it was read in. */
export interface ValueAtSlot<T = unknown> {
  /** Newest indexed slot, 0 before the first. */
  readonly slot: number;
  readonly value: T;
}

/** Runs queries on one snapshot of the store and returns its slot. Errors: those of the store and of `work`. */
export async function readAtOneSlot<T>(
  store: Store,
  work: (db: CompressionDb, slot: number) => Promise<T>,
): Promise<ValueAtSlot<T>> {
  return await store.read.transaction().execute(async (transaction) => {
    const db = transaction as CompressionDb;
    const head = await db.selectFrom('compression_head').select('slot').executeTakeFirst();
    const slot = head?.slot ?? 0;
    return { slot, value: await work(db, slot) };
  });
}

/** A u64 as stored: 8 big-endian bytes. */
export function u64Bytes(value: bigint): Uint8Array {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(value);
  return bytes;
}

export function u64Of(bytes: Uint8Array): bigint {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).readBigUInt64BE();
}

export const U64_MOST = 2n ** 64n - 1n;

/** Names of notes. */
export const NOTES = {
  /** Newest slot of the loaded snapshot: later slots are indexed from blocks. */
  snapshotSlot: 'snapshot',
  genesisHash: 'genesis',
  /** Slot of the first block that was indexed while all concurrent trees are followed. */
  allTreesFrom: 'cnft-all-from',
} as const;

/** Note of a named concurrent tree that has no account: its value is a slot at which the chain had none. */
export const absentNote = (tree: Uint8Array): string => `absent:${encode32(tree)}`;

/** Prefix of notes for trees with unverified spends. */
export const DOUBT = 'doubt:';
/** Values of those notes: the tree is being read again, or was read and verified. */
export const READING = 'reading';
export const READ = 'read';

export const verifyNote = (tree: number): string => `${DOUBT}${tree}`;

export async function readNote(db: CompressionDb, name: string): Promise<string | null> {
  const row = await db.selectFrom('compression_notes').select('value').where('name', '=', name).executeTakeFirst();
  return row?.value ?? null;
}

export async function writeNote({ db }: StoreTx, name: string, value: string): Promise<void> {
  await (db as CompressionDb)
    .insertInto('compression_notes')
    .values({ name, value })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
    .execute();
}

export async function dropNote({ db }: StoreTx, name: string): Promise<void> {
  await (db as CompressionDb).deleteFrom('compression_notes').where('name', '=', name).execute();
}

/** Names of types that differ between the engines. */
function typesOf({ dialect }: StoreTx) {
  return {
    int: sql.raw(dialect === 'sqlite' ? 'INTEGER' : 'BIGINT'),
    blob: sql.raw(dialect === 'sqlite' ? 'BLOB' : 'BYTEA'),
    clustered: sql.raw(dialect === 'sqlite' ? ' WITHOUT ROWID' : ''),
  };
}

/** Trees and their content. */
async function createTrees(tx: StoreTx): Promise<void> {
  const { int, blob, clustered } = typesOf(tx);
  const statements = [
    sql`CREATE TABLE compression_trees (
      id ${int} PRIMARY KEY, key ${blob} NOT NULL UNIQUE, type ${int} NOT NULL, queue ${blob}, height ${int} NOT NULL,
      root_capacity ${int}, next_tree ${blob}, seq ${int} NOT NULL, root ${blob} NOT NULL, next_index ${int} NOT NULL,
      status TEXT NOT NULL, reason TEXT, expected_root ${blob}, computed_root ${blob}, verified_seq ${int},
      verified_slot ${int})`,
    sql`CREATE TABLE compression_foreign (key ${blob} PRIMARY KEY, slot ${int} NOT NULL, reason TEXT NOT NULL)`,
    // No WITHOUT ROWID: a tree page fits a table page of SQLite, but not an index page.
    sql`CREATE TABLE compression_pages (id ${int} PRIMARY KEY, bytes ${blob} NOT NULL)`,
    sql`CREATE TABLE compression_roots (
      tree ${int} NOT NULL, seq ${int} NOT NULL, root ${blob} NOT NULL, slot ${int} NOT NULL,
      PRIMARY KEY (tree, seq))${clustered}`,
    sql`CREATE TABLE compression_indexed_leaves (
      tree ${int} NOT NULL, leaf_index ${int} NOT NULL, value ${blob} NOT NULL, next_index ${int} NOT NULL,
      next_value ${blob} NOT NULL, seq ${int} NOT NULL, PRIMARY KEY (tree, leaf_index))${clustered}`,
    sql`CREATE UNIQUE INDEX compression_indexed_leaves_by_value ON compression_indexed_leaves (tree, value)`,
    sql`CREATE TABLE compression_address_queue (
      tree ${int} NOT NULL, queue_index ${int} NOT NULL, address ${blob} NOT NULL, PRIMARY KEY (tree, queue_index))${clustered}`,
    sql`CREATE INDEX compression_address_queue_by_address ON compression_address_queue (address)`,
    sql`CREATE TABLE compression_pending (
      tree ${int} NOT NULL, seq ${int} NOT NULL, kind TEXT NOT NULL, slot ${int} NOT NULL, body TEXT NOT NULL,
      PRIMARY KEY (tree, seq, kind))${clustered}`,
    // Assets of concurrent trees.
    sql`CREATE TABLE compression_assets (
      id ${blob} PRIMARY KEY, tree ${int} NOT NULL, leaf_index ${int} NOT NULL, leaf ${blob} NOT NULL, seq ${int} NOT NULL,
      slot ${int} NOT NULL, state ${int} NOT NULL, leaf_seq ${int} NOT NULL, version ${int}, owner ${blob}, delegate ${blob},
      data_hash ${blob}, creator_hash ${blob}, collection_hash ${blob}, asset_data_hash ${blob}, flags ${int})${clustered}`,
    sql`CREATE INDEX compression_assets_by_tree ON compression_assets (tree, id)`,
    sql`CREATE INDEX compression_assets_by_owner ON compression_assets (owner, id)`,
    sql`CREATE INDEX compression_assets_burnt ON compression_assets (id) WHERE state = 1`,
    sql`CREATE INDEX compression_assets_unreadable ON compression_assets (tree) WHERE state = 3`,
    sql`CREATE TABLE compression_metadata (hash ${blob} PRIMARY KEY, body ${blob} NOT NULL)`,
    sql`CREATE TABLE compression_changes (
      tree ${int} NOT NULL, seq ${int} NOT NULL, leaf_index ${int} NOT NULL, slot ${int} NOT NULL, signature ${blob} NOT NULL,
      operation TEXT NOT NULL, PRIMARY KEY (tree, seq))${clustered}`,
    sql`CREATE INDEX compression_changes_by_leaf ON compression_changes (tree, leaf_index, seq)`,
  ];
  for (const statement of statements) await statement.execute(tx.db);
}

/** Compressed accounts and the tokens in them. */
async function createAccounts(tx: StoreTx): Promise<void> {
  const { int, blob, clustered } = typesOf(tx);
  const statements = [
    sql`CREATE TABLE compression_accounts (
      hash ${blob} NOT NULL UNIQUE, tree ${int} NOT NULL, leaf_index ${int} NOT NULL, owner ${blob} NOT NULL,
      lamports ${blob} NOT NULL, address ${blob}, discriminator ${blob}, data ${blob}, data_hash ${blob}, seq ${int},
      slot_created ${int} NOT NULL, created_by ${blob} NOT NULL, spent ${int} NOT NULL, slot_spent ${int}, spent_by ${blob},
      queued ${int} NOT NULL, nullifier ${blob}, nullifier_index ${int}, tx_hash ${blob}, nullified ${int} NOT NULL,
      onchain_pubkey ${blob})`,
    sql`CREATE INDEX compression_accounts_by_owner ON compression_accounts (owner, leaf_index, hash) WHERE spent = 0`,
    // An address has a row for each of its changes, and at most one unspent row.
    sql`CREATE INDEX compression_accounts_by_address ON compression_accounts (address)
      WHERE spent = 0 AND address IS NOT NULL`,
    sql`CREATE INDEX compression_accounts_by_leaf ON compression_accounts (tree, leaf_index)`,
    sql`CREATE INDEX compression_accounts_queued ON compression_accounts (tree, leaf_index) WHERE queued = 1`,
    sql`CREATE INDEX compression_accounts_nullified ON compression_accounts (tree, nullifier_index)
      WHERE nullifier_index IS NOT NULL`,
    // Excludes nullified rows, which would slow down counting queued ones.
    sql`CREATE INDEX compression_accounts_to_nullify ON compression_accounts (tree, nullifier_index)
      WHERE nullifier_index IS NOT NULL AND nullified = 0`,
    sql`CREATE TABLE compression_token_accounts (
      hash ${blob} NOT NULL UNIQUE, owner ${blob} NOT NULL, mint ${blob} NOT NULL, delegate ${blob}, state ${int} NOT NULL,
      amount ${blob} NOT NULL, tlv ${blob}, spent ${int} NOT NULL, ata_owner ${blob})`,
    sql`CREATE INDEX compression_token_accounts_by_owner ON compression_token_accounts (owner, mint, hash) WHERE spent = 0`,
    sql`CREATE INDEX compression_token_accounts_by_delegate ON compression_token_accounts (delegate, mint, hash)
      WHERE spent = 0 AND delegate IS NOT NULL`,
    sql`CREATE TABLE compression_balances (owner ${blob} PRIMARY KEY, lamports ${blob} NOT NULL)${clustered}`,
    sql`CREATE TABLE compression_token_balances (
      owner ${blob} NOT NULL, mint ${blob} NOT NULL, amount ${blob} NOT NULL, PRIMARY KEY (owner, mint))${clustered}`,
    sql`CREATE INDEX compression_token_balances_by_mint ON compression_token_balances (mint, amount DESC, owner DESC)`,
    sql`CREATE TABLE compression_early_spends (
      hash ${blob} PRIMARY KEY, slot ${int} NOT NULL, body TEXT NOT NULL)${clustered}`,
  ];
  for (const statement of statements) await statement.execute(tx.db);
}

/** Transactions, blocks, and undo data. */
async function createHistory(tx: StoreTx): Promise<void> {
  const { int, blob, clustered } = typesOf(tx);
  const statements = [
    sql`CREATE TABLE compression_transactions (
      slot ${int} NOT NULL, signature ${blob} NOT NULL, error TEXT, PRIMARY KEY (slot, signature))${clustered}`,
    sql`CREATE TABLE compression_subjects (
      kind ${int} NOT NULL, subject ${blob} NOT NULL, slot ${int} NOT NULL, signature ${blob} NOT NULL,
      PRIMARY KEY (kind, subject, slot, signature))${clustered}`,
    sql`CREATE TABLE compression_recent (
      slot ${int} PRIMARY KEY, block_time ${int}, count ${int} NOT NULL, body TEXT NOT NULL)`,
    sql`CREATE TABLE compression_blocks (slot ${int} PRIMARY KEY, block_time ${int})`,
    sql`CREATE TABLE compression_head (id ${int} PRIMARY KEY, slot ${int} NOT NULL, block_time ${int})`,
    sql`CREATE TABLE compression_undo (slot ${int} PRIMARY KEY, body ${blob} NOT NULL)`,
    sql`CREATE TABLE compression_notes (name TEXT PRIMARY KEY, value TEXT NOT NULL)`,
  ];
  for (const statement of statements) await statement.execute(tx.db);
}

async function createTables(tx: StoreTx): Promise<void> {
  await createTrees(tx);
  await createAccounts(tx);
  await createHistory(tx);
}

export const migrations: readonly Migration[] = [
  { version: 1, name: 'create trees, compressed accounts and their history', breaking: true, up: createTables },
];
