import { performance } from 'node:perf_hooks';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Clock } from '../ports/clock.ts';

/** Between two looks; V8 forgets the allocations of the start in this time. */
const LOOK_MS = 10_000;
/** A thread that is busier than this has a use for its heap. */
const MOST_BUSY = 0.25;
const MAX_LOOKS = 360;
/** V8 shrinks the young generation only when little was allocated in the seconds before: the first collection still sees the start. */
const MAX_COLLECTIONS = 5;
const PAUSE_MS = 6_000;
const SMALL_BYTES = 4 * 1_048_576;

/**
 * Gives the memory back that loading and starting have left in the heap of this thread, which an idle thread would keep for ever: V8
 * looks only when something is allocated. Waits for a moment without much work, collects a few times, and is done.
 */
export async function settleHeap(clock: Clock, signal: AbortSignal): Promise<void> {
  try {
    if (!(await becomesIdle(clock, signal))) return;
    const collect = makeCollect();
    for (let done = 1; done <= MAX_COLLECTIONS; done += 1) {
      collect();
      if (done > 1 && youngBytes() <= SMALL_BYTES) return;
      await clock.sleep(PAUSE_MS, signal);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** False when it never is: such a thread needs its heap. */
async function becomesIdle(clock: Clock, signal: AbortSignal): Promise<boolean> {
  let before = performance.eventLoopUtilization();
  for (let look = 0; look < MAX_LOOKS; look += 1) {
    await clock.sleep(LOOK_MS, signal);
    const now = performance.eventLoopUtilization();
    if (performance.eventLoopUtilization(now, before).utilization < MOST_BUSY) return true;
    before = now;
  }
  return false;
}

/** The collector is offered to scripts only behind a flag, and to those that are compiled after it was set. */
function makeCollect(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}

function youngBytes(): number {
  return getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')?.space_size ?? 0;
}
