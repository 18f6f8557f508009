import type { SettledJob } from '../../../src/kernel/plugin.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import type { Webhook } from '../model/webhook.ts';
import { type Attempt, insertAttempts } from '../store/attempts.ts';
import { addHealth, type HealthDelta, MINUTE_MS } from '../store/health.ts';
import { hooksById } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';
import type { Report } from './run.ts';

/** A webhook one of whose deliveries failed for good, or whose receiver is gone. */
export interface Suspect {
  readonly hook: Webhook;
  readonly gone: boolean;
}

/** Writes attempts and counters of finished attempts, and returns the webhooks that may have to be disabled. */
export async function bookDeliveries(
  tx: StoreTx,
  clock: Clock,
  settled: readonly SettledJob[],
  reports: ReadonlyMap<number, Report>,
): Promise<readonly Suspect[]> {
  const attempts: Attempt[] = [];
  const deltas = new Map<string, HealthDelta>();
  const suspects = new Map<string, Suspect>();
  const unsent = await hooksOfUnsent(tx, settled, reports);
  for (const { job, outcome } of settled) {
    const report = reports.get(job.id);
    const hook = report?.hook ?? unsent.get(job.group);
    if (hook === undefined) continue;
    if (report !== undefined) attempts.push(attemptOf(job.id, report));
    const failed = outcome.kind === 'failed';
    if (report === undefined && !failed) continue;
    const now = clock.now();
    const ok = outcome.kind === 'done';
    merge(deltas, {
      number: hook.number,
      minute: Math.floor(now / MINUTE_MS),
      succeeded: ok ? 1 : 0,
      failed: failed ? 1 : 0,
      attemptsOk: ok ? 1 : 0,
      attemptsFailed: report !== undefined && !ok ? 1 : 0,
      lastSuccessAt: ok ? now : 0,
    });
    const gone = report?.sent.verdict.gone === true || suspects.get(hook.id)?.gone === true;
    // Counts of a whole day matter too, so that an attempt which will be repeated can be the last straw.
    if (!ok) suspects.set(hook.id, { hook, gone });
  }
  await insertAttempts(tx, attempts);
  await addHealth(tx, [...deltas.values()]);
  return [...suspects.values()];
}

/** A delivery can fail without an attempt, when it could not be built: its webhook is not in a report then. */
async function hooksOfUnsent(
  tx: StoreTx,
  settled: readonly SettledJob[],
  reports: ReadonlyMap<number, Report>,
): Promise<ReadonlyMap<string, Webhook>> {
  const ids = settled
    .filter(({ job, outcome }) => outcome.kind === 'failed' && !reports.has(job.id))
    .map(({ job }) => job.group);
  const hooks = await hooksById(tx.db as Db, tx.dialect, [...new Set(ids)]);
  return new Map(hooks.map((hook) => [hook.id, hook]));
}

function attemptOf(jobId: number, { hook, sent, n }: Report): Attempt {
  const { status, failure, excerpt } = sent.verdict;
  return {
    jobId,
    number: hook.number,
    n,
    startedAt: sent.startedAt,
    durationMs: sent.durationMs,
    status,
    failure,
    excerpt,
  };
}

function merge(deltas: Map<string, HealthDelta>, delta: HealthDelta): void {
  const key = `${delta.number}:${delta.minute}`;
  const known = deltas.get(key);
  if (known === undefined) {
    deltas.set(key, delta);
    return;
  }
  deltas.set(key, {
    ...known,
    succeeded: known.succeeded + delta.succeeded,
    failed: known.failed + delta.failed,
    attemptsOk: known.attemptsOk + delta.attemptsOk,
    attemptsFailed: known.attemptsFailed + delta.attemptsFailed,
    lastSuccessAt: Math.max(known.lastSuccessAt, delta.lastSuccessAt),
  });
}
