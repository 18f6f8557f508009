import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { createWriteLock, forgetLockMember, makeLockMemory } from '../../../src/store/write-lock.ts';
import { startTsThread } from '../../helpers/ts-thread.ts';
import type { LockThreadData } from './lock-thread.ts';

const THREAD = new URL('./lock-thread.ts', import.meta.url);

/** Waiting for the lock keeps no process alive; a test has to. */
function holdProcess(t: TestContext): void {
  const hold = setInterval(() => undefined, 1_000);
  t.after(() => clearInterval(hold));
}

async function startThreads(t: TestContext, list: readonly Omit<LockThreadData, 'cells'>[], cells: Int32Array) {
  const workers = list.map((data) => startTsThread(THREAD, { ...data, cells } satisfies LockThreadData));
  t.after(() => Promise.all(workers.map((worker) => worker.terminate())));
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  return workers as readonly Worker[];
}

const makeCells = () => new Int32Array(new SharedArrayBuffer(16));

test('never two at once over several threads, and nobody waits for more than one turn of each other', async (t) => {
  holdProcess(t);
  const others = 3;
  const memory = makeLockMemory(1 + others);
  const cells = makeCells();
  const places = Array.from({ length: others }, (_, n) => ({ memory, place: n + 1, mode: 'work' as const }));
  const workers = await startThreads(t, places, cells);
  const lock = createWriteLock(memory, 0);
  let most = 0;
  for (let round = 0; round < 300; round++) {
    const acquired = lock.acquire(10_000);
    // From here on we have a place in the queue.
    const before = Atomics.load(cells, 2);
    assert.equal(await acquired, true);
    most = Math.max(most, Atomics.load(cells, 2) - before);
    if (Atomics.compareExchange(cells, 0, 0, 1) !== 0) Atomics.add(cells, 1, 1);
    if (round % 10 === 0) await sleep(1);
    Atomics.store(cells, 0, 0);
    lock.release();
    if (round % 3 === 0) await sleep(0);
  }
  Atomics.store(cells, 3, 1);
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  assert.equal(Atomics.load(cells, 1), 0, 'two were inside');
  assert.ok(Atomics.load(cells, 2) > 100, 'the others worked too');
  // One each, and one that was under way.
  assert.ok(most <= others + 1, `${most} turns of others`);
});

test('a caller that waits too long gets an error and blocks nobody; the lock continues', async (t) => {
  holdProcess(t);
  const memory = makeLockMemory(3);
  const [a, b, c] = [0, 1, 2].map((place) => createWriteLock(memory, place));
  assert.ok(a && b && c);
  assert.equal(await a.acquire(1_000), true);
  assert.equal(await b.acquire(20), false);
  const later = c.acquire(5_000);
  a.release();
  assert.equal(await later, true);
  c.release();
  assert.equal(await b.acquire(0), true);
  b.release();
});

test('a wake-up that comes late, from an earlier wait, ends no other wait', async (t) => {
  holdProcess(t);
  const memory = makeLockMemory(2);
  const [a, b] = [createWriteLock(memory, 0), createWriteLock(memory, 1)];
  assert.equal(await a.acquire(0), true);
  const waiting = b.acquire(5_000);
  for (let round = 0; round < 3; round++) {
    await sleep(5);
    // The cell of member 1 is behind the cell of the owner and that of member 0.
    assert.equal(Atomics.notify(new Int32Array(memory), 2), 1, 'it waits');
  }
  a.release();
  assert.equal(await waiting, true);
});

test('a thread that dies with the lock gives it back', async (t) => {
  holdProcess(t);
  const memory = makeLockMemory(3);
  const [worker] = await startThreads(t, [{ memory, place: 1, mode: 'keep' }], makeCells());
  const lock = createWriteLock(memory, 0);
  assert.equal(await lock.acquire(20), false);
  const waiting = lock.acquire(5_000);
  await worker?.terminate();
  forgetLockMember(memory, 1);
  assert.equal(await waiting, true);
  lock.release();
  forgetLockMember(memory, 2);
  assert.equal(await lock.acquire(0), true);
});

test('in any order of taking, giving up and releasing there is one owner, and never a wait for nobody', async (t) => {
  holdProcess(t);
  const step = fc.record({
    member: fc.nat(3),
    timeoutMs: fc.constantFrom(0, 1, 3, 50),
    holdMs: fc.constantFrom(0, 0, 1, 4),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(step, { maxLength: 6 }), { minLength: 4, maxLength: 4 }), async (plans) => {
      const memory = makeLockMemory(4);
      let inside = 0;
      await Promise.all(
        plans.map(async (plan, me) => {
          const lock = createWriteLock(memory, me);
          for (const { timeoutMs, holdMs } of plan) {
            if (!(await lock.acquire(timeoutMs))) continue;
            inside += 1;
            assert.equal(inside, 1);
            if (holdMs > 0) await sleep(holdMs);
            inside -= 1;
            lock.release();
          }
        }),
      );
      for (let me = 0; me < 4; me++) {
        const lock = createWriteLock(memory, me);
        assert.equal(await lock.acquire(0), true, 'free at the end');
        lock.release();
      }
    }),
    { numRuns: 60 },
  );
});
