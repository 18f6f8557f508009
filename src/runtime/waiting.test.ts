import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { backoffMs, createWakeup, retryAfterMs } from './waiting.ts';

test('Retry-After: seconds or an HTTP date, bounded; anything else is absent', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  for (const [value, expected] of [
    ['2', 2_000],
    [' 0.25 ', 250],
    ['0', 0],
    ['99999999', 300_000],
    ['Thu, 01 Jan 2026 00:00:07 GMT', 7_000],
    ['Wed, 31 Dec 2025 23:59:00 GMT', 0],
    [undefined, null],
    ['', null],
    ['-1', null],
    ['soon 5', null],
    ['2026', 300_000],
    ['2026-01-01T00:00:07Z', null],
    ['1e9', null],
    ['99999999999999999999', null],
    ['Never, 99 Foo', null],
  ] as const)
    assert.equal(retryAfterMs(value, now, 300_000), expected, String(value));
  assert.equal(retryAfterMs('Thu, 01 Jan 2026 00:00:07 GMT', null), null);
});

test('a backoff doubles from the first pause to the longest, and jitter stays within its part', () => {
  const pauses = [0, 1, 2, 3, 4, 5, 1_000].map((failures) =>
    backoffMs(failures, null, { firstMs: 100, longestMs: 1_000 }),
  );
  assert.deepEqual(pauses, [100, 100, 200, 400, 800, 1_000, 1_000]);
  assert.equal(backoffMs(1, { float: () => 0 }), 200);
  assert.equal(backoffMs(1, { float: () => 0.5 }, { jitter: 1 }), 250);
});

test('a wake-up that comes while the loop is awake is not lost, and one sleep uses it up', async () => {
  const clock = createManualClock();
  const wakeup = createWakeup(clock);
  wakeup.wake();
  wakeup.wake();
  await wakeup.sleep(1_000);
  const events: string[] = [];
  const slept = wakeup.sleep(1_000).then(() => events.push('time'));
  await clock.advance(999);
  assert.deepEqual(events, []);
  await clock.advance(1);
  await slept;
  const woken = wakeup.sleep(1_000);
  wakeup.wake();
  await woken;
  const controller = new AbortController();
  const aborted = wakeup.sleep(1_000, controller.signal);
  controller.abort();
  await aborted;
  await wakeup.sleep(1_000, controller.signal);
});
