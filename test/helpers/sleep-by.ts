import type { Clock } from '../../src/ports/clock.ts';

/** The `sleep` of a clock that has its own `timeout`; an abort rejects with the signal's reason. */
export function sleepBy(timeout: Clock['timeout']): Clock['sleep'] {
  return (ms, signal) =>
    new Promise((resolve, reject) => {
      const onAbort = () => {
        cancel();
        reject(signal?.reason as Error);
      };
      const cancel = timeout(ms, () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      });
      if (signal?.aborted) onAbort();
      else signal?.addEventListener('abort', onAbort, { once: true });
    });
}
