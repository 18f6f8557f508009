import type { Job, JobKind, JobOutcome } from '../../../src/plugin/plugin.ts';
import type { SinkEvents } from '../../../src/ports/sink.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { Counter, Metrics } from '../../../src/ports/telemetry.ts';
import type { DisabledReason, Webhook } from '../model.ts';
import type { Alerts } from '../operational.ts';
import { hooksById } from '../store/hooks.ts';
import type { WebhookDb } from '../store/tables.ts';
import {
  type AttemptParts,
  createBodyCache,
  createReports,
  longestDelayMs,
  type PreparedDeliveries,
  prepareDeliveries,
  runDelivery,
} from './attempt.ts';
import { type AutoDisableParts, disableFailing } from './auto-disable.ts';
import { recordOutcomes } from './outcomes.ts';
import type { AttemptResult } from './send.ts';

interface JobKindParts extends Omit<AttemptParts, 'report'> {
  readonly store: Store;
  readonly autoDisable: AutoDisableParts;
  readonly metrics: DeliveryMetrics;
  readonly alerts: Alerts;
  readonly events: SinkEvents | null;
}

/** The kind of job that sends a matched transaction to a webhook. */
export function createDeliveryKind(kind: string, parts: JobKindParts): JobKind {
  const { config, clock, pace, metrics } = parts;
  const reports = createReports(clock);
  const bodies = createBodyCache();
  const runParts: AttemptParts = {
    ...parts,
    report: (job, report) => {
      reports.put(job.id, report);
      metrics.attempt(report.sent);
      if (report.n === 1) metrics.firstAttempt(report.sent.startedAt - job.createdAt);
    },
  };
  return {
    kind,
    summary: 'sends a matched transaction to a webhook',
    concurrency: config.concurrency.global,
    groupConcurrency: pace.concurrency,
    groupAhead: pace.ahead,
    // At most two requests: the second follows a connection that failed at once.
    get timeoutMs() {
      return 2 * Math.max(config.retry.durable.timeoutMs, config.retry.compat.timeoutMs);
    },
    get longestDelayMs() {
      return longestDelayMs(config.retry);
    },
    keepsTime: true,
    async prepare(jobs: readonly Job[]) {
      const prepared = await prepareDeliveries(parts.store, clock, bodies, jobs);
      for (const { hook } of prepared.hooks.values()) pace.learn(hook);
      return prepared;
    },
    run: (job, prepared, signal) => runDelivery(runParts, job, prepared as PreparedDeliveries, signal),
    async ack(tx, finished) {
      const suspects = await recordOutcomes(parts, tx, finished, reports);
      await disableFailing(parts.autoDisable, tx, suspects);
    },
    written(finished) {
      for (const { job, outcome } of finished) {
        reports.take(job.id)?.charge?.finish(true);
        metrics.acked(outcome.kind);
      }
    },
  };
}

/** Loads requested webhooks, those of one turn of the event loop in one query. A failed read is requested again by the next caller. */
export function createHookLoader(store: Store, learn: (hook: Webhook) => unknown): (webhookId: string) => void {
  const asked = new Set<string>();
  let isAnswering = false;

  async function answer(): Promise<void> {
    await Promise.resolve();
    while (asked.size > 0) {
      const ids = [...asked];
      // The store logs its own failures.
      const hooks = await hooksById(store.read as WebhookDb, store.dialect, ids).catch(() => []);
      for (const hook of hooks) learn(hook);
      for (const id of ids) asked.delete(id);
    }
    isAnswering = false;
  }

  return (webhookId) => {
    asked.add(webhookId);
    if (isAnswering) return;
    isAnswering = true;
    void answer();
  };
}

export interface DeliveryMetrics {
  attempt(sent: AttemptResult): void;
  /** From the commit of the block to the first attempt. */
  firstAttempt(delayMs: number): void;
  acked(outcome: JobOutcome['kind']): void;
  matched(count: number): void;
  disabled(reason: DisabledReason): void;
}

const DELAY_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
const SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export function createDeliveryMetrics(metrics: Metrics): DeliveryMetrics {
  const attempt = children(metrics.counter('attempts_total', 'Requests to receivers by outcome', ['outcome']));
  const next = children(
    metrics.counter('attempt_steps_total', 'Finished attempts by the next state of the delivery', ['next']),
  );
  const matched = metrics.counter('matched_total', 'Deliveries made from matched blocks');
  const blocked = metrics.counter(
    'blocked_addresses_total',
    'Attempts refused by the address rules of the outbound client',
  );
  const disabled = children(metrics.counter('auto_disabled_total', 'Webhooks disabled automatically', ['reason']));
  const duration = metrics.histogram('attempt_seconds', 'Duration of one attempt', SECONDS);
  const delay = metrics.histogram(
    'first_attempt_delay_seconds',
    'From the commit of a block to the first attempt of a delivery',
    DELAY_SECONDS,
  );
  return {
    firstAttempt: (delayMs) => delay.record(Math.max(0, delayMs) / 1_000),
    attempt({ verdict, durationMs }) {
      attempt(verdict.failure ?? 'success').add();
      if (verdict.failure === 'blocked_address') blocked.add();
      duration.record(durationMs / 1_000);
    },
    acked: (outcome) => next(outcome).add(),
    matched: (count) => matched.add(count),
    disabled: (reason) => disabled(reason).add(),
  };
}

/** The children of a counter with one label of few values, each resolved once. */
function children(counter: Counter): (label: string) => Counter {
  const known = new Map<string, Counter>();
  return (label) => {
    const found = known.get(label) ?? counter.with(label);
    known.set(label, found);
    return found;
  };
}
