import type { FinishedJob } from '../../../src/plugin/plugin.ts';
import type { ChainId } from '../../../src/ports/chain.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { SinkEvents, SinkRow } from '../../../src/ports/sink.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import { type DeliveryPayload, REASONS, type Webhook } from '../model.ts';
import type { Alerts } from '../operational.ts';
import { endBatches, insertAttempts, keepSent, readBatches, type StoredAttempt } from '../store/deliveries.ts';
import { addHealth, type HealthDelta, MINUTE_MS, pauseProject } from '../store/health.ts';
import { hooksById } from '../store/hooks.ts';
import type { WebhookDb } from '../store/tables.ts';
import type { Report, Reports } from './attempt.ts';
import type { DeliveryQueue } from './queue.ts';

/** A webhook with a permanently failed delivery, or whose receiver is gone. */
export interface Suspect {
  readonly hook: Webhook;
  readonly gone: boolean;
}

export interface OutcomeParts {
  readonly clock: Clock;
  readonly queue: DeliveryQueue;
  readonly alerts: Alerts;
  /** Null: no sinks. */
  readonly events: SinkEvents | null;
}

/** Writes attempts, counters and batches of finished attempts, and returns the webhooks that may have to be disabled. */
export async function recordOutcomes(
  parts: OutcomeParts,
  tx: StoreTx,
  finished: readonly FinishedJob[],
  reports: Pick<Reports, 'get'>,
): Promise<readonly Suspect[]> {
  const { clock } = parts;
  const attempts: StoredAttempt[] = [];
  const deltas = new Map<string, HealthDelta>();
  const suspects = new Map<string, Suspect>();
  const unsent = await hooksOfUnsent(tx, finished, reports);
  for (const { job, outcome } of finished) {
    const report = reports.get(job.id);
    const hook = report?.hook ?? unsent.get(job.group);
    if (hook === undefined) continue;
    if (report !== undefined) attempts.push(...attemptsOf(job.id, report));
    const failed = outcome.kind === 'failed';
    if (report === undefined && !failed) continue;
    const now = clock.now();
    const ok = outcome.kind === 'done';
    const count = 1 + (report?.members.length ?? 0);
    merge(deltas, {
      number: hook.number,
      minute: Math.floor(now / MINUTE_MS),
      succeeded: ok ? count : 0,
      failed: failed ? count : 0,
      attemptsOk: ok ? count : 0,
      attemptsFailed: report !== undefined && !ok ? count : 0,
      lastSuccessAt: ok ? now : 0,
    });
    const gone = report?.sent.verdict.gone === true || suspects.get(hook.id)?.gone === true;
    // The rule over a day counts attempts too, so an attempt that will be retried can disable the webhook.
    if (!ok) suspects.set(hook.id, { hook, gone });
  }
  await insertAttempts(tx, attempts);
  await tellSinks(parts.events, tx, finished, reports);
  await addHealth(tx, [...deltas.values()]);
  await finishBatches(parts, tx, finished, reports);
  await recordPauses(parts, tx, finished, unsent);
  await parts.alerts.note(tx, finished, reports);
  return [...suspects.values()];
}

const SINK_TABLE = 'deliveries';

/** A row per attempt and delivery, for sinks that write them. */
async function tellSinks(
  events: SinkEvents | null,
  tx: StoreTx,
  finished: readonly FinishedJob[],
  reports: Pick<Reports, 'get'>,
): Promise<void> {
  if (events === null) return;
  const rows = new Map<ChainId, SinkRow[]>();
  for (const { job, outcome } of finished) {
    const report = reports.get(job.id);
    const own = job.payload as DeliveryPayload;
    if (report === undefined || !events.wants(own.chain, SINK_TABLE)) continue;
    const { hook, sent, n, members } = report;
    for (const { id, payload } of [{ id: job.id, payload: own }, ...members]) {
      const list = rows.get(own.chain) ?? [];
      rows.set(own.chain, list);
      list.push([
        id,
        hook.id,
        hook.projectId,
        payload.signature,
        payload.slot,
        n,
        Math.round(sent.startedAt),
        Math.round(sent.durationMs),
        sent.verdict.status,
        sent.verdict.failure,
        outcome.kind,
      ]);
    }
  }
  for (const [chain, list] of rows) await events.add(tx, chain, SINK_TABLE, list);
}

/** All deliveries of a request share its outcome. */
async function finishBatches(
  { queue }: OutcomeParts,
  tx: StoreTx,
  finished: readonly FinishedJob[],
  reports: Pick<Reports, 'get'>,
): Promise<void> {
  const over: number[] = [];
  for (const { job, outcome } of finished) {
    const report = reports.get(job.id);
    if (report?.isFixed !== true) continue;
    const { members } = report;
    const isOver = outcome.kind === 'done' || outcome.kind === 'failed';
    // A delivery without a batch that has been attempted is sent alone anyway.
    if (isOver || members.length === 0) over.push(job.id);
    if (!isOver || members.length === 0) continue;
    const end = outcome.kind === 'done' ? ({ state: 'done' } as const) : { state: outcome.kind, error: outcome.error };
    const ids = members.map(({ id }) => id);
    await queue.finishMembers(tx, job, ids, end);
  }
  await keepSent(tx, over);
  await endBatches(tx, await dropMembers(queue, tx, finished, reports));
}

/** A leader discarded because its webhook is off takes its members with it. Returns such leaders. */
async function dropMembers(
  queue: DeliveryQueue,
  tx: StoreTx,
  finished: readonly FinishedJob[],
  reports: Pick<Reports, 'get'>,
): Promise<readonly number[]> {
  const dropped = finished.filter(({ job, outcome }) => outcome.kind === 'discarded' && !reports.get(job.id));
  const leaders = dropped.map(({ job }) => job.id);
  const batches = await readBatches(tx.db, tx.dialect, leaders);
  for (const { job, outcome } of dropped) {
    const ids = batches.get(job.id)?.map(({ id }) => id) ?? [];
    if (ids.length > 0 && outcome.kind === 'discarded') await queue.discardMembers(tx, ids, outcome.error);
  }
  return [...batches.keys()];
}

/** A project without credits is paused as a whole: logged once, then checked every few seconds. */
async function recordPauses(
  { clock, alerts }: OutcomeParts,
  tx: StoreTx,
  finished: readonly FinishedJob[],
  hooks: ReadonlyMap<string, Webhook>,
): Promise<void> {
  const projects = new Set<string>();
  for (const { job, outcome } of finished) {
    const hook = outcome.kind === 'held' && outcome.reason === REASONS.credits ? hooks.get(job.group) : undefined;
    if (hook !== undefined) projects.add(hook.projectId);
  }
  for (const projectId of projects) {
    if (await pauseProject(tx, projectId, clock.now())) await alerts.paused(tx, projectId);
  }
}

/** A delivery can end without an attempt, when it could not be built or paid: its webhook is not in a report then. */
async function hooksOfUnsent(
  tx: StoreTx,
  finished: readonly FinishedJob[],
  reports: Pick<Reports, 'get'>,
): Promise<ReadonlyMap<string, Webhook>> {
  const ids = finished
    .filter(({ job, outcome }) => (outcome.kind === 'failed' || outcome.kind === 'held') && !reports.get(job.id))
    .map(({ job }) => job.group);
  const hooks = await hooksById(tx.db as WebhookDb, tx.dialect, [...new Set(ids)]);
  return new Map(hooks.map((hook) => [hook.id, hook]));
}

function attemptsOf(jobId: number, { hook, sent, n, members }: Report): StoredAttempt[] {
  const { status, failure, excerpt, responseHeaders } = sent.verdict;
  const { startedAt, durationMs } = sent;
  return [jobId, ...members.map(({ id }) => id)].map((id) => ({
    jobId: id,
    number: hook.number,
    n,
    startedAt,
    durationMs,
    status,
    failure,
    excerpt,
    responseHeaders,
  }));
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
