import { CodedError } from '../lib/coded-error.ts';

/** Lets one writer of a process at a time begin a transaction, over all its threads. */
export interface WriteLock {
  /** Whether it was got within the time. Called again only after `release`, or after false. */
  acquire(timeoutMs: number): Promise<boolean>;
  release(): void;
}

/** Memory of a lock that threads share: who has it, and a place to wait for each member. */
export type LockMemory = SharedArrayBuffer;

const OWNER = 0;
const PLACES = 1;
/** States of a place. */
const ABSENT = 0;
const WAITS = 1;
const GIVEN = 2;

export const makeLockMemory = (members: number): LockMemory =>
  new SharedArrayBuffer((PLACES + members) * Int32Array.BYTES_PER_ELEMENT);

/**
 * The lock as one member sees it (`me` counts from 0, a number per thread). Whoever releases it hands it to the next member that waits,
 * going round, so that each waits for one transaction of every other at most. Waiting costs no turn of the event loop.
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
      // It may have come free before anybody could see that we wait.
      if (!takeIfFree()) {
        const waiting = (Atomics as unknown as AtomicsWithWait).waitAsync(cells, place, WAITS, timeoutMs);
        if (waiting.async) await waiting.value;
        // Still waiting: it was not given to us in time, and from here on it cannot be.
        if (Atomics.compareExchange(cells, place, WAITS, ABSENT) === WAITS) return false;
      }
      Atomics.store(cells, place, ABSENT);
      return true;
    },
    release: () => handOn(cells, members, me),
  };
}

/** Of ES2024; Node has had it since 16. */
interface AtomicsWithWait {
  waitAsync(
    cells: Int32Array,
    index: number,
    value: number,
    timeoutMs: number,
  ): { readonly async: false } | { readonly async: true; readonly value: Promise<'ok' | 'timed-out'> };
}

/**
 * Takes a member out whose thread has died: what it had goes to the next. Should someone hand the lock to the dead one in the same moment,
 * two may have it; the database's own lock still keeps their transactions apart.
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
    // Somebody may have begun to wait after we looked and before it was free.
    if (!someoneWaits(cells, members) || Atomics.compareExchange(cells, OWNER, 0, from + 1) !== 0) return;
  }
}

function giveToNext(cells: Int32Array, members: number, from: number): boolean {
  for (let step = 1; step <= members; step++) {
    const member = (from + step) % members;
    if (Atomics.load(cells, PLACES + member) !== WAITS) continue;
    // Before the place says so: whoever wakes has to find itself the owner.
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
