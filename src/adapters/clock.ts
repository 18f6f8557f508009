import { randomBytes, randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleepMs } from 'node:timers/promises';
import type { Clock, Random } from '../ports/clock.ts';

/** The clock of the machine. */
export function createSystemClock(): Clock {
  return {
    now: Date.now,
    monotonic: () => performance.now(),
    async sleep(ms, signal) {
      try {
        await sleepMs(ms, undefined, signal === undefined ? { ref: false } : { ref: false, signal });
      } catch (error) {
        // Node wraps the reason in an AbortError; the port promises the reason itself.
        throw signal?.aborted ? signal.reason : error;
      }
    },
    timeout(ms, fn) {
      const timer = setTimeout(fn, ms);
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
}

/** Randomness of the operating system; bytes and UUIDs are fit for keys. */
export function createSystemRandom(): Random {
  return {
    float: Math.random,
    bytes: (count) => randomBytes(count),
    uuid: () => randomUUID(),
  };
}
