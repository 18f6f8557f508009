import { setMaxListeners } from 'node:events';

/** Lets only so many pieces of work run at once; the others wait in the order in which they came. */
export interface Turns {
  /** Errors: those of `work`, and the signal's reason while it waits. */
  run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

export function createTurns(most: number): Turns {
  let running = 0;
  const waiting = new Set<() => void>();

  function next(): void {
    running -= 1;
    const [first] = waiting;
    first?.();
  }

  function turn(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (running < most) {
      running += 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const begin = () => {
        waiting.delete(begin);
        signal.removeEventListener('abort', give);
        running += 1;
        resolve();
      };
      const give = () => {
        waiting.delete(begin);
        reject(signal.reason);
      };
      waiting.add(begin);
      signal.addEventListener('abort', give, { once: true });
    });
  }

  return {
    async run(work, signal) {
      // Many wait on the signal of one request or job.
      setMaxListeners(0, signal);
      await turn(signal);
      try {
        return await work();
      } finally {
        next();
      }
    },
  };
}
