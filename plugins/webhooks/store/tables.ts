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
  /** JSON of `ParsedSelection`; null: the webhook is not of type parsed. */
  parsed_filter: string | null;
  name: string | null;
  description: string | null;
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
  /** Elements of request bodies. */
  webhook_elements: {
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
    /** Number of the webhook. */
    number: number;
    started_at: number;
    n: number;
    duration_ms: number;
    status: number | null;
    failure: string | null;
    excerpt: Uint8Array | null;
    /** JSON object of the headers of the response, or null. */
    response_headers: string | null;
  };
  webhook_batches: BatchRow;
  /** Finished batches: a delivery that is sent again goes with its whole batch, under the id that its receiver knows. */
  webhook_sent_batches: BatchRow;
  webhook_pauses: { project_id: string; since: number };
  webhook_alerts: { number: number; failing_since: number | null; exhausted: number; exhausted_reported_at: number };
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
  /** Events that were not stored for lack of room: ranges of slots to replay. */
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
  /** Sums of UTC days, kept for the picture of a webhook's health. */
  webhook_days: {
    number: number;
    /** Days since the epoch. */
    day: number;
    succeeded: number;
    failed: number;
    attempts_ok: number;
    attempts_failed: number;
    last_success_at: number;
  };
  /** Where projects want to be told of failing webhooks. */
  webhook_contacts: { project_id: string; url: string; format: string; updated_at: number };
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

/** A delivery in the request of another one, its leader; a leader without members is its own member. */
interface BatchRow {
  job_id: number;
  leader_id: number;
  position: number;
  webhook_id: string;
  payload: string;
  created_at: number;
}

/** Query handle with the tables of the plugin. */
export type WebhookDb = Queries<Tables>;

async function createTables(tx: StoreTx): Promise<void> {
  const int = sql.raw(tx.dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
  const bytes = sql.raw(tx.dialect === 'sqlite' ? 'BLOB' : 'BYTEA');
  const clustered = sql.raw(tx.dialect === 'sqlite' ? ' WITHOUT ROWID' : '');
  const batchColumns = sql`job_id ${int} PRIMARY KEY, leader_id ${int} NOT NULL, position ${int} NOT NULL,
    webhook_id TEXT NOT NULL, payload TEXT NOT NULL, created_at ${int} NOT NULL`;
  const statements = [
    sql`CREATE TABLE webhooks (
      number ${int} PRIMARY KEY, id TEXT NOT NULL UNIQUE, project_id TEXT NOT NULL, url TEXT NOT NULL, type TEXT NOT NULL,
      transaction_types TEXT NOT NULL, auth_header TEXT, active ${int} NOT NULL, txn_status TEXT, encoding TEXT,
      match_token_owners ${int} NOT NULL, retry_preset TEXT NOT NULL, batch_size ${int} NOT NULL, ordered ${int} NOT NULL,
      on_inactive TEXT NOT NULL, address_count ${int} NOT NULL, next_position ${int} NOT NULL, disabled_reason TEXT,
      disabled_at ${int}, grace_until ${int}, created_at ${int} NOT NULL, updated_at ${int} NOT NULL, wallet TEXT)`,
    sql`CREATE INDEX webhooks_by_project ON webhooks (project_id, number)`,
    sql`CREATE TABLE webhook_addresses (
      number ${int} NOT NULL, address ${bytes} NOT NULL, position ${int} NOT NULL, PRIMARY KEY (number, address))${clustered}`,
    sql`CREATE TABLE webhook_secrets (
      number ${int} NOT NULL, created_at ${int} NOT NULL, secret TEXT NOT NULL, expires_at ${int},
      PRIMARY KEY (number, secret))`,
    // One row: the version of the last change, and the number of the next webhook. Every write updates it first.
    sql`CREATE TABLE webhook_state (id ${int} PRIMARY KEY, version ${int} NOT NULL, next_number ${int} NOT NULL)`,
    sql`INSERT INTO webhook_state (id, version, next_number) VALUES (1, 0, 1)`,
    sql`CREATE TABLE webhook_changes (
      version ${int} NOT NULL, number ${int} NOT NULL, removed ${bytes}, added ${bytes}, changed_at ${int} NOT NULL,
      PRIMARY KEY (version, number))`,
    sql`CREATE TABLE webhook_elements (
      signature TEXT NOT NULL, slot ${int} NOT NULL, chain TEXT NOT NULL, form TEXT NOT NULL, json TEXT NOT NULL,
      refs ${int} NOT NULL, created_at ${int} NOT NULL)`,
    // Not a clustered key: rows are long and appended, and signatures are unordered.
    sql`CREATE UNIQUE INDEX webhook_elements_key ON webhook_elements (signature, slot, chain, form)`,
    sql`CREATE TABLE webhook_attempts (
      job_id ${int} NOT NULL, started_at ${int} NOT NULL, n ${int} NOT NULL, number ${int} NOT NULL,
      duration_ms ${int} NOT NULL, status ${int}, failure TEXT, excerpt ${bytes}, response_headers TEXT,
      PRIMARY KEY (job_id, started_at, n))${clustered}`,
    sql`CREATE INDEX webhook_attempts_by_time ON webhook_attempts (started_at)`,
    sql`CREATE INDEX webhook_attempts_by_webhook ON webhook_attempts (number, started_at)`,
    sql`CREATE TABLE webhook_batches (${batchColumns})${clustered}`,
    sql`CREATE INDEX webhook_batches_by_leader ON webhook_batches (leader_id, position)`,
    sql`CREATE INDEX webhook_batches_by_webhook ON webhook_batches (webhook_id)`,
    sql`CREATE TABLE webhook_sent_batches (${batchColumns})${clustered}`,
    sql`CREATE INDEX webhook_sent_batches_by_leader ON webhook_sent_batches (leader_id, position)`,
    sql`CREATE TABLE webhook_health (
      number ${int} NOT NULL, minute ${int} NOT NULL, succeeded ${int} NOT NULL, failed ${int} NOT NULL,
      attempts_ok ${int} NOT NULL, attempts_failed ${int} NOT NULL, last_success_at ${int} NOT NULL,
      PRIMARY KEY (number, minute))${clustered}`,
    sql`CREATE TABLE webhook_pauses (project_id TEXT PRIMARY KEY, since ${int} NOT NULL)`,
    sql`CREATE TABLE webhook_alerts (
      number ${int} PRIMARY KEY, failing_since ${int}, exhausted ${int} NOT NULL, exhausted_reported_at ${int} NOT NULL)`,
    sql`CREATE TABLE webhook_replays (
      id TEXT PRIMARY KEY, number ${int} NOT NULL, chain TEXT NOT NULL, from_slot ${int} NOT NULL, to_slot ${int} NOT NULL,
      force ${int} NOT NULL, gap_id ${int} NOT NULL, queued ${int} NOT NULL, created_at ${int} NOT NULL, finished_at ${int})`,
    sql`CREATE INDEX webhook_replays_open ON webhook_replays (chain, from_slot) WHERE finished_at IS NULL`,
    sql`CREATE TABLE webhook_missed (
      number ${int} NOT NULL, chain TEXT NOT NULL, from_slot ${int} NOT NULL, to_slot ${int} NOT NULL, events ${int} NOT NULL,
      reason TEXT NOT NULL, created_at ${int} NOT NULL, updated_at ${int} NOT NULL,
      PRIMARY KEY (number, chain, from_slot))${clustered}`,
  ];
  for (const statement of statements) await statement.execute(tx.db);
}

export const migrations: readonly Migration[] = [
  { version: 1, name: 'create webhooks, deliveries and attempts', breaking: false, up: createTables },
  {
    version: 2,
    name: 'add filters of parsed webhooks',
    breaking: false,
    up: async (tx) => void (await tx.db.schema.alterTable('webhooks').addColumn('parsed_filter', 'text').execute()),
  },
  {
    version: 3,
    name: 'find elements by their slot',
    breaking: false,
    // Signatures are unordered: by them, each element of a block had a page of the index to itself.
    async up(tx) {
      await sql`DROP INDEX webhook_elements_key`.execute(tx.db);
      await sql`CREATE UNIQUE INDEX webhook_elements_by_slot ON webhook_elements (chain, slot, signature, form)`.execute(
        tx.db,
      );
    },
  },
  {
    version: 4,
    name: 'drop the index of attempts by time, by which nothing looks',
    breaking: false,
    up: async (tx) => void (await sql`DROP INDEX webhook_attempts_by_time`.execute(tx.db)),
  },
  {
    version: 5,
    name: 'add names of webhooks and sums of days',
    breaking: false,
    async up(tx) {
      const int = sql.raw(tx.dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
      const clustered = sql.raw(tx.dialect === 'sqlite' ? ' WITHOUT ROWID' : '');
      await tx.db.schema.alterTable('webhooks').addColumn('name', 'text').execute();
      await tx.db.schema.alterTable('webhooks').addColumn('description', 'text').execute();
      await sql`CREATE TABLE webhook_days (
        number ${int} NOT NULL, day ${int} NOT NULL, succeeded ${int} NOT NULL, failed ${int} NOT NULL,
        attempts_ok ${int} NOT NULL, attempts_failed ${int} NOT NULL, last_success_at ${int} NOT NULL,
        PRIMARY KEY (number, day))${clustered}`.execute(tx.db);
    },
  },
  {
    version: 6,
    name: 'add contacts of projects',
    breaking: false,
    async up(tx) {
      const int = sql.raw(tx.dialect === 'sqlite' ? 'INTEGER' : 'BIGINT');
      await sql`CREATE TABLE webhook_contacts (
        project_id TEXT PRIMARY KEY, url TEXT NOT NULL, format TEXT NOT NULL, updated_at ${int} NOT NULL)`.execute(
        tx.db,
      );
    },
  },
];
