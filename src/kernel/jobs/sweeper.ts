import { messageOf } from '../../lib/coded-error.ts';
import type { Clock, Random } from '../../ports/clock.ts';
import type { Log } from '../../ports/log.ts';
import type { Store } from '../../ports/store.ts';
import type { JobMetrics } from './job-metrics.ts';
import { returnExpired, spreadOverdue } from './sweep.ts';

export interface SweeperOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: JobMetrics;
  readonly maxLost: number;
  readonly wake: () => void;
}

/** Looks for leases that ran out, and does once at the start what a long pause makes necessary. */
export interface Sweeper {
  /** Spreads overdue retries, returns leases that ran out, then goes on doing the latter. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

const INTERVAL_MS = 30_000;
const SPREAD_OVER_MS = 30_000;
const SPREAD_BATCH = 5_000;

export function createSweeper({ store, clock, random, log, metrics, maxLost, wake }: SweeperOptions): Sweeper {
  const stopped = new AbortController();
  let loop: Promise<void> = Promise.resolve();

  async function sweep(): Promise<void> {
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
      const pointMs = Math.floor(random.float() * INTERVAL_MS);
      await sleep(pointMs);
      if (stopped.signal.aborted) return;
      await sweep().catch((error: unknown) => log.warn({ error: messageOf(error) }, 'leases could not be looked at'));
      await sleep(INTERVAL_MS - pointMs);
    }
  }

  return {
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
