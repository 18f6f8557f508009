import { CodedError } from '../lib/coded-error.ts';

export interface WriteQueueOptions {
  /** Writers that may wait; one more is refused. */
  readonly maxWaiting: number;
  /** How long a writer waits for those before it. */
  readonly timeoutMs: number;
}

export interface WriteQueue {
  /** Runs `work` when all earlier work is over. Errors: STORE_BUSY when the queue is full or the wait too long. */
  run<T>(work: () => Promise<T>): Promise<T>;
  /** Resolves when nothing runs or waits any more; later work is refused. */
  close(): Promise<void>;
}

/** One at a time, first come first served, with a bound on how many wait and for how long. */
export function createWriteQueue({ maxWaiting, timeoutMs }: WriteQueueOptions): WriteQueue {
  const waiting = new Set<() => void>();
  const idle: (() => void)[] = [];
  let busy = false;
  let closed = false;

  const turn = (): Promise<void> => {
    if (waiting.size >= maxWaiting) return Promise.reject(tooBusy(`${maxWaiting} writers are waiting already`));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        waiting.delete(go);
        reject(tooBusy(`another write transaction of this process has been open for more than ${timeoutMs} ms`));
      }, timeoutMs);
      const go = () => {
        clearTimeout(timer);
        resolve();
      };
      waiting.add(go);
    });
  };

  const next = () => {
    const [first] = waiting;
    if (first !== undefined) {
      waiting.delete(first);
      first();
      return;
    }
    busy = false;
    for (const done of idle.splice(0)) done();
  };

  return {
    async run(work) {
      if (closed) throw new CodedError('STORE_CLOSED', 'the store is closed');
      if (busy) await turn();
      else busy = true;
      try {
        return await work();
      } finally {
        next();
      }
    },
    close() {
      closed = true;
      return busy ? new Promise((resolve) => idle.push(resolve)) : Promise.resolve();
    },
  };
}

function tooBusy(why: string): CodedError {
  return new CodedError('STORE_BUSY', `the database cannot take the write: ${why}`, { retryable: true });
}
