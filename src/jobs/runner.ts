import type { CoreConfig } from '../config/core.ts';
import { messageOf } from '../lib/coded-error.ts';
import type { JobKind, NewJob } from '../plugin/plugin.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Owner } from '../ports/processes.ts';
import type { Store, StoreTx } from '../ports/store.ts';
import type { Log, Metrics } from '../ports/telemetry.ts';
import { backoffMs, createWakeup, type Wakeup } from '../runtime/waiting.ts';
import { type AheadRoom, type Claim, type ClaimedJob, claimJobs } from './claim.ts';
import { createDispatcher, createStopper, stopped } from './dispatch.ts';
import { type GroupWalk, nextDueAt } from './due.ts';
import { createRenewer, createSweeper, giveBack } from './leases.ts';
import { createJobMetrics, type JobMetrics } from './metrics.ts';
import { insertJobs } from './outbox.ts';
import { ackAll, ackSingly, type Finished, isStoreError, isTransientStoreError } from './outcomes.ts';
import { createSlots, type Slots } from './slots.ts';

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

/**
 * Runs the jobs of the outbox: each at least once, its outcome written exactly once. Outcomes are collected for a moment and written
 * with the next claim in one transaction. States and invariants: README.md.
 */
export function createJobRunner(options: JobRunnerOptions): JobRunner {
  const loop = new RunnerLoop(options);
  return {
    async enqueue(tx, jobs) {
      const added = await insertJobs(tx, jobs, options.clock.now());
      if (added > 0) tx.onCommit(loop.wakeup.wake);
      return added;
    },
    wake: loop.wakeup.wake,
    start: () => loop.start(),
    drain: () => loop.drain(),
    stop: (signal) => loop.stop(signal),
  };
}

/** `new`: not started; `claiming`; `draining`: what runs may finish; `ended`: what is left is given back. */
type RunnerMode = 'new' | 'claiming' | 'draining' | 'ended';

class RunnerLoop {
  readonly wakeup: Wakeup;
  private readonly options: JobRunnerOptions;
  private readonly kinds: ReadonlyMap<string, JobKind>;
  private readonly slots: Slots;
  private readonly metrics: JobMetrics;
  private readonly sweeper: ReturnType<typeof createSweeper>;
  private readonly renewer: ReturnType<typeof createRenewer>;
  private readonly dispatcher: ReturnType<typeof createDispatcher>;
  private readonly walk: GroupWalk = new Map();
  private readonly stopper = createStopper();
  /** Claim tokens of the jobs of this process, by row id: all other running rows belong to other processes. */
  private readonly held = new Map<number, number>();
  private mode: RunnerMode = 'new';
  private running: Promise<void> = Promise.resolve();
  /** Not written yet. */
  private outcomes: Finished[] = [];
  /** Leases to be given back. */
  private returns: ClaimedJob[] = [];
  private cancelFlush: (() => void) | null = null;
  /** Due rows wait for a limit of their group that may end with time, such as a rate. */
  private isBlocked = false;
  private lookedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: JobRunnerOptions) {
    const { store, clock, random, log, config } = options;
    this.options = options;
    this.wakeup = createWakeup(clock);
    this.kinds = new Map(options.kinds.map((kind) => [kind.kind, kind]));
    this.slots = createSlots(this.kinds, config.concurrency);
    this.metrics = createJobMetrics(options.metrics, this.slots);
    this.sweeper = createSweeper({
      ...options,
      kinds: this.kinds,
      metrics: this.metrics,
      maxLost: () => config.maxAttempts,
      wake: this.wakeup.wake,
    });
    this.renewer = createRenewer({ store, clock, log, kinds: this.kinds, running: this.slots.running });
    this.dispatcher = createDispatcher({
      kinds: this.kinds,
      slots: this.slots,
      clock,
      random,
      metrics: this.metrics,
      stopper: this.stopper,
      config,
      finish: (finished) => this.finish(finished),
      isOpen: () => this.mode === 'claiming',
      giveBack: (jobs) => {
        this.returns.push(...jobs);
        this.wakeup.wake();
      },
    });
    options.metrics.observe('waiting', 'jobs claimed ahead that wait for a slot', () => this.dispatcher.waiting);
  }

  async start(): Promise<void> {
    await this.sweeper.start();
    this.renewer.start();
    this.mode = 'claiming';
    this.running = this.work();
  }

  async drain(): Promise<void> {
    if (this.mode === 'claiming') this.mode = 'draining';
    this.returns.push(...this.dispatcher.clear());
    this.wakeup.wake();
    await this.running;
  }

  async stop(signal: AbortSignal | undefined): Promise<void> {
    const { slots, dispatcher, wakeup, kinds } = this;
    const { store, clock, log, owner } = this.options;
    this.mode = this.mode === 'new' ? 'ended' : 'draining';
    await this.sweeper.stop();
    this.stopper.stop();
    wakeup.wake();
    await Promise.race([this.running, whenAborted(signal)]);
    this.renewer.stop();
    this.mode = 'ended';
    wakeup.wake();
    const running = [...slots.running];
    for (const one of running) slots.free(one);
    const waiting = [...this.returns, ...dispatcher.clear()];
    const left = { outcomes: this.outcomes, running, loading: dispatcher.loading(), waiting };
    if (await leaveJobs({ store, kinds, clock, log }, left)) owner?.close();
  }

  private async work(): Promise<void> {
    const { clock, log, fatal } = this.options;
    let failures = 0;
    while (this.mode !== 'ended' && !this.isFinished()) {
      try {
        const isMore = await this.flush();
        failures = 0;
        if (!isMore && !this.isFinished()) await this.wakeup.sleep(await this.idleMs());
      } catch (error) {
        const isFinal = isStoreError(error) && !isTransientStoreError(error);
        log.error({ error: messageOf(error), isFinal }, 'outcomes or claims of jobs cannot be written');
        if (isFinal) {
          this.mode = 'ended';
          fatal?.(error);
          return;
        }
        failures += 1;
        await clock.sleep(backoffMs(failures, null, STORE_BACKOFF));
      }
    }
  }

  /** One transaction: acks, returned leases, the next claim. Returns whether there may be more to claim. */
  private async flush(): Promise<boolean> {
    const { dispatcher, kinds, walk } = this;
    const { store, clock, config, owner } = this.options;
    this.cancelFlush?.();
    this.cancelFlush = null;
    const isClaiming = this.mode === 'claiming';
    if (isClaiming) dispatcher.pump();
    else this.returns.push(...dispatcher.clear());
    const finished = this.outcomes;
    this.outcomes = [];
    const back = this.returns;
    this.returns = [];
    const room = this.slots.room(isClaiming ? config.claimBatch : 0);
    const ahead = this.aheadRoom(isClaiming ? config.claimBatch - Math.max(0, room.total) : 0);
    if (finished.length + back.length === 0 && room.total <= 0 && ahead.total <= 0) return false;
    const now = clock.now();
    const startedMs = clock.monotonic();
    this.sweeper.saw(now, startedMs);
    // Every commit of new jobs wakes the runner; while it has enough to do, a look every `BLOCKED_POLL_MS` is enough.
    const isIdle = finished.length + back.length === 0 && room.total <= 0 && this.isFed();
    if (isIdle && startedMs - this.lookedAtMs < BLOCKED_POLL_MS) return false;
    this.lookedAtMs = startedMs;
    try {
      const { recorded, claim } = await store.write(async (tx) => {
        const recorded = await ackAll(tx, kinds, finished, now);
        await giveBack(tx, back, now);
        return { recorded, claim: await claimJobs(tx, { kinds, room, ahead, walk, now, owner: owner?.id ?? null }) };
      });
      this.isBlocked = claim.isMoreDue || dispatcher.waiting > 0;
      this.metrics.late(finished.length - recorded.length);
      this.release([...finished.map(({ claimed }) => claimed), ...back]);
      for (const { job, claim: token } of [...claim.jobs, ...claim.ahead]) this.held.set(job.id, token);
      this.launch(claim, now, startedMs);
      return claim.jobs.length > 0 && claim.jobs.length === room.total && claim.ahead.length === 0;
    } catch (error) {
      this.metrics.failedFlush();
      this.returns.push(...back);
      await this.ackAfter(error, finished, now);
      return true;
    }
  }

  /** The mode may have changed during the claim. */
  private launch(claim: Claim, now: number, startedMs: number): void {
    if (this.mode === 'claiming') this.dispatcher.launch(claim, now, startedMs);
    else {
      this.returns.push(...claim.ahead);
      this.dispatcher.launch({ ...claim, ahead: [] }, now, startedMs);
    }
  }

  private release(jobs: readonly ClaimedJob[]): void {
    for (const { job, claim } of jobs) if (this.held.get(job.id) === claim) this.held.delete(job.id);
  }

  private aheadRoom(limit: number): AheadRoom {
    const { dispatcher, kinds, held } = this;
    const most = this.options.config.claimAhead;
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
  private async ackAfter(error: unknown, finished: readonly Finished[], now: number): Promise<void> {
    const { store, log } = this.options;
    try {
      if (isStoreError(error) || finished.length === 0) throw error;
      log.warn({ error: messageOf(error) }, 'outcomes of jobs could not be written together; writing them one by one');
      await ackSingly(store, this.kinds, finished, now, log);
      this.release(finished.map(({ claimed }) => claimed));
    } catch (failure) {
      this.outcomes = [...finished.map((one) => ({ ...one, isUnsure: true as const })), ...this.outcomes];
      throw failure;
    }
  }

  private finish(finished: Finished): void {
    const { slots, wakeup } = this;
    const { clock, config } = this.options;
    if (!slots.running.has(finished.claimed)) return;
    slots.free(finished.claimed);
    this.outcomes.push(finished);
    // While claimed jobs wait for slots, no slot is idle: more outcomes may share one transaction.
    if (this.outcomes.length >= this.flushAt() || slots.running.size === 0) wakeup.wake();
    else
      this.cancelFlush ??= clock.timeout(
        this.isFed() ? config.writeDelayMs * FED_PATIENCE : config.writeDelayMs,
        wakeup.wake,
      );
  }

  private isFed(): boolean {
    return this.dispatcher.waiting > this.options.config.concurrency;
  }

  private flushAt(): number {
    return this.isFed() ? MAX_OUTCOMES : Math.min(MAX_OUTCOMES, Math.ceil(this.options.config.concurrency / 2));
  }

  private isFinished(): boolean {
    const { slots, outcomes, returns, dispatcher } = this;
    return this.mode !== 'claiming' && slots.running.size + outcomes.length + returns.length + dispatcher.waiting === 0;
  }

  /** Time until the next due row that this process could claim. */
  private async idleMs(): Promise<number> {
    const { store, clock, config } = this.options;
    if (this.mode !== 'claiming' || (this.slots.isFull() && this.dispatcher.waiting === 0)) return config.pollMs;
    if (this.isBlocked) return Math.min(config.pollMs, BLOCKED_POLL_MS);
    const now = clock.now();
    const next = await nextDueAt(store, [...this.kinds.keys()], now);
    return next === null ? config.pollMs : Math.max(1, Math.min(config.pollMs, next - now));
  }
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
