import { type CodedError, messageOf } from '../../lib/coded-error.ts';
import type { Clock, Random } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Metrics } from '../../ports/metrics.ts';
import type { Store, StoreTx } from '../../ports/store.ts';
import type { CoreConfig } from '../config/core.ts';
import { withDeadline } from '../deadline.ts';
import type { JobKind, JobOutcome, NewJob } from '../plugin.ts';
import { type AttemptOptions, runAttempt, thrown } from './attempt.ts';
import { type ClaimedJob, claimJobs } from './claim.ts';
import { insertJobs } from './enqueue.ts';
import type { GroupWalk } from './find-due.ts';
import { createJobMetrics } from './job-metrics.ts';
import { nextDueAt } from './next-due.ts';
import type { Finished } from './record.ts';
import { isStoreTrouble, settleAll, settleSingly } from './settle.ts';
import { createSlots } from './slots.ts';
import { giveBack } from './sweep.ts';
import { createSweeper } from './sweeper.ts';
import { createWaker } from './waker.ts';

export interface JobRunnerOptions {
  readonly store: Store;
  readonly kinds: readonly JobKind[];
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly config: CoreConfig['jobs'];
  /** Told when outcomes can't be written any more: the process has to end. */
  readonly fatal?: (error: unknown) => void;
}

export interface JobRunner {
  /** Adds jobs to a transaction; returns how many were new. They are looked at when it commits. */
  enqueue(tx: StoreTx, jobs: readonly NewJob[]): Promise<number>;
  /** Something may be due. */
  wake(): void;
  start(): Promise<void>;
  /** Claims nothing more; resolves when running jobs are over and written. */
  drain(): Promise<void>;
  /** Aborts what still runs, writes what is over, gives leases back. An aborted `signal` ends the waiting. Never rejects. */
  stop(signal?: AbortSignal): Promise<void>;
}

const MOST_OUTCOMES = 256;
const BLOCKED_POLL_MS = 100;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Runs the jobs of the outbox: each at least once, its outcome written exactly once. Outcomes are collected for a moment and written
 * together with the next claim in one transaction.
 */
export function createJobRunner(options: JobRunnerOptions): JobRunner {
  const { store, clock, random, log, config } = options;
  const kinds = new Map(options.kinds.map((kind) => [kind.kind, kind]));
  const slots = createSlots(kinds, config.concurrency);
  const metrics = createJobMetrics(options.metrics, slots);
  const sweeper = createSweeper({ ...options, metrics, maxLost: config.maxAttempts, wake: () => waker.wake() });
  const waker = createWaker(clock);
  const walk: GroupWalk = new Map();
  const stopper = { isStopping: false, listeners: new Set<() => void>() };
  const flushAt = Math.min(MOST_OUTCOMES, Math.max(1, Math.ceil(config.concurrency / 2)));
  let outcomes: Finished[] = [];
  let state: 'new' | 'claiming' | 'draining' | 'ended' = 'new';
  let loop: Promise<void> = Promise.resolve();
  let cancelFlush: (() => void) | null = null;
  /** Due rows wait for a limit of their group that time may lift, such as a rate. */
  let isBlocked = false;

  /** One transaction: what is over, and what comes next. Returns whether there may be more to claim. */
  async function turn(): Promise<boolean> {
    cancelFlush?.();
    cancelFlush = null;
    const finished = outcomes;
    outcomes = [];
    const room = slots.room(state === 'claiming' ? config.claimBatch : 0);
    if (finished.length === 0 && room.total <= 0) return false;
    const now = clock.now();
    try {
      const { recorded, claim } = await store.write(async (tx) => ({
        recorded: await settleAll(tx, kinds, finished, now),
        claim: await claimJobs(tx, { kinds, room, walk, now }),
      }));
      const claimed = claim.jobs;
      isBlocked = claim.isMoreDue;
      metrics.late(finished.length - recorded.length);
      launch(claimed, now);
      return claimed.length > 0 && claimed.length === room.total;
    } catch (error) {
      metrics.failedTurn();
      await settleAfter(error, finished, now);
      return true;
    }
  }

  /** Outcomes that are written twice do no harm: the second time they show a token that is no longer the row's. */
  async function settleAfter(error: unknown, finished: readonly Finished[], now: number): Promise<void> {
    try {
      if (isStoreTrouble(error) || finished.length === 0) throw error;
      log.warn({ error: messageOf(error) }, 'outcomes of jobs could not be written together');
      await settleSingly(store, kinds, finished, now, log);
    } catch (failure) {
      outcomes = [...finished, ...outcomes];
      throw failure;
    }
  }

  function launch(claimed: readonly ClaimedJob[], now: number): void {
    for (const one of claimed) {
      slots.take(one);
      metrics.claimed(one, now - one.runAt);
    }
    for (const [name, kind] of kinds) {
      const ofKind = claimed.filter(({ job }) => job.kind === name);
      if (ofKind.length > 0) void runAll(kind, ofKind);
    }
  }

  async function runAll(kind: JobKind, claimed: readonly ClaimedJob[]): Promise<void> {
    const startedMs = clock.monotonic();
    const optionsOf = (one: ClaimedJob, prepared: unknown): AttemptOptions => ({
      kind,
      claimed: one,
      prepared,
      timeoutMs: Math.max(1, kind.timeoutMs - (clock.monotonic() - startedMs)),
      stopper,
      clock,
      random,
      maxAttempts: config.maxAttempts,
    });
    const over = (one: ClaimedJob, outcome: JobOutcome) => {
      const finished = { claimed: one, outcome };
      metrics.finished(finished, clock.monotonic() - startedMs);
      finish(finished);
    };
    let prepared: unknown;
    try {
      prepared = await withDeadline(clock, kind.timeoutMs, () => kind.prepare?.(claimed.map(({ job }) => job)));
    } catch (error) {
      for (const one of claimed) over(one, thrown(optionsOf(one, undefined), error));
      return;
    }
    for (const one of claimed) void runAttempt(optionsOf(one, prepared)).then((outcome) => over(one, outcome));
  }

  function finish(finished: Finished): void {
    if (!slots.running.has(finished.claimed)) return;
    slots.free(finished.claimed);
    outcomes.push(finished);
    if (outcomes.length >= flushAt || slots.running.size === 0) waker.wake();
    else cancelFlush ??= clock.timeout(config.settleMs, () => waker.wake());
  }

  const isOver = () => state !== 'claiming' && slots.running.size === 0 && outcomes.length === 0;

  async function work(): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS;
    while (state !== 'ended' && !isOver()) {
      try {
        const isMore = await turn();
        pauseMs = FIRST_PAUSE_MS;
        if (!isMore && !isOver()) await waker.sleep(await idleMs());
      } catch (error) {
        const isFinal = isStoreTrouble(error) && !(error as CodedError).retryable;
        log.error({ error: messageOf(error), isFinal }, 'outcomes of jobs, or claims, cannot be written');
        if (isFinal) {
          state = 'ended';
          options.fatal?.(error);
          return;
        }
        await waker.pause(pauseMs);
        pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
      }
    }
  }

  /** Until the next due row, as far as this process could take it. */
  async function idleMs(): Promise<number> {
    if (state !== 'claiming' || slots.room(1).total <= 0) return config.pollMs;
    if (isBlocked) return Math.min(config.pollMs, BLOCKED_POLL_MS);
    const now = clock.now();
    const next = await nextDueAt(store, [...kinds.keys()], now);
    return next === null ? config.pollMs : Math.max(1, Math.min(config.pollMs, next - now));
  }

  async function end(signal: AbortSignal | undefined): Promise<void> {
    state = state === 'new' ? 'ended' : 'draining';
    await sweeper.stop();
    stopper.isStopping = true;
    for (const abort of stopper.listeners) abort();
    waker.wake();
    await Promise.race([loop, whenAborted(signal)]);
    state = 'ended';
    waker.wake();
    const left = [...slots.running];
    for (const one of left) slots.free(one);
    if (left.length === 0) return;
    await store
      .write((tx) => giveBack(tx, left))
      .catch((error: unknown) => {
        log.warn({ jobs: left.length, error: messageOf(error) }, 'leases are left to run out');
      });
  }

  return {
    async enqueue(tx, jobs) {
      const added = await insertJobs(tx, jobs, clock.now());
      if (added > 0) tx.onCommit(waker.wake);
      return added;
    },
    wake: waker.wake,
    async start() {
      await sweeper.start();
      state = 'claiming';
      loop = work();
    },
    async drain() {
      if (state === 'claiming') state = 'draining';
      waker.wake();
      await loop;
    },
    stop: (signal) => end(signal),
  };
}

function whenAborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) resolve();
    signal?.addEventListener('abort', () => resolve(), { once: true });
  });
}
