import { messageOf } from '../../lib/coded-error.ts';
import type { Clock, Random } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Store } from '../../ports/store.ts';
import type { JobKind } from '../plugin.ts';
import type { JobMetrics } from './job-metrics.ts';
import { CLOCK_SKEW_MS, cutLeases, pullBack, pullNew } from './pull-back.ts';
import { returnExpired, spreadOverdue } from './sweep.ts';

export interface SweeperOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: JobMetrics;
  readonly kinds: ReadonlyMap<string, JobKind>;
  readonly maxLost: number;
  readonly wake: () => void;
}

/** Looks for leases that ran out, and does at the start what a long pause or a clock that was wrong makes necessary. */
export interface Sweeper {
  /** Spreads overdue retries, mends times that lie ahead, returns leases that ran out, then goes on doing the latter two. */
  start(): Promise<void>;
  /** Notes what the wall clock says at a moment of the monotonic one: one that is ahead may be so between two looks only. */
  saw(now: number, monotonicMs: number): void;
  stop(): Promise<void>;
}

const INTERVAL_MS = 30_000;
const SPREAD_OVER_MS = 30_000;
const SPREAD_BATCH = 5_000;

export function createSweeper(options: SweeperOptions): Sweeper {
  const { store, clock, random, log, metrics, kinds, maxLost, wake } = options;
  const stopped = new AbortController();
  /** Short leases are looked at as often as they may run out. */
  const intervalMs = Math.min(INTERVAL_MS, ...[...kinds.values()].map(({ leaseMs }) => leaseMs ?? INTERVAL_MS));
  let loop: Promise<void> = Promise.resolve();
  /** Wall clock less monotonic, the most since the last look: it is less when the clock was set back. */
  let offsetMs = Number.POSITIVE_INFINITY;

  async function mend(): Promise<void> {
    const now = clock.now();
    const before = offsetMs;
    const offset = now - clock.monotonic();
    const byMs = before - offset;
    const isSetBack = byMs > CLOCK_SKEW_MS;
    const count = await store.write(async (tx) => {
      const cut = await cutLeases(tx, kinds.values(), now);
      return cut + (await (isSetBack ? pullBack(tx, kinds.values(), now, byMs) : pullNew(tx, kinds.values(), now)));
    });
    offsetMs = offset;
    if (count === 0) return;
    log.warn({ jobs: count }, 'jobs that a clock ahead of this one had planned are due again');
    wake();
  }

  async function sweep(): Promise<void> {
    await mend();
    const count = await store.write((tx) => returnExpired(tx, clock.now(), maxLost));
    if (count === 0) return;
    metrics.lost(count);
    log.warn({ jobs: count }, 'jobs whose process ended without an outcome run again');
    wake();
  }

  async function spread(): Promise<void> {
    const now = clock.now();
    let moved = SPREAD_BATCH;
    while (moved === SPREAD_BATCH) {
      moved = await store.write((tx) =>
        spreadOverdue(tx, { before: now, now, overMs: SPREAD_OVER_MS, limit: SPREAD_BATCH }),
      );
    }
  }

  /** Once per interval, at a random point within it, so that many processes do not sweep together. */
  async function keepSweeping(): Promise<void> {
    const sleep = (ms: number) => clock.sleep(ms, stopped.signal).catch(() => {});
    while (!stopped.signal.aborted) {
      const pointMs = Math.floor(random.float() * intervalMs);
      await sleep(pointMs);
      if (stopped.signal.aborted) return;
      await sweep().catch((error: unknown) => log.warn({ error: messageOf(error) }, 'leases could not be looked at'));
      await sleep(intervalMs - pointMs);
    }
  }

  return {
    saw(now, monotonicMs) {
      offsetMs = Math.max(offsetMs, now - monotonicMs);
    },
    async start() {
      await sweep();
      await spread();
      loop = keepSweeping();
    },
    async stop() {
      stopped.abort(new Error('stopped'));
      await loop;
    },
  };
}
