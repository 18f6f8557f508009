import { setMaxListeners } from 'node:events';
import { CodedError, messageOf } from '../lib/coded-error.ts';
import type { JobKind, JobOutcome } from '../plugin/plugin.ts';
import type { Clock, Random } from '../ports/clock.ts';
import { backoffMs, withDeadline } from '../runtime/waiting.ts';
import { AHEAD_WAIT_MS, type Claim, type ClaimedJob } from './claim.ts';
import type { JobMetrics } from './metrics.ts';
import { type Finished, isStoreError } from './outcomes.ts';
import { createWaiting, type Slots, type WaitingJob } from './slots.ts';

interface DispatcherOptions {
  readonly kinds: ReadonlyMap<string, JobKind>;
  readonly slots: Slots;
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: JobMetrics;
  readonly stopper: Stopper;
  /** Read at each attempt. */
  readonly config: { readonly maxAttempts: number };
  /** Whether waiting jobs may still be started. */
  isOpen(): boolean;
  /** Called once for each finished attempt. */
  finish(finished: Finished): void;
  /** Jobs that could not be loaded or waited too long: their leases are to be given back. */
  giveBack(jobs: readonly ClaimedJob[]): void;
}

/** Starts claimed jobs: some at once, the others when a slot and the limits of their groups allow it. */
interface Dispatcher {
  /** Jobs that wait with a lease, including those that are being loaded. */
  readonly waiting: number;
  waitingOfKind(kind: string): number;
  /** `claimedAt` is monotonic and from before the claim. */
  launch(claim: Claim, now: number, claimedAt: number): void;
  /** Starts what may start; to be called from time to time, as limits may change by themselves. */
  pump(): void;
  /** Removes the waiting jobs; the caller gives their leases back. */
  clear(): ClaimedJob[];
  /** Jobs that have a slot and are not started yet: what they need is being loaded. */
  loading(): ClaimedJob[];
}

/** What a kind loaded for a waiting job is loaded again after this time: a webhook may have been disabled meanwhile. */
const FRESH_MS = 100;
/** Groups at their limit are checked again after this time, or as soon as one of their jobs has finished. */
const UNBLOCK_MS = 50;

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { kinds, slots, clock, random, metrics, stopper, config } = options;
  const waiting = createWaiting(kinds, slots);
  const loads = new Set<readonly ClaimedJob[]>();
  let unblockedAt = Number.NEGATIVE_INFINITY;

  function attempt(kind: JobKind, claimed: ClaimedJob, prepared: unknown, startedMs: number): void {
    const timeoutMs = Math.max(1, kind.timeoutMs - (clock.monotonic() - startedMs));
    const running = runAttempt(attemptOptions(kind, claimed, prepared, timeoutMs));
    void running.then((outcome) => finished(claimed, outcome, startedMs));
  }

  // Written out: this runs for every job, and copying members into it takes longer than all else here.
  // biome-ignore format: one line a pair.
  const attemptOptions = (kind: JobKind, claimed: ClaimedJob, prepared: unknown, timeoutMs: number): AttemptOptions => ({
    kind, claimed, prepared, timeoutMs, stopper, clock, random, maxAttempts: config.maxAttempts,
  });

  function finished(claimed: ClaimedJob, outcome: JobOutcome, startedMs: number): void {
    const attempt = { claimed, outcome };
    metrics.finished(attempt, clock.monotonic() - startedMs);
    options.finish(attempt);
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
      for (const one of jobs) finished(one, outcome(one), startedMs);
      return options.giveBack(waiting.remove(later));
    } finally {
      loads.delete(jobs);
    }
    const at = clock.monotonic();
    for (const one of later) one.prepared = { value: prepared, at };
    for (const one of jobs) attempt(kind, one, prepared, startedMs);
    pump();
  }

  /** A stale job is loaded together with all other waiting jobs of its kind. */
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

interface AttemptOptions {
  readonly kind: JobKind;
  readonly claimed: ClaimedJob;
  readonly prepared: unknown;
  /** Rest of the kind's time limit. */
  readonly timeoutMs: number;
  readonly stopper: Stopper;
  readonly clock: Clock;
  readonly random: Random;
  readonly maxAttempts: number;
}

/** How long a handler may go on after its signal was aborted; shorter than the rest of the lease. */
export const GRACE_MS = 25_000;

const RETRY_BACKOFF = { firstMs: 5_000, longestMs: 3_600_000 };

/**
 * Runs a job once. Always resolves: a throw becomes a retry, or a failure after `maxAttempts` counted ones; a handler that ignores its signal
 * for the grace period is abandoned.
 */
export function runAttempt(options: AttemptOptions): Promise<JobOutcome> {
  const { kind, claimed, prepared, stopper, clock } = options;
  const control = kind.keepsTime === true ? null : new AbortController();
  return new Promise((resolve) => {
    const onTime = () => {
      const error = new CodedError('JOB_TIMEOUT', `the job did not end within ${kind.timeoutMs} ms`);
      cancel = clock.timeout(GRACE_MS, () => finish(thrown(options, error)));
      control?.abort(error);
    };
    let cancel = clock.timeout(options.timeoutMs, onTime);
    const onStop = () => {
      cancel();
      cancel = clock.timeout(GRACE_MS, () => finish(stopped(claimed)));
      control?.abort(stopReason());
    };
    const finish = (outcome: JobOutcome) => {
      cancel();
      stopper.listeners.delete(onStop);
      resolve(outcome);
    };
    if (stopper.isStopping) return finish(stopped(claimed, 'untouched'));
    stopper.listeners.add(onStop);
    const onError = (error: unknown) => finish(stopper.isStopping ? stopped(claimed) : thrown(options, error));
    try {
      kind.run(claimed.job, prepared, control?.signal ?? stopper.signal).then(finish, onError);
    } catch (error) {
      onError(error);
    }
  });
}

/** The outcome of a throw. An error of the store is not the job's: it counts as no attempt. `untouched`: before the job was run. */
function thrown(
  { claimed, clock, random, maxAttempts }: AttemptOptions,
  error: unknown,
  effect: true | 'untouched' = true,
): JobOutcome {
  const message = messageOf(error);
  const uncounted = isStoreError(error) && effect;
  const attempts = claimed.job.attempts + 1;
  if (uncounted === false && (attempts >= maxAttempts || claimed.job.once === true))
    return { kind: 'failed', error: message };
  const pauseMs = backoffMs(uncounted === false ? attempts : 1, random, RETRY_BACKOFF);
  return { kind: 'retry', runAt: clock.now() + Math.round(pauseMs), error: message, uncounted };
}

/** A started job may have had its effect: jobs run at least once. */
export function stopped({ runAt }: ClaimedJob, uncounted: true | 'untouched' = true): JobOutcome {
  return { kind: 'retry', runAt, error: 'the daemon stopped', uncounted };
}

/** Signals all running attempts that the runner stops. */
interface Stopper {
  readonly isStopping: boolean;
  /** For jobs that keep their time themselves; aborts before the listeners are called. */
  readonly signal: AbortSignal;
  /** What running attempts do when it stops; each removes itself when it has finished. */
  readonly listeners: Set<() => void>;
  stop(): void;
}

export function createStopper(): Stopper {
  const stopping = new AbortController();
  const listeners = new Set<() => void>();
  // One listener per job in flight: no leak.
  setMaxListeners(0, stopping.signal);
  let isStopping = false;
  return {
    get isStopping() {
      return isStopping;
    },
    signal: stopping.signal,
    listeners,
    stop() {
      isStopping = true;
      stopping.abort(stopReason());
      for (const listener of listeners) listener();
    },
  };
}

/** What attempts are aborted with when the daemon stops. */
function stopReason(): CodedError {
  return new CodedError('JOB_STOPPED', 'the daemon stops');
}
