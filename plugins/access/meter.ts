import type { Clock, Log, Metrics, Store } from '../../src/plugin/plugin.ts';
import { type Account, takeState } from './account.ts';
import type { Plans } from './plans.ts';
import type { ProjectMetrics } from './project-metrics.ts';
import { learn } from './rates.ts';
import {
  type Batch,
  type BatchEntry,
  collect,
  creditsOf,
  creditsOfCycle,
  takenKey,
  type Written,
  writeBatch,
} from './write-batch.ts';

/** Projects per write; the daemon answers requests between two writes. */
const MAX_PROJECTS = 500;

export interface MeterParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly perProject: Pick<ProjectMetrics, 'charged'>;
  readonly plans: () => Plans;
  readonly flushMs: number;
  /** Unique name of this process. */
  readonly writerId: string;
}

/** Writes the usage of accounts periodically. */
export interface Meter {
  /** Registers an account with unwritten usage. */
  note(account: Account): void;
  /** Writes all usage counted so far. Throws the errors of the store; the usage is then kept. */
  flush(): Promise<void>;
  /** Stops the timer and writes for the last time. */
  stop(): Promise<void>;
}

export function createMeter(parts: MeterParts): Meter {
  const { store, clock, log, flushMs, writerId } = parts;
  const failures = parts.metrics.counter('flush_failures_total', 'failed writes of usage, which are retried');
  const seconds = parts.metrics.histogram(
    'flush_seconds',
    'time to write usage',
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
  );
  const dirty = new Set<Account>();
  let nextSeq = 1;
  /** A failed write: its number shows at the retry whether it was committed. */
  let unsure: Batch | null = null;
  const unwritten = () => new Set([...dirty, ...(unsure?.entries.map(({ account }) => account) ?? [])]).size;
  parts.metrics.observe('unwritten_projects', 'projects with usage that is not written yet', unwritten);
  let running: Promise<void> = Promise.resolve();
  let cancelTimer: (() => void) | null = null;
  let isFailing = false;
  let isStopped = false;

  const schedule = () => {
    if (cancelTimer !== null || isStopped) return;
    cancelTimer = clock.timeout(flushMs, () => {
      cancelTimer = null;
      flush().catch(() => undefined);
    });
  };

  async function writeAll(): Promise<void> {
    if (unsure !== null) await write(unsure);
    const due = [...dirty];
    while (due.length > 0) {
      const some = due.splice(0, MAX_PROJECTS);
      for (const account of some) dirty.delete(account);
      const batch = collect(nextSeq++, some);
      for (const entry of batch.entries) parts.perProject.charged(entry.account.projectId, creditsOf(entry));
      await write(batch);
    }
  }

  async function write(batch: Batch): Promise<void> {
    unsure = batch;
    const startedMs = clock.monotonic();
    const nowMs = clock.now();
    const written = await store.write((tx) => writeBatch(tx, batch, { plans: parts.plans(), writerId, nowMs }));
    unsure = null;
    seconds.record((clock.monotonic() - startedMs) / 1_000);
    for (const entry of batch.entries) takeWritten(entry, written, nowMs);
  }

  async function guarded(): Promise<void> {
    try {
      await writeAll();
      if (isFailing) log.info({}, 'usage is written again after failures');
      isFailing = false;
    } catch (error) {
      failures.add();
      if (!isFailing) log.error({ err: error }, 'usage could not be written; it is kept and retried');
      isFailing = true;
      throw error;
    } finally {
      if (dirty.size > 0 || unsure !== null) schedule();
    }
  }

  function flush(): Promise<void> {
    const next = running.then(guarded, guarded);
    running = next;
    // Only a waiting caller needs the error.
    next.catch(() => undefined);
    return next;
  }

  return {
    note(account) {
      account.isDirty = true;
      dirty.add(account);
      schedule();
    },
    flush,
    async stop() {
      isStopped = true;
      cancelTimer?.();
      cancelTimer = null;
      await flush();
    },
  };
}

/** Updates an account with the state of the store. */
function takeWritten(entry: BatchEntry, { states, taken }: Written, nowMs: number): void {
  const { account } = entry;
  account.revision += 1;
  const state = states.get(account.projectId);
  if (state !== undefined) takeState(account, state, nowMs, creditsOfCycle(entry));
  for (const [group, written] of entry.taken) {
    const bucket = account.buckets.get(group);
    const all = taken.get(takenKey(account.projectId, group));
    if (bucket !== undefined && all !== undefined) learn(bucket, all, written);
  }
}
