import { sql } from 'kysely';
import type { Queries, StoreTx } from '../../../src/ports/store.ts';
import type { Db } from './tables.ts';

export const MINUTE_MS = 60_000;

/** Results of a webhook within one minute. */
export interface HealthDelta {
  readonly number: number;
  readonly minute: number;
  /** Finished deliveries. */
  readonly succeeded: number;
  readonly failed: number;
  readonly attemptsOk: number;
  readonly attemptsFailed: number;
  /** Unix milliseconds, 0 for none. */
  readonly lastSuccessAt: number;
}

interface HealthSums {
  readonly succeeded: number;
  readonly failed: number;
  readonly attemptsOk: number;
  readonly attemptsFailed: number;
  readonly lastSuccessAt: number;
}

/** Adds to the minute buckets, in one statement for any number of webhooks. */
export async function addHealth(tx: StoreTx, deltas: readonly HealthDelta[]): Promise<void> {
  if (deltas.length === 0) return;
  const rows = deltas.map(
    (d) =>
      sql`(${d.number}, ${d.minute}, ${d.succeeded}, ${d.failed}, ${d.attemptsOk}, ${d.attemptsFailed}, ${d.lastSuccessAt})`,
  );
  const later = sql.raw(tx.dialect === 'sqlite' ? 'max' : 'greatest');
  await sql`INSERT INTO webhook_health
      (number, minute, succeeded, failed, attempts_ok, attempts_failed, last_success_at)
    VALUES ${sql.join(rows)}
    ON CONFLICT (number, minute) DO UPDATE SET
      succeeded = webhook_health.succeeded + excluded.succeeded,
      failed = webhook_health.failed + excluded.failed,
      attempts_ok = webhook_health.attempts_ok + excluded.attempts_ok,
      attempts_failed = webhook_health.attempts_failed + excluded.attempts_failed,
      last_success_at = ${later}(webhook_health.last_success_at, excluded.last_success_at)`.execute(tx.db);
}

/** The sums of the buckets from `fromMinute` on. */
export async function sumHealth(db: Db, number: number, fromMinute: number): Promise<HealthSums> {
  const row = await db
    .selectFrom('webhook_health')
    .select((of) => [
      of.fn.sum('succeeded').as('succeeded'),
      of.fn.sum('failed').as('failed'),
      of.fn.sum('attempts_ok').as('attemptsOk'),
      of.fn.sum('attempts_failed').as('attemptsFailed'),
      of.fn.max('last_success_at').as('lastSuccessAt'),
    ])
    .where('number', '=', number)
    .where('minute', '>=', fromMinute)
    .executeTakeFirst();
  return {
    succeeded: Number(row?.succeeded ?? 0),
    failed: Number(row?.failed ?? 0),
    attemptsOk: Number(row?.attemptsOk ?? 0),
    attemptsFailed: Number(row?.attemptsFailed ?? 0),
    lastSuccessAt: Number(row?.lastSuccessAt ?? 0),
  };
}

export async function resetHealth(db: Db, number: number): Promise<void> {
  await db.deleteFrom('webhook_health').where('number', '=', number).execute();
}

export async function pruneHealth(db: Db, beforeMinute: number): Promise<void> {
  await db.deleteFrom('webhook_health').where('minute', '<', beforeMinute).execute();
}

/** Projects whose deliveries wait for credits. */
export async function pausedProjects(db: Queries): Promise<ReadonlySet<string>> {
  const rows = await (db as Db).selectFrom('webhook_pauses').select('project_id').execute();
  return new Set(rows.map((row) => row.project_id));
}

/** Returns whether it was not paused before. */
export async function pauseProject(tx: StoreTx, projectId: string, since: number): Promise<boolean> {
  const row = await (tx.db as Db)
    .insertInto('webhook_pauses')
    .values({ project_id: projectId, since })
    .onConflict((conflict) => conflict.column('project_id').doNothing())
    .returning('project_id')
    .executeTakeFirst();
  return row !== undefined;
}

export async function endPause(tx: StoreTx, projectId: string): Promise<void> {
  await (tx.db as Db).deleteFrom('webhook_pauses').where('project_id', '=', projectId).execute();
}
