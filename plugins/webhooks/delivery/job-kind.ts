import type { Job, JobKind } from '../../../src/kernel/plugin.ts';
import type { Store } from '../../../src/ports/store.ts';
import { type AutoDisableParts, disableFailing } from './auto-disable.ts';
import type { DeliveryMetrics } from './metrics.ts';
import { createBodies, type Prepared, prepareDeliveries } from './prepare.ts';
import { type Report, type RunParts, runDelivery } from './run.ts';
import { bookDeliveries } from './settle.ts';

export interface JobKindParts extends Omit<RunParts, 'report'> {
  readonly store: Store;
  readonly autoDisable: AutoDisableParts;
  readonly metrics: DeliveryMetrics;
}

/** The kind of job that sends a matched transaction to a webhook. */
export function createDeliveryKind(kind: string, parts: JobKindParts): JobKind {
  const { config, clock, pace, metrics } = parts;
  /** From the attempt to its bookkeeping: at most one entry per running delivery. */
  const reports = new Map<number, Report>();
  const bodies = createBodies();
  const runParts: RunParts = {
    ...parts,
    report: (job, report) => {
      reports.set(job.id, report);
      metrics.attempt(report.sent);
    },
  };
  return {
    kind,
    summary: 'sends a matched transaction to a webhook',
    concurrency: config.concurrency.global,
    groupConcurrency: pace.concurrency,
    // Two requests at most: the second follows a connection that failed at once.
    timeoutMs: 2 * Math.max(config.retry.durable.timeoutMs, config.retry.compat.timeoutMs),
    keepsTime: true,
    prepare: (jobs: readonly Job[]) => prepareDeliveries(parts.store, clock, bodies, jobs),
    run: (job, prepared, signal) => runDelivery(runParts, job, prepared as Prepared, signal),
    async settle(tx, settled) {
      const suspects = await bookDeliveries(tx, clock, settled, reports);
      await disableFailing(parts.autoDisable, tx, suspects);
      // A transaction may run again: reports go only when it is through.
      tx.onCommit(() => {
        for (const { job, outcome } of settled) {
          reports.delete(job.id);
          metrics.settled(outcome.kind);
        }
      });
    },
  };
}
