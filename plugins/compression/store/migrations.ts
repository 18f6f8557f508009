import { sql } from 'kysely';
import type { Migration, StoreTx } from '../../../src/ports/store.ts';

/** Names of types that differ between the engines. */
function typesOf({ dialect }: StoreTx) {
  return {
    int: sql.raw(dialect === 'sqlite' ? 'INTEGER' : 'BIGINT'),
    blob: sql.raw(dialect === 'sqlite' ? 'BLOB' : 'BYTEA'),
    clustered: sql.raw(dialect === 'sqlite' ? ' WITHOUT ROWID' : ''),
  };
}

/** Trees and what is in them. */
async function createTrees(tx: StoreTx): Promise<void> {
  const { int, blob, clustered } = typesOf(tx);
  const statements = [
    sql`CREATE TABLE compression_trees (
      id ${int} PRIMARY KEY, key ${blob} NOT NULL UNIQUE, type ${int} NOT NULL, queue ${blob}, height ${int} NOT NULL,
      root_capacity ${int}, next_tree ${blob}, seq ${int} NOT NULL, root ${blob} NOT NULL, next_index ${int} NOT NULL,
      status TEXT NOT NULL, reason TEXT, expected_root ${blob}, computed_root ${blob}, verified_seq ${int},
      verified_slot ${int})`,
    sql`CREATE TABLE compression_foreign (key ${blob} PRIMARY KEY, slot ${int} NOT NULL, reason TEXT NOT NULL)`,
    // With row ids: a page fits a page of the database, and would not in an index.
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
    // An address has a row for each of its changes, and at most one that is unspent.
    sql`CREATE INDEX compression_accounts_by_address ON compression_accounts (address)
      WHERE spent = 0 AND address IS NOT NULL`,
    sql`CREATE INDEX compression_accounts_by_leaf ON compression_accounts (tree, leaf_index)`,
    sql`CREATE INDEX compression_accounts_queued ON compression_accounts (tree, leaf_index) WHERE queued = 1`,
    sql`CREATE INDEX compression_accounts_nullified ON compression_accounts (tree, nullifier_index)
      WHERE nullifier_index IS NOT NULL`,
    // Those that were nullified long ago are in the way of counting what waits.
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

/** Transactions, blocks, and how to take them back. */
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

/** Assets of concurrent trees. */
async function createAssets(tx: StoreTx): Promise<void> {
  const { int, blob, clustered } = typesOf(tx);
  await sql`CREATE TABLE compression_assets (
    id ${blob} PRIMARY KEY, tree ${int} NOT NULL, leaf_index ${int} NOT NULL, leaf ${blob} NOT NULL, seq ${int} NOT NULL)${clustered}`.execute(
    tx.db,
  );
  await sql`CREATE INDEX compression_assets_by_tree ON compression_assets (tree)`.execute(tx.db);
}

export const migrations: readonly Migration[] = [
  { version: 1, name: 'create trees and compressed accounts', breaking: false, up: createTables },
  { version: 2, name: 'create assets of concurrent trees', breaking: false, up: createAssets },
];
