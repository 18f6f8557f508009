import { messageOf } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { Store } from '../ports/store.ts';
import type { Log, Metrics } from '../ports/telemetry.ts';
import type { ClaimedJob } from './claim.ts';
import type { Finished } from './outcomes.ts';
import type { Slots } from './slots.ts';
import { createParameters, query } from './table.ts';

export interface JobMetrics {
  claimed(job: ClaimedJob, waitedMs: number): void;
  finished(finished: Finished, ranMs: number): void;
  /** Outcomes that came too late: another process has claimed the job. */
  late(count: number): void;
  /** Leases that expired. */
  lost(count: number): void;
  failedFlush(): void;
}

const WAIT_SECONDS = [0.01, 0.05, 0.25, 1, 5, 30, 300, 3600];
const RUN_SECONDS = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30];

export function createJobMetrics(metrics: Metrics, slots: Slots): JobMetrics {
  const claimed = metrics.counter('claimed_total', 'claims of jobs', ['kind']);
  const finished = metrics.counter('finished_total', 'attempts by outcome', ['kind', 'outcome']);
  const late = metrics.counter('late_outcomes_total', 'outcomes of jobs that another process had claimed meanwhile');
  const lost = metrics.counter('lost_leases_total', 'jobs whose process ended without an outcome');
  const failedFlushs = metrics.counter('failed_flushes_total', 'flushes of outcomes that failed');
  const waited = metrics.histogram('wait_seconds', 'time from due to claimed', WAIT_SECONDS, ['kind']);
  const ran = metrics.histogram('run_seconds', 'duration of an attempt', RUN_SECONDS, ['kind']);
  // Label sets are resolved once: jobs are many, kinds and outcomes few.
  const claimedOf = memo((kind) => ({ count: claimed.with(kind), waited: waited.with(kind), ran: ran.with(kind) }));
  const finishedOf = memo((kind) => memo((outcome) => finished.with(kind, outcome)));
  metrics.observe('running', 'running jobs', () => slots.running.size);
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
    failedFlush: () => failedFlushs.add(),
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

interface OutboxGaugesOptions {
  readonly store: Store;
  readonly kinds: readonly string[];
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Depth and age of the outbox, queried every 15 s: a scrape must not cost a query. */
export interface OutboxGauges {
  start(): Promise<void>;
  stop(): void;
}

const INTERVAL_MS = 15_000;
/** Counting reads an index and is bounded; a depth of this value means at least as many. */
const MAX_COUNTED = 100_000;

export function createOutboxGauges({ store, kinds, clock, log, metrics }: OutboxGaugesOptions): OutboxGauges {
  const depth = metrics.gauge('pending_rows', `pending jobs, counted up to ${MAX_COUNTED}`, ['kind']);
  const age = metrics.gauge('oldest_due_seconds', 'time since the oldest due job became due', ['kind']);
  let cancel: (() => void) | null = null;
  let isStopped = false;

  async function look(): Promise<void> {
    for (const kind of kinds) {
      const { pending, due_at } = await lookAt(store, kind);
      depth.with(kind).set(pending);
      age.with(kind).set(due_at === null ? 0 : Math.max(0, clock.now() - due_at) / 1000);
    }
  }

  async function keepLooking(): Promise<void> {
    await look().catch((error: unknown) => log.warn({ error: messageOf(error) }, 'the outbox could not be counted'));
    if (!isStopped) cancel = clock.timeout(INTERVAL_MS, () => void keepLooking());
  }

  return {
    start: keepLooking,
    stop() {
      isStopped = true;
      cancel?.();
    },
  };
}

/** Reads only the indexes of pending rows. `due_at` is when the first of them is or was due. */
async function lookAt(
  store: Store,
  kind: string,
): Promise<{ readonly pending: number; readonly due_at: number | null }> {
  const parameters = createParameters(store.dialect);
  const waiting = () => `from outbox where state = 'pending' and kind = ${parameters.add(kind)}`;
  const [row] = await query<{ readonly pending: number; readonly due_at: number | null }>(
    store.read,
    `select (select count(*) from (select 1 as one ${waiting()} limit ${MAX_COUNTED}) as counted) as pending,
      (select min(first_at) from (select (select min(run_at) ${waiting()} and lane = 0) as first_at
        union all select (select min(run_at) ${waiting()} and lane = 1)) as firsts) as due_at`,
    parameters,
  );
  return { pending: Number(row?.pending ?? 0), due_at: row?.due_at == null ? null : Number(row.due_at) };
}
