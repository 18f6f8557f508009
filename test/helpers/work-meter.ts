import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const PAUSE_MS = 15_000;
const WORK = fileURLToPath(new URL('sample-work.mjs', import.meta.url));

export interface MeasuredWork {
  /** CPU of the work, the mean over the time of the measurement. */
  readonly secondsOfWork: number;
  /** CPU of all the times that it was done. */
  readonly spentSeconds: number;
}

/**
 * Does the same small work again and again beside the tests, and measures what CPU time it takes. A second of CPU is no unit: virtual machines
 * of one name differ by a factor of three, and one machine by two with what its neighbours and its other core do. So what tests take is
 * stated as a number of times this work, done in the same minutes.
 */
export function startWorkMeter(): { stop(): Promise<MeasuredWork> } {
  const stopped = new AbortController();
  const samples: number[] = [];
  const running = (async () => {
    do {
      const { stdout } = await promisify(execFile)(process.execPath, [WORK]);
      samples.push(Number(stdout));
      await sleep(PAUSE_MS, undefined, { signal: stopped.signal }).catch(() => undefined);
    } while (!stopped.signal.aborted);
  })();
  // Whoever stops it hears of it.
  running.catch(() => undefined);
  return {
    async stop() {
      stopped.abort();
      await running;
      const spentSeconds = samples.reduce((sum, one) => sum + one, 0);
      return { secondsOfWork: spentSeconds / samples.length, spentSeconds };
    },
  };
}
