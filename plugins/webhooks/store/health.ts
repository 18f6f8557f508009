import { sql } from 'kysely';
import type { Queries, StoreTx } from '../../../src/ports/store.ts';
import type { WebhookDb } from './tables.ts';

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

/** Adds to the buckets of minutes and days, in a statement each for any number of webhooks. */
export async function addHealth(tx: StoreTx, deltas: readonly HealthDelta[]): Promise<void> {
  if (deltas.length === 0) return;
  await addTo(tx, 'webhook_health', 'minute', deltas);
  const days = new Map<string, HealthDelta>();
  for (const delta of deltas) {
    const minute = Math.floor(delta.minute / DAY_MINUTES);
    const key = `${delta.number} ${minute}`;
    const known = days.get(key);
    days.set(key, known === undefined ? { ...delta, minute } : sumOf(known, delta));
  }
  await addTo(tx, 'webhook_days', 'day', [...days.values()]);
}

const DAY_MINUTES = 1_440;

const sumOf = (sum: HealthDelta, delta: HealthDelta): HealthDelta => ({
  ...sum,
  succeeded: sum.succeeded + delta.succeeded,
  failed: sum.failed + delta.failed,
  attemptsOk: sum.attemptsOk + delta.attemptsOk,
  attemptsFailed: sum.attemptsFailed + delta.attemptsFailed,
  lastSuccessAt: Math.max(sum.lastSuccessAt, delta.lastSuccessAt),
});

/** `minute` of a delta is the number of its bucket. */
async function addTo(
  tx: StoreTx,
  name: 'webhook_health' | 'webhook_days',
  bucketName: 'minute' | 'day',
  deltas: readonly HealthDelta[],
): Promise<void> {
  const [table, bucket] = [sql.raw(name), sql.raw(bucketName)];
  const rows = deltas.map(
    (d) =>
      sql`(${d.number}, ${d.minute}, ${d.succeeded}, ${d.failed}, ${d.attemptsOk}, ${d.attemptsFailed}, ${d.lastSuccessAt})`,
  );
  const later = sql.raw(tx.dialect === 'sqlite' ? 'max' : 'greatest');
  await sql`INSERT INTO ${table}
      (number, ${bucket}, succeeded, failed, attempts_ok, attempts_failed, last_success_at)
    VALUES ${sql.join(rows)}
    ON CONFLICT (number, ${bucket}) DO UPDATE SET
      succeeded = ${table}.succeeded + excluded.succeeded,
      failed = ${table}.failed + excluded.failed,
      attempts_ok = ${table}.attempts_ok + excluded.attempts_ok,
      attempts_failed = ${table}.attempts_failed + excluded.attempts_failed,
      last_success_at = ${later}(${table}.last_success_at, excluded.last_success_at)`.execute(tx.db);
}

/** Days of the picture of a webhook's health. */
export const HEALTH_DAYS = 28;

/** Sums of one UTC day. */
export interface HealthDay {
  /** Days since the epoch. */
  readonly day: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly attemptsOk: number;
  readonly attemptsFailed: number;
  /** Unix milliseconds, 0 for none. */
  readonly lastSuccessAt: number;
}

/** The days of each webhook from `fromDay` on, oldest first; days without deliveries are absent. */
export async function readDays(
  db: WebhookDb,
  numbers: readonly number[],
  fromDay: number,
): Promise<ReadonlyMap<number, readonly HealthDay[]>> {
  const found = new Map<number, HealthDay[]>();
  if (numbers.length === 0) return found;
  const rows = await db
    .selectFrom('webhook_days')
    .selectAll()
    .where('number', 'in', numbers)
    .where('day', '>=', fromDay)
    .orderBy('day')
    .execute();
  for (const row of rows) {
    const days = found.get(row.number) ?? [];
    found.set(row.number, days);
    days.push({
      day: row.day,
      succeeded: row.succeeded,
      failed: row.failed,
      attemptsOk: row.attempts_ok,
      attemptsFailed: row.attempts_failed,
      lastSuccessAt: row.last_success_at,
    });
  }
  return found;
}

/** Attempts of each webhook since a minute. */
export async function recentAttempts(
  db: WebhookDb,
  numbers: readonly number[],
  fromMinute: number,
): Promise<ReadonlyMap<number, { readonly ok: number; readonly failed: number }>> {
  if (numbers.length === 0) return new Map();
  const rows = await db
    .selectFrom('webhook_health')
    .select((of) => ['number', of.fn.sum('attempts_ok').as('ok'), of.fn.sum('attempts_failed').as('failed')])
    .where('number', 'in', numbers)
    .where('minute', '>=', fromMinute)
    .groupBy('number')
    .execute();
  return new Map(rows.map(({ number, ok, failed }) => [number, { ok: Number(ok), failed: Number(failed) }]));
}

/** The sums of the buckets from `fromMinute` on. */
export async function sumHealth(db: WebhookDb, number: number, fromMinute: number): Promise<HealthSums> {
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

export async function resetHealth(db: WebhookDb, number: number): Promise<void> {
  await db.deleteFrom('webhook_health').where('number', '=', number).execute();
}

/** Deletes minutes before `beforeMinute` and days that are no longer shown. `now`: Unix milliseconds. */
export async function pruneHealth(db: WebhookDb, beforeMinute: number, now: number): Promise<void> {
  await db.deleteFrom('webhook_health').where('minute', '<', beforeMinute).execute();
  const today = Math.floor(now / DAY_MINUTES / MINUTE_MS);
  await db
    .deleteFrom('webhook_days')
    .where('day', '<=', today - HEALTH_DAYS)
    .execute();
}

/** Projects whose deliveries wait for credits. */
export async function pausedProjects(db: Queries): Promise<ReadonlySet<string>> {
  const rows = await (db as WebhookDb).selectFrom('webhook_pauses').select('project_id').execute();
  return new Set(rows.map((row) => row.project_id));
}

/** Returns whether it was not paused before. */
export async function pauseProject(tx: StoreTx, projectId: string, since: number): Promise<boolean> {
  const row = await (tx.db as WebhookDb)
    .insertInto('webhook_pauses')
    .values({ project_id: projectId, since })
    .onConflict((conflict) => conflict.column('project_id').doNothing())
    .returning('project_id')
    .executeTakeFirst();
  return row !== undefined;
}

export async function endPause(tx: StoreTx, projectId: string): Promise<void> {
  await (tx.db as WebhookDb).deleteFrom('webhook_pauses').where('project_id', '=', projectId).execute();
}
