import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../ports/clock.ts';
import { shrinkHeap } from './shrink-heap.ts';

/** Every pause is short, and counted. */
function quickClock(beforeEach: () => void = () => undefined, pauseMs = 5): Clock & { readonly sleeps: number } {
  let sleeps = 0;
  return {
    now: Date.now,
    monotonic: () => performance.now(),
    timeout: () => () => undefined,
    async sleep(_ms, signal) {
      sleeps += 1;
      beforeEach();
      // Without a pause only a turn of the loop, so the thread never idles.
      if (pauseMs === 0) await new Promise((resolve) => setImmediate(resolve));
      else await sleep(pauseMs);
      if (signal?.aborted === true) throw signal.reason;
    },
    get sleeps() {
      return sleeps;
    },
  };
}

function busy(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

test('an idle thread collects unreferenced objects and finishes', async () => {
  const lost = new WeakRef({ big: new Array(1_000).fill(0) });
  await shrinkHeap(quickClock(), new AbortController().signal);
  assert.equal(lost.deref(), undefined);
});

test('it waits while there is work, and gives up on a thread that is never idle', async () => {
  let turns = 0;
  const rests = quickClock(() => {
    turns += 1;
    if (turns < 4) busy(50);
  });
  await shrinkHeap(rests, new AbortController().signal);
  assert.ok(rests.sleeps > 4, `${rests.sleeps} looks`);
  const kept = new WeakRef({ big: new Array(1_000).fill(0) });
  const never = quickClock(() => busy(1), 0);
  await shrinkHeap(never, new AbortController().signal);
  assert.equal(never.sleeps, 360);
  assert.notEqual(kept.deref(), undefined, 'a busy thread was stopped for a collection');
});

test('stopping the daemon ends it', async () => {
  const ended = new AbortController();
  const clock = quickClock(() => ended.abort(new Error('the end')));
  await shrinkHeap(clock, ended.signal);
  assert.equal(clock.sleeps, 1);
});
