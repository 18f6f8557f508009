import type { Clock } from '../ports/clock.ts';

/** Lets a loop sleep until something happened. A call that comes while nobody waits is not lost. */
export interface Wake {
  call(): void;
  /** Resolves at the next call, after `ms`, or when the signal is aborted. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
}

export function createWake(clock: Clock): Wake {
  let isCalled = false;
  let resume: (() => void) | null = null;
  return {
    call() {
      isCalled = true;
      resume?.();
    },
    async wait(ms, signal) {
      if (!isCalled && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const cancel = clock.timeout(ms, () => resume?.());
          const onAbort = () => resume?.();
          resume = () => {
            resume = null;
            cancel();
            signal.removeEventListener('abort', onAbort);
            resolve();
          };
          signal.addEventListener('abort', onAbort, { once: true });
        });
      }
      isCalled = false;
    },
  };
}
