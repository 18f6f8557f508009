import type { Clock } from '../../src/ports/clock.ts';
import { sleepBy } from './sleep-by.ts';
import { LEAST_PAUSE_MS, until } from './until.ts';

export interface ManualClock extends Clock {
  /** Moves time on and runs what became due, in order, letting promises settle between steps. */
  advance(ms: number): Promise<void>;
  /** Moves time on at once, as when a machine slept: what was due meanwhile runs late, and once. */
  leap(ms: number): Promise<void>;
  /**
   * Moves time on to the next timer again and again until the work is over, which may also wait for a database: while no timer waits, time
   * stands still. Errors: a minute of real time has passed.
   */
  passWhile<T>(work: Promise<T>, what: string): Promise<T>;
  /** Timers that wait. */
  readonly pending: number;
}

/** A clock that stands still until it is moved. `settle` waits until all is over that needs no time of this clock. */
export function createManualClock(startMs = 1_700_000_000_000, settle = settlePromises): ManualClock {
  let elapsedMs = 0;
  const timers = new Set<{ readonly dueMs: number; readonly fn: () => void }>();
  const timeout = (ms: number, fn: () => void) => {
    const timer = { dueMs: elapsedMs + ms, fn };
    timers.add(timer);
    return () => void timers.delete(timer);
  };
  async function advance(ms: number): Promise<void> {
    const untilMs = elapsedMs + ms;
    await settle();
    for (;;) {
      const [next] = [...timers].filter(({ dueMs }) => dueMs <= untilMs).sort((a, b) => a.dueMs - b.dueMs);
      if (next === undefined) break;
      timers.delete(next);
      elapsedMs = Math.max(elapsedMs, next.dueMs);
      next.fn();
      await settle();
    }
    elapsedMs = untilMs;
  }
  return {
    now: () => startMs + elapsedMs,
    monotonic: () => elapsedMs,
    timeout,
    sleep: sleepBy(timeout),
    get pending() {
      return timers.size;
    },
    advance,
    async passWhile(work, what) {
      let isOver = false;
      const end = () => {
        isOver = true;
      };
      work.then(end, end);
      const pass = async () => {
        await settle();
        const dueMs = Math.min(...[...timers].map((timer) => timer.dueMs));
        if (!isOver && dueMs < Number.POSITIVE_INFINITY) await advance(Math.max(0, dueMs - elapsedMs));
        return isOver;
      };
      await until(pass, what, undefined, LEAST_PAUSE_MS);
      return await work;
    },
    async leap(ms) {
      elapsedMs += ms;
      await advance(0);
    },
  };
}

/** Lets everything run that waits for promises only. */
const settlePromises = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
