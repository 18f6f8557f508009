import { type Clock, codeOf, type Log, messageOf } from '../../src/plugin/plugin.ts';

/** Periodic background work. */
export interface PeriodicWork {
  /** `work` returns the pause in ms before its next run; after a failure the pause is `afterFailureMs`. */
  add(what: string, firstMs: number, afterFailureMs: number, work: (signal: AbortSignal) => Promise<number>): void;
  /** Cancels the pauses and waits for running work. */
  stop(): Promise<void>;
}

export function createPeriodicWork(clock: Clock, log: Log): PeriodicWork {
  const over = new AbortController();
  const loops: Promise<void>[] = [];

  async function loop(
    what: string,
    firstMs: number,
    afterFailureMs: number,
    work: (signal: AbortSignal) => Promise<number>,
  ): Promise<void> {
    const { signal } = over;
    let pauseMs = firstMs;
    while (!signal.aborted) {
      await clock.sleep(pauseMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        pauseMs = await work(signal);
      } catch (error) {
        if (signal.aborted) return;
        pauseMs = afterFailureMs;
        log.warn({ code: codeOf(error), error: messageOf(error) }, `${what} failed`);
      }
    }
  }

  return {
    add: (what, firstMs, afterFailureMs, work) => void loops.push(loop(what, firstMs, afterFailureMs, work)),
    async stop() {
      over.abort(new Error('the plugin is stopping'));
      await Promise.all(loops);
    },
  };
}
