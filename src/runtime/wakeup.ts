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
