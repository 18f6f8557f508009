import { setMaxListeners } from 'node:events';

export interface SemaphoreOptions {
  /** Total number of permits. */
  readonly concurrency: number;
  /** Permits per group; default: no limit per group. */
  readonly perGroup?: number;
  /** Maximum number of waiting callers; default: no limit. */
  readonly maxWaiting?: number;
}

export interface AcquireOptions {
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
  /** Callers of one group are served in order of arrival, groups in rotation, so a long queue of one group does not delay the others. */
  readonly group?: string | undefined;
}

/** Limits how many pieces of work run at once. */
export interface Semaphore {
  /**
   * Resolves with the function that releases the permit; calling it again has no effect. Null if too many callers are waiting. Rejects
   * with the reason of the signal if that aborts first.
   */
  acquire(options?: AcquireOptions): Promise<() => void> | null;
  /** Runs `work` with a permit. Errors: those of `work`, the reason of the signal, and `SemaphoreFull`. */
  run<T>(work: () => Promise<T>, options?: AcquireOptions): Promise<T>;
  readonly running: () => number;
  readonly waiting: () => number;
}

export class SemaphoreFull extends Error {
  constructor() {
    super('too many callers wait already');
    this.name = 'SemaphoreFull';
  }
}

export function createSemaphore({
  concurrency,
  perGroup = Number.POSITIVE_INFINITY,
  maxWaiting = Number.POSITIVE_INFINITY,
}: SemaphoreOptions): Semaphore {
  const held = new Map<string, number>();
  /** Groups with waiting callers, in the order in which they are served. */
  const queues = new Map<string, Set<() => void>>();
  let running = 0;
  let waiting = 0;

  const hasRoom = (group: string) => running < concurrency && (held.get(group) ?? 0) < perGroup;

  function take(group: string): () => void {
    running += 1;
    held.set(group, (held.get(group) ?? 0) + 1);
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      running -= 1;
      const left = (held.get(group) ?? 1) - 1;
      if (left === 0) held.delete(group);
      else held.set(group, left);
      serveNext();
    };
  }

  function serveNext(): void {
    for (const [group, queue] of queues) {
      if (!hasRoom(group)) continue;
      const [first] = queue;
      // To the end of the rotation; the caller removes itself.
      queues.delete(group);
      queues.set(group, queue);
      first?.();
      return;
    }
  }

  function wait(group: string, signal: AbortSignal | undefined): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const queue = queues.get(group) ?? new Set();
      queues.set(group, queue);
      const leave = () => {
        queue.delete(start);
        waiting -= 1;
        if (queue.size === 0) queues.delete(group);
        signal?.removeEventListener('abort', onAbort);
      };
      const start = () => {
        leave();
        resolve(take(group));
      };
      const onAbort = () => {
        leave();
        reject(signal?.reason as Error);
      };
      queue.add(start);
      waiting += 1;
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  function acquire({ signal, group = '' }: AcquireOptions = {}): Promise<() => void> | null {
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    // Many callers may wait on the signal of one request or job.
    if (signal !== undefined) setMaxListeners(0, signal);
    if (hasRoom(group)) return Promise.resolve(take(group));
    return waiting < maxWaiting ? wait(group, signal) : null;
  }

  return {
    acquire,
    async run(work, options) {
      const permit = acquire(options);
      if (permit === null) throw new SemaphoreFull();
      const release = await permit;
      try {
        return await work();
      } finally {
        release();
      }
    },
    running: () => running,
    waiting: () => waiting,
  };
}
