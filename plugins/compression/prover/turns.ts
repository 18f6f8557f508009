/** Lets a few go at once; the others wait in the order in which they came. */
export interface Turns {
  /**
   * Resolves with the function that ends the turn, which is to be called once. Null when too many wait already.
   * Rejects with the signal's reason when that aborts first.
   */
  take(signal: AbortSignal): Promise<() => void> | null;
}

export function createTurns(limits: { readonly atOnce: number; readonly waiting: number }): Turns {
  let running = 0;
  const queue = new Set<() => void>();

  const end = (): void => {
    const [next] = queue;
    // A turn that is handed on stays counted.
    if (next === undefined) running -= 1;
    else next();
  };
  const once = (): (() => void) => {
    let isOver = false;
    return () => {
      if (!isOver) end();
      isOver = true;
    };
  };
  const wait = (signal: AbortSignal): Promise<() => void> =>
    new Promise((resolve, reject) => {
      const leave = (): void => {
        queue.delete(go);
        reject(signal.reason);
      };
      const go = (): void => {
        queue.delete(go);
        signal.removeEventListener('abort', leave);
        resolve(once());
      };
      queue.add(go);
      signal.addEventListener('abort', leave, { once: true });
    });

  return {
    take(signal) {
      if (signal.aborted) return Promise.reject(signal.reason);
      if (running < limits.atOnce) {
        running += 1;
        return Promise.resolve(once());
      }
      return queue.size < limits.waiting ? wait(signal) : null;
    },
  };
}
