import type { Clock, Log, Store } from '../../src/plugin/plugin.ts';
import type { Counter, Metrics } from '../../src/ports/telemetry.ts';
import { type ProjectAccount, takeState } from './account.ts';
import type { CreditLoan } from './credits.ts';
import type { Plans } from './plans.ts';
import { learn } from './rates.ts';
import {
  type BatchEntry,
  collect,
  creditsOf,
  creditsOfCycle,
  takenKey,
  type WriteBatch,
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
  /** Hears of what was written; null: this process knows what is left. */
  readonly creditLoan: Pick<CreditLoan, 'written'> | null;
}

/** Writes the usage of accounts periodically. */
export interface Meter {
  /** Registers an account with unwritten usage. */
  note(account: ProjectAccount): void;
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
  const dirty = new Set<ProjectAccount>();
  let nextSeq = 1;
  /** A failed write: its number shows at the retry whether it was committed. */
  let unsure: WriteBatch | null = null;
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

  async function write(batch: WriteBatch): Promise<void> {
    unsure = batch;
    const startedMs = clock.monotonic();
    const nowMs = clock.now();
    const written = await store.write((tx) => writeBatch(tx, batch, { plans: parts.plans(), writerId, nowMs }));
    unsure = null;
    seconds.record((clock.monotonic() - startedMs) / 1_000);
    for (const entry of batch.entries) {
      takeWritten(entry, written, { nowMs, startedMs });
      const { projectId } = entry.account;
      const state = written.states.get(projectId);
      if (state !== undefined) parts.creditLoan?.written(projectId, creditsOf(entry), state);
    }
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
function takeWritten(
  entry: BatchEntry,
  { states, taken }: Written,
  { nowMs, startedMs }: { readonly nowMs: number; readonly startedMs: number },
): void {
  const { account } = entry;
  account.revision += 1;
  const state = states.get(account.projectId);
  if (state !== undefined) {
    const { limits, isDisabled, billingDay } = account;
    // A change was noticed or read meanwhile: the account may be newer than the state.
    const isOlder = account.changedAt !== entry.changedAt || startedMs < account.readMs;
    takeState(account, isOlder ? { ...state, limits, isDisabled, billingDay } : state, nowMs, creditsOfCycle(entry));
    if (!isOlder) account.readMs = startedMs;
  }
  for (const [group, written] of entry.taken) {
    const bucket = account.buckets.get(group);
    const all = taken.get(takenKey(account.projectId, group));
    if (bucket !== undefined && all !== undefined) learn(bucket, all, written);
  }
}

/** Counters per project. Projects are named by their ids, never by names or keys. */
export interface ProjectMetrics {
  /** An answered HTTP request; a status from 500 on is an error of the daemon or its upstreams. */
  answered(projectId: string, status: number): void;
  rateLimited(projectId: string): void;
  charged(projectId: string, credits: number): void;
}

interface Counters {
  readonly requests: Counter;
  readonly errors: Counter;
  readonly credits: Counter;
  readonly rateLimited: Counter;
}

/** Label of all projects beyond the first `most`; ids of projects are UUIDs. */
const OTHER = 'other';
const NOTHING: ProjectMetrics = { answered() {}, rateLimited() {}, charged() {} };

/** The first `most` projects that this thread sees have series of their own until it ends; further ones share `other`. */
export function createProjectMetrics(metrics: Metrics, most: number): ProjectMetrics {
  if (most === 0) return NOTHING;
  const labels = ['project'];
  const requests = metrics.counter('project_requests_total', 'answered HTTP requests by project', labels);
  const errors = metrics.counter('project_errors_total', 'requests answered with 5xx by project', labels);
  const credits = metrics.counter('project_credits_total', 'credits charged by project', labels);
  const rateLimited = metrics.counter('project_rate_limited_total', 'calls refused by a rate, by project', labels);
  const known = new Map<string, Counters>();
  const make = (label: string): Counters => ({
    requests: requests.with(label),
    errors: errors.with(label),
    credits: credits.with(label),
    rateLimited: rateLimited.with(label),
  });
  let other: Counters | null = null;

  function of(projectId: string): Counters {
    const found = known.get(projectId);
    if (found !== undefined) return found;
    if (known.size >= most) {
      other ??= make(OTHER);
      return other;
    }
    const made = make(projectId);
    known.set(projectId, made);
    return made;
  }

  return {
    answered(projectId, status) {
      const counters = of(projectId);
      counters.requests.add();
      if (status >= 500) counters.errors.add();
    },
    rateLimited: (projectId) => of(projectId).rateLimited.add(),
    charged: (projectId, amount) => of(projectId).credits.add(amount),
  };
}
