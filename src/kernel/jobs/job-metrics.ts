import type { Metrics } from '../../ports/metrics.ts';
import type { ClaimedJob } from './claim.ts';
import type { Finished } from './record.ts';
import type { Slots } from './slots.ts';

export interface JobMetrics {
  claimed(job: ClaimedJob, waitedMs: number): void;
  finished(finished: Finished, ranMs: number): void;
  /** Outcomes that came too late: another process had the job. */
  late(count: number): void;
  /** Leases that ran out. */
  lost(count: number): void;
  failedTurn(): void;
}

const WAIT_SECONDS = [0.01, 0.05, 0.25, 1, 5, 30, 300, 3600];
const RUN_SECONDS = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30];

export function createJobMetrics(metrics: Metrics, slots: Slots): JobMetrics {
  const claimed = metrics.counter('claimed_total', 'jobs that were given a lease', ['kind']);
  const finished = metrics.counter('finished_total', 'attempts by outcome', ['kind', 'outcome']);
  const late = metrics.counter('late_outcomes_total', 'outcomes of jobs that another process had taken meanwhile');
  const lost = metrics.counter('lost_leases_total', 'jobs whose process ended without an outcome');
  const failedTurns = metrics.counter('failed_turns_total', 'times that outcomes could not be written at once');
  const waited = metrics.histogram('wait_seconds', 'time between due and claimed', WAIT_SECONDS, ['kind']);
  const ran = metrics.histogram('run_seconds', 'length of an attempt', RUN_SECONDS, ['kind']);
  // Children are resolved once: jobs are many, kinds and outcomes few.
  const claimedOf = memo((kind) => ({ count: claimed.with(kind), waited: waited.with(kind), ran: ran.with(kind) }));
  const finishedOf = memo((kind) => memo((outcome) => finished.with(kind, outcome)));
  metrics.observe('running', 'jobs that run now', () => slots.running.size);
  return {
    claimed({ job }, waitedMs) {
      const { count, waited } = claimedOf(job.kind);
      count.add();
      waited.record(Math.max(0, waitedMs) / 1000);
    },
    finished({ claimed: { job }, outcome }, ranMs) {
      finishedOf(job.kind)(outcome.kind).add();
      claimedOf(job.kind).ran.record(ranMs / 1000);
    },
    late: (count) => late.add(count),
    lost: (count) => lost.add(count),
    failedTurn: () => failedTurns.add(),
  };
}

function memo<T>(make: (name: string) => T): (name: string) => T {
  const made = new Map<string, T>();
  return (name) => {
    let found = made.get(name);
    if (found === undefined) {
      found = make(name);
      made.set(name, found);
    }
    return found;
  };
}
