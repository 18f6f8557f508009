import type { Queries } from '../../../src/ports/store.ts';

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
