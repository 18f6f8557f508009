import type { StoreTx } from '../../../src/ports/store.ts';
import type { Db } from './tables.ts';

/** One request that was made, or could not be made, for a delivery. */
export interface Attempt {
  readonly jobId: number;
  /** Of the webhook. */
  readonly number: number;
  /** 1-based, within its series. */
  readonly n: number;
  /** Unix milliseconds. */
  readonly startedAt: number;
  readonly durationMs: number;
  readonly status: number | null;
  readonly failure: string | null;
  /** The first bytes of the response. */
  readonly excerpt: Uint8Array | null;
}

export async function insertAttempts(tx: StoreTx, attempts: readonly Attempt[]): Promise<void> {
  await tx.insertMany(
    'webhook_attempts',
    ['job_id', 'number', 'started_at', 'n', 'duration_ms', 'status', 'failure', 'excerpt'],
    attempts.map((a) => [a.jobId, a.number, a.startedAt, a.n, a.durationMs, a.status, a.failure, a.excerpt]),
    'ignore',
  );
}

/** The attempts of each of the deliveries, oldest first. */
export async function readAttempts(
  db: Db,
  jobIds: readonly number[],
): Promise<ReadonlyMap<number, readonly Attempt[]>> {
  const found = new Map<number, Attempt[]>();
  if (jobIds.length === 0) return found;
  const rows = await db
    .selectFrom('webhook_attempts')
    .selectAll()
    .where('job_id', 'in', jobIds)
    .orderBy('job_id')
    .orderBy('started_at')
    .orderBy('n')
    .execute();
  for (const row of rows) {
    const attempt: Attempt = {
      jobId: row.job_id,
      number: row.number ?? 0,
      n: row.n,
      startedAt: row.started_at,
      durationMs: row.duration_ms,
      status: row.status,
      failure: row.failure,
      excerpt: row.excerpt,
    };
    const known = found.get(row.job_id);
    if (known === undefined) found.set(row.job_id, [attempt]);
    else known.push(attempt);
  }
  return found;
}

export async function removeAttempts(db: Db, jobIds: readonly number[]): Promise<void> {
  if (jobIds.length === 0) return;
  await db.deleteFrom('webhook_attempts').where('job_id', 'in', jobIds).execute();
}
