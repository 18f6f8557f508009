import { setMaxListeners } from 'node:events';
import { admits } from '../lib/fair-share.ts';
import { OWN_WORK } from '../ports/access.ts';

export interface SemaphoreOptions {
  /** Total number of permits. */
  readonly concurrency: number;
  /** Permits per group; default: no limit per group. */
  readonly perGroup?: number;
  /** Permits of one part over all groups; default: no limit per part. */
  readonly perPart?: number;
  /**
   * Maximum number of waiting callers; default: no limit. A group that waits with fewer than its fair share may go a quarter beyond it, so that
   * one that has filled the queue does not lock out the others.
   */
  readonly maxWaiting?: number;
}

export interface AcquireOptions {
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
  /**
   * For whom the work is: the id of a tenant, such as `OWN_WORK`. Callers of one group are served in order of arrival, groups in rotation, so a
   * long queue of one group does not delay the others.
   */
  readonly group: string;
  /** Within the group; as groups, parts of a group are served in rotation. */
  readonly part?: string;
}

/** Limits how many pieces of work run at once. */
export interface Semaphore {
  /**
   * Resolves with the function that releases the permit; calling it again has no effect. Null if too many callers are waiting. Rejects
   * with the reason of the signal if that aborts first.
   */
  acquire(options: AcquireOptions): Promise<() => void> | null;
  /** Runs `work` with a permit. Errors: those of `work`, the reason of the signal, and `SemaphoreFull`. */
  run<T>(work: () => Promise<T>, options: AcquireOptions): Promise<T>;
  readonly running: () => number;
  readonly waiting: () => number;
}

export class SemaphoreFull extends Error {
  constructor() {
    super('too many callers wait already');
    this.name = 'SemaphoreFull';
  }
}

/** Callers of one group that wait, by their parts, in the order in which these are served. */
type Waiting = Map<string, Set<() => void>>;

export function createSemaphore({
  concurrency,
  perGroup = Number.POSITIVE_INFINITY,
  perPart = Number.POSITIVE_INFINITY,
  maxWaiting = Number.POSITIVE_INFINITY,
}: SemaphoreOptions): Semaphore {
  const heldByGroup = new Map<string, number>();
  const heldByPart = new Map<string, number>();
  /** Groups with waiting callers, in the order in which they are served. */
  const queues = new Map<string, Waiting>();
  const waitingByGroup = new Map<string, number>();
  let running = 0;
  let waiting = 0;

  const hasRoom = (group: string, part: string) =>
    running < concurrency && countOf(heldByGroup, group) < perGroup && countOf(heldByPart, part) < perPart;

  function take(group: string, part: string): () => void {
    running += 1;
    add(heldByGroup, group, 1);
    add(heldByPart, part, 1);
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      running -= 1;
      add(heldByGroup, group, -1);
      add(heldByPart, part, -1);
      serveNext();
    };
  }

  function serveNext(): void {
    for (const [group, parts] of queues)
      for (const [part, queue] of parts) {
        if (!hasRoom(group, part)) continue;
        const [first] = queue;
        // To the end of both rotations; the caller removes itself.
        queues.delete(group);
        queues.set(group, parts);
        parts.delete(part);
        parts.set(part, queue);
        first?.();
        return;
      }
  }

  function wait(group: string, part: string, signal: AbortSignal | undefined): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const parts: Waiting = queues.get(group) ?? new Map();
      queues.set(group, parts);
      const queue = parts.get(part) ?? new Set();
      parts.set(part, queue);
      const leave = () => {
        queue.delete(start);
        waiting -= 1;
        add(waitingByGroup, group, -1);
        if (queue.size === 0) parts.delete(part);
        if (parts.size === 0) queues.delete(group);
        signal?.removeEventListener('abort', onAbort);
      };
      const start = () => {
        leave();
        resolve(take(group, part));
      };
      const onAbort = () => {
        leave();
        reject(signal?.reason as Error);
      };
      queue.add(start);
      waiting += 1;
      add(waitingByGroup, group, 1);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  }

  function acquire({ signal, group, part = '' }: AcquireOptions): Promise<() => void> | null {
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    // Many callers may wait on the signal of one request or job.
    if (signal !== undefined) setMaxListeners(0, signal);
    if (hasRoom(group, part)) return Promise.resolve(take(group, part));
    const room = { room: maxWaiting, used: waiting, holders: waitingByGroup.size };
    return admits(room, countOf(waitingByGroup, group), 1) ? wait(group, part, signal) : null;
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

const countOf = (counts: ReadonlyMap<string, number>, key: string): number => counts.get(key) ?? 0;

function add(counts: Map<string, number>, key: string, change: number): void {
  const count = countOf(counts, key) + change;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}

/** Runs one piece of the daemon's own work at a time, in order of arrival. */
export function createMutex(): <T>(work: () => Promise<T>) => Promise<T> {
  const semaphore = createSemaphore({ concurrency: 1 });
  return (work) => semaphore.run(work, { group: OWN_WORK.id });
}
