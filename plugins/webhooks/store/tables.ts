import { sql } from 'kysely';
import type { Migration, Queries, StoreTx } from '../../../src/ports/store.ts';

export interface WebhookRow {
  number: number;
  id: string;
  project_id: string;
  url: string;
  type: string;
  transaction_types: string;
  auth_header: string | null;
  active: number;
  txn_status: string | null;
  encoding: string | null;
  match_token_owners: number;
  retry_preset: string;
  batch_size: number;
  ordered: number;
  on_inactive: string;
  address_count: number;
  next_position: number;
  disabled_reason: string | null;
  disabled_at: number | null;
  grace_until: number | null;
  created_at: number;
  updated_at: number;
  wallet: string | null;
}

interface Tables {
  webhooks: WebhookRow;
  webhook_addresses: { number: number; address: Uint8Array; position: number };
  webhook_secrets: { number: number; created_at: number; secret: string; expires_at: number | null };
  webhook_state: { id: number; version: number; next_number: number };
  webhook_changes: {
    version: number;
    number: number;
    removed: Uint8Array | null;
    added: Uint8Array | null;
    changed_at: number;
  };
  webhook_blobs: {
    signature: string;
    slot: number;
    chain: string;
    form: string;
    json: string;
    refs: number;
    created_at: number;
  };
  webhook_attempts: {
    job_id: number;
    /** Of the webhook; null in rows of an older version. */
    number: number | null;
    started_at: number;
    n: number;
    duration_ms: number;
    status: number | null;
    failure: string | null;
    excerpt: Uint8Array | null;
  };
  webhook_batches: BatchRow;
  /** Those that are over. */
  webhook_sent_batches: BatchRow;
  webhook_pauses: { project_id: string; since: number };
  webhook_alerts: { number: number; failing_since: number | null; exhausted: number; exhausted_told_at: number };
  webhook_replays: {
    id: string;
    number: number;
    chain: string;
    from_slot: number;
    to_slot: number;
    /** 0 or 1 */
    force: number;
    gap_id: number;
    queued: number;
    created_at: number;
    finished_at: number | null;
  };
  webhook_missed: {
    number: number;
    chain: string;
    from_slot: number;
    /** Inclusive. */
    to_slot: number;
    events: number;
    reason: string;
    created_at: number;
    updated_at: number;
  };
  webhook_health: {
    number: number;
    minute: number;
    succeeded: number;
    failed: number;
    attempts_ok: number;
    attempts_failed: number;
    last_success_at: number;
  };
}

/** A delivery that travels in the request of another one. */
interface BatchRow {
  job_id: number;
  leader_id: number;
  place: number;
  webhook_id: string;
  payload: string;
  created_at: number;
}

/** The plugin's tables behind a query handle. */
export type Db = Queries<Tables>;

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

/** Events that were not stored because there was no room: ranges that can be read from the chain again. */
async function addMissed(tx: StoreTx): Promise<void> {
  const int = sql.raw(tx.dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
  const clustered = sql.raw(tx.dialect === 'sqlite' ? ' WITHOUT ROWID' : '');
  await sql`CREATE TABLE webhook_missed (
    number ${int} NOT NULL, chain TEXT NOT NULL, from_slot ${int} NOT NULL, to_slot ${int} NOT NULL, events ${int} NOT NULL,
    reason TEXT NOT NULL, created_at ${int} NOT NULL, updated_at ${int} NOT NULL,
    PRIMARY KEY (number, chain, from_slot))${clustered}`.execute(tx.db);
}

export const migrations: readonly Migration[] = [
  { version: 1, name: 'create webhooks and deliveries', breaking: false, up: createTables },
  { version: 2, name: 'add forms, batches, pauses, alerts and replays', breaking: true, up: addForms },
  { version: 3, name: 'keep the wallet that made a webhook', breaking: false, up: addWallet },
  { version: 4, name: 'keep what batches held', breaking: false, up: addSentBatches },
  { version: 5, name: 'count events that had no room', breaking: false, up: addMissed },
];
