import type { Job, JobKind } from '../../../src/plugin/plugin.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { Webhook } from '../model/webhook.ts';
import type { Alerts } from '../operational/alerts.ts';
import { hooksById } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';
import { type AutoDisableParts, disableFailing } from './auto-disable.ts';
import type { DeliveryMetrics } from './metrics.ts';
import { createBodies, type Prepared, prepareDeliveries } from './prepare.ts';
import { createReports, longestDelayMs, type RunParts, runDelivery } from './run.ts';
import { bookDeliveries } from './settle.ts';

interface JobKindParts extends Omit<RunParts, 'report'> {
  readonly store: Store;
  readonly autoDisable: AutoDisableParts;
  readonly metrics: DeliveryMetrics;
  readonly alerts: Alerts;
}

/** The kind of job that sends a matched transaction to a webhook. */
export function createDeliveryKind(kind: string, parts: JobKindParts): JobKind {
  const { config, clock, pace, metrics } = parts;
  const reports = createReports(clock);
  const bodies = createBodies();
  const runParts: RunParts = {
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
    // Two requests at most: the second follows a connection that failed at once.
    timeoutMs: 2 * Math.max(config.retry.durable.timeoutMs, config.retry.compat.timeoutMs),
    longestDelayMs: longestDelayMs(config.retry),
    keepsTime: true,
    async prepare(jobs: readonly Job[]) {
      const prepared = await prepareDeliveries(parts.store, clock, bodies, jobs);
      for (const { hook } of prepared.hooks.values()) pace.learn(hook);
      return prepared;
    },
    run: (job, prepared, signal) => runDelivery(runParts, job, prepared as Prepared, signal),
    async settle(tx, settled) {
      const suspects = await bookDeliveries(parts, tx, settled, reports);
      await disableFailing(parts.autoDisable, tx, suspects);
    },
    written(settled) {
      for (const { job, outcome } of settled) {
        reports.take(job.id)?.charge?.settle(true);
        metrics.settled(outcome.kind);
      }
    },
  };
}

/** Looks up webhooks that were asked for, those of one turn in one query. What cannot be read now is asked for again by whoever needs it. */
export function createHookQuestions(store: Store, learn: (hook: Webhook) => unknown): (webhookId: string) => void {
  const asked = new Set<string>();
  let isAnswering = false;

  async function answer(): Promise<void> {
    await Promise.resolve();
    while (asked.size > 0) {
      const ids = [...asked];
      // The store tells its trouble itself.
      const hooks = await hooksById(store.read as Db, store.dialect, ids).catch(() => []);
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
