import { sql } from 'kysely';
import type { Migration, StoreTx } from '../../../src/ports/store.ts';
import { packTail, type TailPart, unpackTail } from './tail.ts';

async function createTables(tx: StoreTx): Promise<void> {
  const int = sql.raw(tx.dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
  const blob = sql.raw(tx.dialect === 'sqlite' ? 'BLOB' : 'BYTEA');
  const seed = sql.raw(
    tx.dialect === 'sqlite' ? 'randomblob(32)' : "decode(md5(random()::text) || md5(random()::text), 'hex')",
  );
  const clustered = sql.raw(tx.dialect === 'sqlite' ? ' WITHOUT ROWID' : '');
  const statements = [
    sql`CREATE TABLE wallet_wallets (
      id ${int} PRIMARY KEY, address TEXT NOT NULL UNIQUE, asked_at ${int} NOT NULL, is_pinned ${int} NOT NULL,
      is_followed ${int} NOT NULL, floor ${int}, head ${int}, is_complete ${int} NOT NULL, pruned_below ${int},
      pruned_at ${int}, live_from ${int}, changed ${int} NOT NULL, found ${int} NOT NULL, trouble TEXT)`,
    sql`CREATE INDEX wallet_wallets_by_change ON wallet_wallets (changed)`,
    sql`CREATE TABLE wallet_accounts (
      wallet ${int} NOT NULL, account ${blob} NOT NULL, mint ${blob} NOT NULL, PRIMARY KEY (wallet, account, mint))${clustered}`,
    // a: number of the address (see keys.ts); n = slot * 65536 + place in the block.
    sql`CREATE TABLE wallet_rows (
      a ${int} NOT NULL, n ${int} NOT NULL, flags ${int} NOT NULL, PRIMARY KEY (a, n))${clustered}`,
    // Rows of blocks that may be taken back, a blob for each block; merged into wallet_rows many at once when they are final.
    sql`CREATE TABLE wallet_tail (slot ${int} PRIMARY KEY, rows ${blob} NOT NULL)`,
    sql`CREATE TABLE wallet_transactions (n ${int} PRIMARY KEY, tag ${int} NOT NULL, signature ${blob} NOT NULL)`,
    // The first bytes of a signature: shorter than it, and it is compared behind them.
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

/** What was one blob of a block is one for each part of the addresses. */
async function splitTail(tx: StoreTx): Promise<void> {
  const int = sql.raw(tx.dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
  const blob = sql.raw(tx.dialect === 'sqlite' ? 'BLOB' : 'BYTEA');
  const { rows: whole } = await sql<Pick<TailPart, 'slot' | 'rows'>>`SELECT slot, rows FROM wallet_tail`.execute(tx.db);
  await sql`DROP TABLE wallet_tail`.execute(tx.db);
  await sql`CREATE TABLE wallet_tail (
    part ${int} NOT NULL, slot ${int} NOT NULL, rows ${blob} NOT NULL, PRIMARY KEY (part, slot))`.execute(tx.db);
  const parts = whole.flatMap((block) => packTail(block.slot, unpackTail(block)));
  const values = parts.map(({ part, slot, rows }) => [part, slot, rows]);
  await tx.insertMany('wallet_tail', ['part', 'slot', 'rows'], values);
}

export const migrations: readonly Migration[] = [
  { version: 1, name: 'create wallets and their history', breaking: false, up: createTables },
  { version: 2, name: 'keep what is not final in parts', breaking: true, up: splitTail },
];
