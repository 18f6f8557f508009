import type { Clock } from '../../../src/ports/clock.ts';

/** Waits for work that goes on without whoever asked: rejects with `late()` after `ms`, or with the signal's reason. */
export function withDeadline<T>(
  clock: Clock,
  ms: number,
  work: () => Promise<T>,
  late: () => Error,
  signal?: AbortSignal,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal?.reason as Error);
    const cancel = clock.timeout(ms, () => reject(late()));
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    work()
      .then(resolve, reject)
      .finally(() => {
        cancel();
        signal?.removeEventListener('abort', onAbort);
      });
  });
}
