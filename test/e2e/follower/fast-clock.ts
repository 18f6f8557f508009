import type { Clock } from '../../../src/ports/clock.ts';
import { sleepBy } from '../../helpers/sleep-by.ts';

/** Real time that passes `factor` times as fast, so that pauses of seconds fit into a test whose sockets are real. */
export function createFastClock(factor: number): Clock {
  const startedMs = performance.now();
  const monotonic = () => (performance.now() - startedMs) * factor;
  const timeout = (ms: number, fn: () => void) => {
    const timer = setTimeout(fn, ms / factor);
    return () => clearTimeout(timer);
  };
  return {
    now: () => Math.floor(1_700_000_000_000 + monotonic()),
    monotonic,
    timeout,
    sleep: sleepBy(timeout),
  };
}
