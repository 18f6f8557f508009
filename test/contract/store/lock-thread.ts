/** A thread that takes the shared lock again and again, or takes it once and keeps it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { createWriteLock, type LockMemory } from '../../../src/store/write-lock.ts';

export interface LockThreadData {
  readonly memory: LockMemory;
  readonly place: number;
  readonly mode: 'work' | 'keep';
  /** [whether someone is inside, how often two were, the number of turns, whether to stop] */
  readonly cells: Int32Array;
}

const { memory, place, mode, cells } = workerData as LockThreadData;
const lock = createWriteLock(memory, place);
const hold = setInterval(() => undefined, 1_000);

async function turn(): Promise<void> {
  if (!(await lock.acquire(10_000))) throw new Error('never got it');
  if (Atomics.compareExchange(cells, 0, 0, 1) !== 0) Atomics.add(cells, 1, 1);
  Atomics.add(cells, 2, 1);
  if (Math.random() < 0.2) await sleep(1);
  Atomics.store(cells, 0, 0);
  lock.release();
}

if (mode === 'keep') {
  await lock.acquire(1_000);
  parentPort?.postMessage('has it');
} else {
  parentPort?.postMessage('works');
  while (Atomics.load(cells, 3) === 0) {
    await turn();
    // A turn of the loop now and then, as a thread with other things to do takes it.
    if (Math.random() < 0.05) await sleep(0);
  }
  clearInterval(hold);
  parentPort?.postMessage('done');
}
