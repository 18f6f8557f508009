import type { Clock } from '../../ports/clock.ts';

/** Thrown by `withDeadline`; callers turn it into an error that names what was late. */
export class DeadlinePassed extends Error {
  constructor(ms: number) {
    super(`not done after ${ms} ms`);
    this.name = 'DeadlinePassed';
  }
}

/**
 * Runs `work` and rejects with DeadlinePassed when it takes longer than `ms`; its signal aborts then, or when `parent` aborts. The
 * work itself may go on if it ignores the signal: nobody waits for it any more.
 */
export async function withDeadline<T>(
  clock: Clock,
  ms: number,
  work: (signal: AbortSignal) => T | Promise<T>,
  parent?: AbortSignal,
): Promise<T> {
  const controller = new AbortController();
  const late = new DeadlinePassed(ms);
  return await new Promise<T>((resolve, reject) => {
    const give = (reason: unknown) => {
      controller.abort(reason);
      reject(reason as Error);
    };
    const onParent = () => give(parent?.reason);
    const cancel = clock.timeout(ms, () => give(late));
    const finish = () => {
      cancel();
      parent?.removeEventListener('abort', onParent);
    };
    parent?.addEventListener('abort', onParent, { once: true });
    if (parent?.aborted) onParent();
    // The function runs in a promise chain so that a synchronous throw is a rejection too.
    Promise.resolve()
      .then(() => work(controller.signal))
      .then(resolve, reject)
      .finally(finish);
  });
}
