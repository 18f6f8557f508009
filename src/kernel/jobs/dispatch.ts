import type { Clock, Random } from '../../ports/clock.ts';
import { withDeadline } from '../calls/deadline.ts';
import type { JobKind, JobOutcome } from '../plugin.ts';
import { type AttemptOptions, runAttempt, thrown } from './attempt.ts';
import { AHEAD_WAIT_MS, type Claim, type ClaimedJob } from './claim.ts';
import type { JobMetrics } from './job-metrics.ts';
import type { Finished } from './record.ts';
import type { Slots } from './slots.ts';
import type { Stopper } from './stopper.ts';
import { createWaiting, type WaitingJob } from './waiting.ts';

export interface DispatcherOptions {
  readonly kinds: ReadonlyMap<string, JobKind>;
  readonly slots: Slots;
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: JobMetrics;
  readonly stopper: Stopper;
  readonly maxAttempts: number;
  /** Whether waiting jobs may still be started. */
  isOpen(): boolean;
  /** Called for each attempt that is over, once. */
  finish(finished: Finished): void;
  /** A waiting job could not be loaded or waited too long: it wants its lease back. */
  giveBack(jobs: readonly ClaimedJob[]): void;
}

/** Starts claimed jobs: some at once, the others when a slot and their limits allow it. */
export interface Dispatcher {
  /** Jobs that wait with a lease, also those that are being loaded. */
  readonly waiting: number;
  waitingOfKind(kind: string): number;
  /** `claimedAt` is monotonic and from before the claim. */
  launch(claim: Claim, now: number, claimedAt: number): void;
  /** Starts what may start; to be called from time to time, as limits may change by themselves. */
  pump(): void;
  /** Takes back what waits: its leases are to be given back. */
  clear(): ClaimedJob[];
  /** Jobs that have a slot and were not begun yet: what they need is being loaded. */
  loading(): ClaimedJob[];
}

/** What a kind loaded for a waiting job is loaded anew after this time: a webhook may have been disabled meanwhile. */
const FRESH_MS = 100;
/** Groups that were at their limit are asked again after this time, or as soon as one of their jobs is over. */
const UNBLOCK_MS = 50;

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { kinds, slots, clock, random, metrics, stopper, maxAttempts } = options;
  const waiting = createWaiting(kinds, slots);
  const loads = new Set<readonly ClaimedJob[]>();
  let unblockedAt = Number.NEGATIVE_INFINITY;

  function attempt(kind: JobKind, claimed: ClaimedJob, prepared: unknown, startedMs: number): void {
    const timeoutMs = Math.max(1, kind.timeoutMs - (clock.monotonic() - startedMs));
    const running = runAttempt(attemptOptions(kind, claimed, prepared, timeoutMs));
    void running.then((outcome) => over(claimed, outcome, startedMs));
  }

  // Written out: this runs for every job, and copying members into it takes longer than all else here.
  // biome-ignore format: one line a pair.
  const attemptOptions = (kind: JobKind, claimed: ClaimedJob, prepared: unknown, timeoutMs: number): AttemptOptions => ({
    kind, claimed, prepared, timeoutMs, stopper, clock, random, maxAttempts,
  });

  function over(claimed: ClaimedJob, outcome: JobOutcome, startedMs: number): void {
    const finished = { claimed, outcome };
    metrics.finished(finished, clock.monotonic() - startedMs);
    options.finish(finished);
    waiting.freed(claimed.job.kind, claimed.job.group);
    pump();
  }

  const load = (kind: JobKind, jobs: readonly ClaimedJob[]): Promise<unknown> =>
    withDeadline(clock, kind.timeoutMs, () => kind.prepare?.(jobs.map(({ job }) => job)));

  async function runAll(kind: JobKind, jobs: readonly ClaimedJob[], later: readonly WaitingJob[]): Promise<void> {
    const startedMs = clock.monotonic();
    let prepared: unknown;
    loads.add(jobs);
    try {
      prepared = await load(kind, [...jobs, ...later.map(({ claimed }) => claimed)]);
    } catch (error) {
      const outcome = (one: ClaimedJob) =>
        thrown(attemptOptions(kind, one, undefined, kind.timeoutMs), error, 'untouched');
      for (const one of jobs) over(one, outcome(one), startedMs);
      return options.giveBack(waiting.remove(later));
    } finally {
      loads.delete(jobs);
    }
    const at = clock.monotonic();
    for (const one of later) one.prepared = { value: prepared, at };
    for (const one of jobs) attempt(kind, one, prepared, startedMs);
    pump();
  }

  /** One stale job is loaded together with all others of its kind that wait. */
  function reload(stale: ReadonlySet<WaitingJob>): void {
    for (const name of new Set([...stale].map(({ claimed }) => claimed.job.kind))) {
      const kind = kinds.get(name);
      const jobs = waiting.loaded(name);
      for (const one of jobs) one.prepared = null;
      if (kind !== undefined) void runAll(kind, [], jobs);
    }
  }

  function pump(): void {
    if (waiting.size === 0 || !options.isOpen()) return;
    const nowMs = clock.monotonic();
    if (nowMs - unblockedAt >= UNBLOCK_MS) {
      unblockedAt = nowMs;
      waiting.unblock();
      const late = waiting.takeOlder(nowMs - AHEAD_WAIT_MS);
      if (late.length > 0) options.giveBack(late);
    }
    const stale = new Set<WaitingJob>();
    const isStale = ({ prepared }: WaitingJob) => nowMs - (prepared?.at ?? 0) > FRESH_MS;
    for (let job = waiting.next(isStale, stale); job !== null; job = waiting.next(isStale, stale)) {
      const kind = kinds.get(job.claimed.job.kind) as JobKind;
      slots.take(job.claimed);
      attempt(kind, job.claimed, job.prepared?.value, nowMs);
    }
    if (stale.size > 0) reload(stale);
  }

  return {
    get waiting() {
      return waiting.size;
    },
    waitingOfKind: waiting.ofKind,
    launch(claim, now, claimedAt) {
      for (const one of [...claim.jobs, ...claim.ahead]) metrics.claimed(one, now - one.runAt);
      for (const one of claim.jobs) slots.take(one);
      for (const [name, kind] of kinds) {
        const jobs = claim.jobs.filter(({ job }) => job.kind === name);
        const later = claim.ahead
          .filter(({ job }) => job.kind === name)
          .map((claimed): WaitingJob => ({ claimed, claimedAt, prepared: null }));
        waiting.add(later);
        if (jobs.length + later.length > 0) void runAll(kind, jobs, later);
      }
    },
    pump,
    clear: () => waiting.takeOlder(Number.POSITIVE_INFINITY),
    loading: () => [...loads].flat(),
  };
}
