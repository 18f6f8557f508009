import { performance } from 'node:perf_hooks';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Clock } from '../ports/clock.ts';

/** Pause between two checks; by then V8 no longer counts the allocations of the start. */
const LOOK_MS = 10_000;
/** A busier thread needs its heap. */
const MAX_BUSY = 0.25;
const MAX_LOOKS = 360;
/** V8 shrinks the young generation only after seconds with few allocations: the first collection still counts those of the start. */
const MAX_COLLECTIONS = 5;
const PAUSE_MS = 6_000;
const SMALL_BYTES = 4 * 1_048_576;

/**
 * Returns the memory that loading and starting left in the heap of this thread. An idle thread would keep it: V8 checks only
 * on allocation. Waits for an idle moment, collects a few times and returns.
 */
export async function shrinkHeap(clock: Clock, signal: AbortSignal): Promise<void> {
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

/** False when the thread never becomes idle: it needs its heap. */
async function becomesIdle(clock: Clock, signal: AbortSignal): Promise<boolean> {
  let before = performance.eventLoopUtilization();
  for (let look = 0; look < MAX_LOOKS; look += 1) {
    await clock.sleep(LOOK_MS, signal);
    const now = performance.eventLoopUtilization();
    if (performance.eventLoopUtilization(now, before).utilization < MAX_BUSY) return true;
    before = now;
  }
  return false;
}

/** V8 exposes the collector only behind a flag, and only to scripts compiled after the flag was set. */
function makeCollect(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}

function youngBytes(): number {
  return getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')?.space_size ?? 0;
}
