import type { Clock } from '../ports/clock.ts';

/** Lets one loop sleep until something wakes it; a wake that comes while it is awake is not lost. */
export interface Waker {
  wake(): void;
  /** Resolves after `ms` or at the next wake; at once when it was woken since it last slept. */
  sleep(ms: number): Promise<void>;
  /** Sleeps `ms` whoever wakes. */
  pause(ms: number): Promise<void>;
}

export function createWaker(clock: Clock): Waker {
  let isWoken = false;
  let rise: (() => void) | null = null;
  const sleep = (ms: number): Promise<void> => {
    if (isWoken) {
      isWoken = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const cancel = clock.timeout(ms, () => rise?.());
      rise = () => {
        cancel();
        rise = null;
        isWoken = false;
        resolve();
      };
    });
  };
  return {
    wake() {
      if (rise === null) isWoken = true;
      else rise();
    },
    sleep,
    pause: (ms) => clock.sleep(ms),
  };
}
