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
