import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import { withDeadline } from '../runtime/deadline.ts';

export interface WatchdogOptions {
  /** The service manager ends the process when it hears nothing for this long. */
  readonly timeoutMs: number;
  /** Proves that the store takes writes and that all roles answer. */
  readonly probe: () => Promise<void>;
  /** Feeds the watchdog of the service manager. */
  readonly alive: () => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Says at half of the manager's time-out that the daemon lives, as long as that is true. */
export interface Watchdog {
  start(): void;
  stop(): void;
}

/** How long the event loop is looked at before each sign of life. */
const SAMPLE_MS = 20;
const LONGEST_LAG_MS = 5_000;

/**
 * A sign of life needs an event loop that answers, one in each thread, and a store that takes a write. When one is missing it is tried again soon, so that a
 * short trouble does not end the process; a long one does, which is what the watchdog is for.
 */
export function createWatchdog({ timeoutMs, probe, alive, clock, log }: WatchdogOptions): Watchdog {
  const maxLagMs = Math.min(LONGEST_LAG_MS, timeoutMs / 10);
  const probeTimeoutMs = timeoutMs / 4;
  const stopped = new AbortController();
  let probing: Promise<void> | null = null;

  async function measureLag(): Promise<number> {
    const askedMs = clock.monotonic();
    await clock.sleep(SAMPLE_MS, stopped.signal);
    return clock.monotonic() - askedMs - SAMPLE_MS;
  }

  /** A probe that hangs is waited for, not joined by another one. */
  function probeOnce(): Promise<void> {
    probing ??= probe().finally(() => {
      probing = null;
    });
    return probing;
  }

  /** What is wrong, or null. */
  async function look(): Promise<string | null> {
    const lagMs = await measureLag();
    if (lagMs > maxLagMs) return `the event loop answers ${Math.round(lagMs)} ms late`;
    try {
      await withDeadline(clock, probeTimeoutMs, probeOnce, stopped.signal);
      return null;
    } catch (error) {
      const code = codeOf(error) ?? messageOf(error);
      return code.startsWith('ROLE_') ? messageOf(error) : `the store takes no write: ${code}`;
    }
  }

  async function run(): Promise<void> {
    while (!stopped.signal.aborted) {
      const reason = await look();
      if (stopped.signal.aborted) return;
      if (reason === null) await alive();
      else log.error({ reason }, 'no sign of life for the watchdog of the service manager');
      await clock.sleep(reason === null ? timeoutMs / 2 : timeoutMs / 10, stopped.signal);
    }
  }
  return {
    // The only error that gets here is the one of `stop`.
    start: () => void run().catch(() => undefined),
    stop: () => stopped.abort(new Error('the watchdog was stopped')),
  };
}
