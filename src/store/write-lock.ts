import { CodedError } from '../lib/coded-error.ts';

/** Allows one write transaction at a time across all threads of a process. */
export interface WriteLock {
  /** Whether the lock was acquired in time. Call it again only after `release`, or after false. */
  acquire(timeoutMs: number): Promise<boolean>;
  release(): void;
}

/** Shared memory of a lock: its owner, and a slot for each member. */
export type LockMemory = SharedArrayBuffer;

const OWNER = 0;
const PLACES = 1;
/** States of a slot. */
const ABSENT = 0;
const WAITS = 1;
const GIVEN = 2;

export const makeLockMemory = (members: number): LockMemory =>
  new SharedArrayBuffer((PLACES + members) * Int32Array.BYTES_PER_ELEMENT);

/**
 * The lock as seen by one member (`me`: index of the thread, from 0). On release it is passed to the next waiting member in rotation, so
 * that each waits for at most one transaction of every other member. Waiting does not block the event loop.
 */
export function createWriteLock(memory: LockMemory, me: number): WriteLock {
  const cells = new Int32Array(memory);
  const members = cells.length - PLACES;
  const place = PLACES + me;
  const takeIfFree = (): boolean => Atomics.compareExchange(cells, OWNER, 0, me + 1) === 0;

  return {
    async acquire(timeoutMs) {
      if (takeIfFree()) return true;
      Atomics.store(cells, place, WAITS);
      // It may have been released before our wait was visible.
      if (!takeIfFree()) {
        const until = performance.now() + timeoutMs;
        // The wake-up of an earlier wait may come late and end this one, so a wake-up alone means nothing.
        while (Atomics.load(cells, place) === WAITS) {
          const leftMs = until - performance.now();
          if (leftMs > 0) {
            const waiting = (Atomics as unknown as AtomicsWithWait).waitAsync(cells, place, WAITS, leftMs);
            if (waiting.async) await waiting.value;
          } else if (Atomics.compareExchange(cells, place, WAITS, ABSENT) === WAITS) {
            // The lock was not passed to us in time, and from now on it cannot be.
            return false;
          }
        }
      }
      Atomics.store(cells, place, ABSENT);
      return true;
    },
    release: () => handOn(cells, members, me),
  };
}

/** From ES2024; supported by Node since 16. */
interface AtomicsWithWait {
  waitAsync(
    cells: Int32Array,
    index: number,
    value: number,
    timeoutMs: number,
  ): { readonly async: false } | { readonly async: true; readonly value: Promise<'ok' | 'timed-out'> };
}

/**
 * Removes a member whose thread has died: its lock is passed to the next. If the lock is passed to the dead member at the same time, two
 * members may own it; the lock of the database still separates their transactions.
 */
export function forgetLockMember(memory: LockMemory, member: number): void {
  const cells = new Int32Array(memory);
  Atomics.store(cells, PLACES + member, ABSENT);
  if (Atomics.load(cells, OWNER) === member + 1) handOn(cells, cells.length - PLACES, member);
}

function handOn(cells: Int32Array, members: number, from: number): void {
  for (;;) {
    if (giveToNext(cells, members, from)) return;
    Atomics.store(cells, OWNER, 0);
    // A member may have started to wait after our check and before the release.
    if (!someoneWaits(cells, members) || Atomics.compareExchange(cells, OWNER, 0, from + 1) !== 0) return;
  }
}

function giveToNext(cells: Int32Array, members: number, from: number): boolean {
  for (let step = 1; step <= members; step++) {
    const member = (from + step) % members;
    if (Atomics.load(cells, PLACES + member) !== WAITS) continue;
    // Set the owner before the slot: the woken member must find itself the owner.
    Atomics.store(cells, OWNER, member + 1);
    if (Atomics.compareExchange(cells, PLACES + member, WAITS, GIVEN) === WAITS) {
      Atomics.notify(cells, PLACES + member);
      return true;
    }
    Atomics.store(cells, OWNER, from + 1);
  }
  return false;
}

function someoneWaits(cells: Int32Array, members: number): boolean {
  for (let member = 0; member < members; member++) {
    if (Atomics.load(cells, PLACES + member) === WAITS) return true;
  }
  return false;
}

export interface WriteQueueOptions {
  /** Maximum number of waiting writers; further ones are refused. */
  readonly maxWaiting: number;
  /** How long a writer waits for earlier ones. */
  readonly timeoutMs: number;
}

export interface WriteQueue {
  /** Runs `work` when all earlier work has finished. Errors: STORE_BUSY if the queue is full or the wait too long. */
  run<T>(work: () => Promise<T>): Promise<T>;
  /** Resolves when no work is running or waiting; later work is refused. */
  close(): Promise<void>;
}

/** One at a time, in order of arrival, with limits on the number of waiters and their wait. */
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
