import { sql } from 'kysely';
import type { Migration, StoreTx } from '../../../src/ports/store.ts';

/** Creates the tables of webhooks, of the change log that keeps address indexes current, and of what deliveries leave behind. */
async function createTables(tx: StoreTx): Promise<void> {
  const int = sql.raw(tx.dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
  const blob = sql.raw(tx.dialect === 'sqlite' ? 'BLOB' : 'BYTEA');
  const clustered = sql.raw(tx.dialect === 'sqlite' ? ' WITHOUT ROWID' : '');
  const statements = [
    sql`CREATE TABLE webhooks (
      number ${int} PRIMARY KEY, id TEXT NOT NULL UNIQUE, project_id TEXT NOT NULL, url TEXT NOT NULL, type TEXT NOT NULL,
      transaction_types TEXT NOT NULL, auth_header TEXT, active ${int} NOT NULL, txn_status TEXT, encoding TEXT,
      match_token_owners ${int} NOT NULL, retry_preset TEXT NOT NULL, batch_size ${int} NOT NULL, ordered ${int} NOT NULL,
      on_inactive TEXT NOT NULL, address_count ${int} NOT NULL, next_position ${int} NOT NULL, disabled_reason TEXT,
      disabled_at ${int}, grace_until ${int}, created_at ${int} NOT NULL, updated_at ${int} NOT NULL)`,
    sql`CREATE INDEX webhooks_by_project ON webhooks (project_id, number)`,
    sql`CREATE TABLE webhook_addresses (
      number ${int} NOT NULL, address ${blob} NOT NULL, position ${int} NOT NULL, PRIMARY KEY (number, address))${clustered}`,
    sql`CREATE TABLE webhook_secrets (
      number ${int} NOT NULL, created_at ${int} NOT NULL, secret TEXT NOT NULL, expires_at ${int},
      PRIMARY KEY (number, secret))`,
    // One row: the version of the last change, and the number of the next webhook. Every write updates it first.
    sql`CREATE TABLE webhook_state (id ${int} PRIMARY KEY, version ${int} NOT NULL, next_number ${int} NOT NULL)`,
    sql`INSERT INTO webhook_state (id, version, next_number) VALUES (1, 0, 1)`,
    sql`CREATE TABLE webhook_changes (
      version ${int} NOT NULL, number ${int} NOT NULL, removed ${blob}, added ${blob}, changed_at ${int} NOT NULL,
      PRIMARY KEY (version, number))`,
    sql`CREATE TABLE webhook_blobs (
      signature TEXT NOT NULL, slot ${int} NOT NULL, chain TEXT NOT NULL, json TEXT NOT NULL,
      refs ${int} NOT NULL, created_at ${int} NOT NULL)`,
    // Apart from the rows, which are long: signatures come in no order, and rows are appended.
    sql`CREATE UNIQUE INDEX webhook_blobs_key ON webhook_blobs (signature, slot, chain)`,
    sql`CREATE TABLE webhook_attempts (
      job_id ${int} NOT NULL, started_at ${int} NOT NULL, n ${int} NOT NULL, duration_ms ${int} NOT NULL, status ${int},
      failure TEXT, excerpt ${blob}, PRIMARY KEY (job_id, started_at, n))${clustered}`,
    sql`CREATE INDEX webhook_attempts_by_time ON webhook_attempts (started_at)`,
    sql`CREATE TABLE webhook_health (
      number ${int} NOT NULL, minute ${int} NOT NULL, succeeded ${int} NOT NULL, failed ${int} NOT NULL,
      attempts_ok ${int} NOT NULL, attempts_failed ${int} NOT NULL, last_success_at ${int} NOT NULL,
      PRIMARY KEY (number, minute))${clustered}`,
  ];
  for (const statement of statements) await statement.execute(tx.db);
}

/** Elements in more than one form; batches; pauses of projects; alerts; what a webhook asked to be read again. */
async function addForms(tx: StoreTx): Promise<void> {
  const int = sql.raw(tx.dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
  const clustered = sql.raw(tx.dialect === 'sqlite' ? ' WITHOUT ROWID' : '');
  const statements = [
    sql`ALTER TABLE webhook_blobs ADD COLUMN form TEXT NOT NULL DEFAULT 'raw'`,
    sql`DROP INDEX webhook_blobs_key`,
    sql`CREATE UNIQUE INDEX webhook_blobs_key ON webhook_blobs (signature, slot, chain, form)`,
    sql`ALTER TABLE webhook_attempts ADD COLUMN number ${int}`,
    sql`CREATE INDEX webhook_attempts_by_hook ON webhook_attempts (number, started_at)`,
    // The deliveries that travel in the request of another one, in their order.
    sql`CREATE TABLE webhook_batches (
      job_id ${int} PRIMARY KEY, leader_id ${int} NOT NULL, place ${int} NOT NULL, webhook_id TEXT NOT NULL,
      payload TEXT NOT NULL, created_at ${int} NOT NULL)${clustered}`,
    sql`CREATE INDEX webhook_batches_by_leader ON webhook_batches (leader_id, place)`,
    sql`CREATE INDEX webhook_batches_by_hook ON webhook_batches (webhook_id)`,
    sql`CREATE TABLE webhook_pauses (project_id TEXT PRIMARY KEY, since ${int} NOT NULL)`,
    sql`CREATE TABLE webhook_alerts (
      number ${int} PRIMARY KEY, failing_since ${int}, exhausted ${int} NOT NULL, exhausted_told_at ${int} NOT NULL)`,
    sql`CREATE TABLE webhook_replays (
      id TEXT PRIMARY KEY, number ${int} NOT NULL, chain TEXT NOT NULL, from_slot ${int} NOT NULL, to_slot ${int} NOT NULL,
      force ${int} NOT NULL, gap_id ${int} NOT NULL, queued ${int} NOT NULL, created_at ${int} NOT NULL, finished_at ${int})`,
    sql`CREATE INDEX webhook_replays_open ON webhook_replays (chain, from_slot) WHERE finished_at IS NULL`,
  ];
  for (const statement of statements) await statement.execute(tx.db);
}

async function addWallet(tx: StoreTx): Promise<void> {
  await sql`ALTER TABLE webhooks ADD COLUMN wallet TEXT`.execute(tx.db);
}

/** Batches that were sent: what is sent again out of one goes with all of it, under the id that its receiver knows. */
async function addSentBatches(tx: StoreTx): Promise<void> {
  const int = sql.raw(tx.dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
  const clustered = sql.raw(tx.dialect === 'sqlite' ? ' WITHOUT ROWID' : '');
  await sql`CREATE TABLE webhook_sent_batches (
    job_id ${int} PRIMARY KEY, leader_id ${int} NOT NULL, place ${int} NOT NULL, webhook_id TEXT NOT NULL,
    payload TEXT NOT NULL, created_at ${int} NOT NULL)${clustered}`.execute(tx.db);
  await sql`CREATE INDEX webhook_sent_batches_by_leader ON webhook_sent_batches (leader_id, place)`.execute(tx.db);
}

export const migrations: readonly Migration[] = [
  { version: 1, name: 'create webhooks and deliveries', breaking: false, up: createTables },
  { version: 2, name: 'add forms, batches, pauses, alerts and replays', breaking: true, up: addForms },
  { version: 3, name: 'keep the wallet that made a webhook', breaking: false, up: addWallet },
  { version: 4, name: 'keep what batches held', breaking: false, up: addSentBatches },
];
