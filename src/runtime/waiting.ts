import type { Clock } from '../ports/clock.ts';

/** Lets one loop sleep until something happens. A wake-up that comes while the loop is awake is not lost. */
export interface Wakeup {
  wake(): void;
  /** Resolves at the next `wake`, after `ms`, or when the signal aborts; at once if `wake` was called since the last sleep. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export function createWakeup(clock: Clock): Wakeup {
  let isWoken = false;
  let rise: (() => void) | null = null;
  return {
    wake() {
      if (rise === null) isWoken = true;
      else rise();
    },
    sleep(ms, signal) {
      if (isWoken || signal?.aborted) {
        isWoken = false;
        return Promise.resolve();
      }
      return new Promise((resolve) => {
        const onAbort = () => rise?.();
        const cancel = clock.timeout(ms, onAbort);
        rise = () => {
          rise = null;
          cancel();
          signal?.removeEventListener('abort', onAbort);
          resolve();
        };
        signal?.addEventListener('abort', onAbort, { once: true });
      });
    },
  };
}

/**
 * Runs `work` at this interval until stopped, never concurrently: a long run delays the next one. Errors go to `onError`. The returned
 * function aborts the signal of `work` and resolves when a run in flight has ended.
 */
export function startEvery(
  clock: Clock,
  intervalMs: number,
  work: (signal: AbortSignal) => unknown,
  onError: (error: unknown) => void,
): () => Promise<void> {
  const controller = new AbortController();
  const { signal } = controller;
  const loop = async (): Promise<void> => {
    for (;;) {
      try {
        await clock.sleep(intervalMs, signal);
      } catch {
        return;
      }
      try {
        await work(signal);
      } catch (error) {
        if (!signal.aborted) onError(error);
      }
    }
  };
  const running = loop();
  return () => {
    controller.abort();
    return running;
  };
}
