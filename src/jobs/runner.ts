import type { CoreConfig } from '../config/core.ts';
import { messageOf } from '../lib/coded-error.ts';
import type { JobKind, NewJob } from '../plugin/plugin.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Owner } from '../ports/processes.ts';
import type { Store, StoreTx } from '../ports/store.ts';
import type { Log, Metrics } from '../ports/telemetry.ts';
import { backoffMs, createWakeup } from '../runtime/waiting.ts';
import { type AheadRoom, type ClaimedJob, claimJobs } from './claim.ts';
import { createDispatcher, createStopper, stopped } from './dispatch.ts';
import { type GroupWalk, nextDueAt } from './due.ts';
import { createRenewer, createSweeper, giveBack } from './leases.ts';
import { createJobMetrics } from './metrics.ts';
import { insertJobs } from './outbox.ts';
import { ackAll, ackSingly, type Finished, isStoreError, isTransientStoreError } from './outcomes.ts';
import { createSlots } from './slots.ts';

interface JobRunnerOptions {
  readonly store: Store;
  readonly kinds: readonly JobKind[];
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly config: CoreConfig['jobs'];
  /** Lets others see that this process has ended; null where that is impossible, so that its leases have to expire. */
  readonly owner: Owner | null;
  /** Called when outcomes cannot be written any more: the process has to end. */
  readonly fatal?: (error: unknown) => void;
}

export interface JobRunner {
  /** Adds jobs to a transaction; returns how many were new. They are looked at when it commits. */
  enqueue(tx: StoreTx, jobs: readonly NewJob[]): Promise<number>;
  /** Something may be due. */
  wake(): void;
  start(): Promise<void>;
  /** Claims nothing more; resolves when running jobs have finished and are written. */
  drain(): Promise<void>;
  /** Aborts running jobs, writes outcomes, gives leases back. An aborted `signal` ends the waiting. Never rejects. */
  stop(signal?: AbortSignal): Promise<void>;
}

const MAX_OUTCOMES = 256;
/** While claimed jobs keep the slots busy, outcomes may wait this many times `writeDelayMs` for their transaction. */
const FED_PATIENCE = 20;
/** One of this many jobs claimed ahead is reserved for groups that hold nothing; a kind may hold `KIND_AHEAD` times its concurrency. */
const AHEAD_RESERVE = 4;
const KIND_AHEAD = 8;
const BLOCKED_POLL_MS = 100;
/** After a failed write or claim. */
const STORE_BACKOFF = { firstMs: 50, longestMs: 5_000 };

/** Claim tokens of the jobs of this process, by row id. */
type HeldClaims = Map<number, number>;

/**
 * Runs the jobs of the outbox: each at least once, its outcome written exactly once. Outcomes are collected for a moment and written
 * with the next claim in one transaction. States and invariants: README.md.
 */
export function createJobRunner(options: JobRunnerOptions): JobRunner {
  const { store, clock, random, log, config, owner } = options;
  const kinds = new Map(options.kinds.map((kind) => [kind.kind, kind]));
  const slots = createSlots(kinds, config.concurrency);
  const metrics = createJobMetrics(options.metrics, slots);
  const sweeper = createSweeper({
    ...options,
    kinds,
    metrics,
    maxLost: () => config.maxAttempts,
    wake: () => wakeup.wake(),
  });
  const renewer = createRenewer({ store, clock, log, kinds, running: slots.running });
  const wakeup = createWakeup(clock);
  const walk: GroupWalk = new Map();
  const stopper = createStopper();
  const held: HeldClaims = new Map();
  let outcomes: Finished[] = [];
  let returns: ClaimedJob[] = [];
  let state: 'new' | 'claiming' | 'draining' | 'ended' = 'new';
  let loop: Promise<void> = Promise.resolve();
  let cancelFlush: (() => void) | null = null;
  /** Due rows wait for a limit of their group that may end with time, such as a rate. */
  let isBlocked = false;
  let lookedAtMs = Number.NEGATIVE_INFINITY;

  const dispatcher = createDispatcher({
    kinds,
    slots,
    clock,
    random,
    metrics,
    stopper,
    config,
    finish,
    isOpen: () => state === 'claiming',
    giveBack(jobs) {
      returns.push(...jobs);
      wakeup.wake();
    },
  });

  options.metrics.observe('waiting', 'jobs claimed ahead that wait for a slot', () => dispatcher.waiting);
  /** One transaction: acks, returned leases, the next claim. Returns whether there may be more to claim. */
  async function flush(): Promise<boolean> {
    cancelFlush?.();
    cancelFlush = null;
    if (state === 'claiming') dispatcher.pump();
    else returns.push(...dispatcher.clear());
    const finished = outcomes;
    outcomes = [];
    // Leases to be given back.
    const back = returns;
    returns = [];
    const isClaiming = state === 'claiming';
    const room = slots.room(isClaiming ? config.claimBatch : 0);
    const ahead = aheadRoom(isClaiming ? config.claimBatch - Math.max(0, room.total) : 0);
    if (finished.length + back.length === 0 && room.total <= 0 && ahead.total <= 0) return false;
    const now = clock.now();
    const startedMs = clock.monotonic();
    sweeper.saw(now, startedMs);
    // Every commit of new jobs wakes the runner; while it has enough to do, a look every `BLOCKED_POLL_MS` is enough.
    const isIdle = finished.length + back.length === 0 && room.total <= 0 && isFed();
    if (isIdle && startedMs - lookedAtMs < BLOCKED_POLL_MS) return false;
    lookedAtMs = startedMs;
    try {
      const { recorded, claim } = await store.write(async (tx) => {
        const recorded = await ackAll(tx, kinds, finished, now);
        await giveBack(tx, back, now);
        return { recorded, claim: await claimJobs(tx, { kinds, room, ahead, walk, now, owner: owner?.id ?? null }) };
      });
      isBlocked = claim.isMoreDue || dispatcher.waiting > 0;
      metrics.late(finished.length - recorded.length);
      release([...finished.map(({ claimed }) => claimed), ...back]);
      for (const { job, claim: token } of [...claim.jobs, ...claim.ahead]) held.set(job.id, token);
      if (state === 'claiming') dispatcher.launch(claim, now, startedMs);
      else {
        returns.push(...claim.ahead);
        dispatcher.launch({ ...claim, ahead: [] }, now, startedMs);
      }
      return claim.jobs.length > 0 && claim.jobs.length === room.total && claim.ahead.length === 0;
    } catch (error) {
      metrics.failedFlush();
      returns.push(...back);
      await ackAfter(error, finished, now);
      return true;
    }
  }

  /** `held` has the rows that are neither acked nor given back; all other running rows belong to other processes. */
  function release(jobs: readonly ClaimedJob[]): void {
    for (const { job, claim } of jobs) if (held.get(job.id) === claim) held.delete(job.id);
  }

  function aheadRoom(limit: number): AheadRoom {
    const most = config.claimAhead;
    const free = Math.max(0, most - dispatcher.waiting);
    const total = Math.max(0, Math.min(limit, free));
    return {
      total,
      // Room that this claim leaves free is reserved first.
      reserved: Math.max(0, Math.floor(most / AHEAD_RESERVE) - (free - total)),
      kind: (kind) => Math.min(most, KIND_AHEAD * (kinds.get(kind)?.concurrency ?? 0)) - dispatcher.waitingOfKind(kind),
      isOwn: (id, claim) => held.get(id) === claim,
    };
  }

  /** Writing an outcome twice has no effect: the second time its token is no longer the row's. */
  async function ackAfter(error: unknown, finished: readonly Finished[], now: number): Promise<void> {
    try {
      if (isStoreError(error) || finished.length === 0) throw error;
      log.warn({ error: messageOf(error) }, 'outcomes of jobs could not be written together; writing them one by one');
      await ackSingly(store, kinds, finished, now, log);
      release(finished.map(({ claimed }) => claimed));
    } catch (failure) {
      outcomes = [...finished.map((one) => ({ ...one, isUnsure: true as const })), ...outcomes];
      throw failure;
    }
  }

  function finish(finished: Finished): void {
    if (!slots.running.has(finished.claimed)) return;
    slots.free(finished.claimed);
    outcomes.push(finished);
    // While claimed jobs wait for slots, no slot is idle: more outcomes may share one transaction.
    if (outcomes.length >= flushAt() || slots.running.size === 0) wakeup.wake();
    else
      cancelFlush ??= clock.timeout(isFed() ? config.writeDelayMs * FED_PATIENCE : config.writeDelayMs, () =>
        wakeup.wake(),
      );
  }

  const isFed = () => dispatcher.waiting > config.concurrency;
  const flushAt = () => (isFed() ? MAX_OUTCOMES : Math.min(MAX_OUTCOMES, Math.ceil(config.concurrency / 2)));

  const isFinished = () =>
    state !== 'claiming' && slots.running.size + outcomes.length + returns.length + dispatcher.waiting === 0;

  async function work(): Promise<void> {
    let failures = 0;
    while (state !== 'ended' && !isFinished()) {
      try {
        const isMore = await flush();
        failures = 0;
        if (!isMore && !isFinished()) await wakeup.sleep(await idleMs());
      } catch (error) {
        const isFinal = isStoreError(error) && !isTransientStoreError(error);
        log.error({ error: messageOf(error), isFinal }, 'outcomes or claims of jobs cannot be written');
        if (isFinal) {
          state = 'ended';
          options.fatal?.(error);
          return;
        }
        failures += 1;
        await clock.sleep(backoffMs(failures, null, STORE_BACKOFF));
      }
    }
  }

  /** Time until the next due row that this process could claim. */
  async function idleMs(): Promise<number> {
    if (state !== 'claiming' || (slots.isFull() && dispatcher.waiting === 0)) return config.pollMs;
    if (isBlocked) return Math.min(config.pollMs, BLOCKED_POLL_MS);
    const now = clock.now();
    const next = await nextDueAt(store, [...kinds.keys()], now);
    return next === null ? config.pollMs : Math.max(1, Math.min(config.pollMs, next - now));
  }

  async function end(signal: AbortSignal | undefined): Promise<void> {
    state = state === 'new' ? 'ended' : 'draining';
    await sweeper.stop();
    stopper.stop();
    wakeup.wake();
    await Promise.race([loop, whenAborted(signal)]);
    renewer.stop();
    state = 'ended';
    wakeup.wake();
    const running = [...slots.running];
    for (const one of running) slots.free(one);
    const waiting = [...returns, ...dispatcher.clear()];
    const left = { outcomes, running, loading: dispatcher.loading(), waiting };
    if (await leaveJobs({ store, kinds, clock, log }, left)) owner?.close();
  }

  return {
    async enqueue(tx, jobs) {
      const added = await insertJobs(tx, jobs, clock.now());
      if (added > 0) tx.onCommit(wakeup.wake);
      return added;
    },
    wake: wakeup.wake,
    async start() {
      await sweeper.start();
      renewer.start();
      state = 'claiming';
      loop = work();
    },
    async drain() {
      if (state === 'claiming') state = 'draining';
      returns.push(...dispatcher.clear());
      wakeup.wake();
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

/** Jobs of a process when it stops. */
interface UnfinishedJobs {
  /** Finished, and not written yet. */
  readonly outcomes: readonly Finished[];
  /** Claimed, and holding a slot. */
  readonly running: readonly ClaimedJob[];
  /** The running ones whose payload is still loading. */
  readonly loading: readonly ClaimedJob[];
  /** Claimed, without a slot. */
  readonly waiting: readonly ClaimedJob[];
}

interface LeaveParts {
  readonly store: Store;
  readonly kinds: ReadonlyMap<string, JobKind>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * The last write of a process. A started job may have had its effect, so it is not returned as never claimed. Never rejects: what cannot
 * be written keeps its lease until that expires, or until others see that this process has ended. Returns whether nothing is left.
 */
async function leaveJobs({ store, kinds, clock, log }: LeaveParts, left: UnfinishedJobs): Promise<boolean> {
  const { outcomes, running, loading, waiting } = left;
  const notStarted = new Set(loading);
  const started = running.filter((one) => !notStarted.has(one));
  const finished = [...outcomes, ...started.map((claimed): Finished => ({ claimed, outcome: stopped(claimed) }))];
  const back = [...notStarted, ...waiting];
  if (finished.length + back.length === 0) return true;
  const now = clock.now();
  try {
    await store.write(async (tx) => {
      await ackAll(tx, kinds, finished, now);
      await giveBack(tx, back, now);
    });
    return true;
  } catch (error) {
    log.warn(
      { jobs: finished.length + back.length, error: messageOf(error) },
      'leases could not be returned; they will expire',
    );
    return false;
  }
}
