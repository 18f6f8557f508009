import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SeriesPoint } from './app/api.ts';
import { familyPerMinute, gridOf, perMinute } from './app/grid.ts';

const STEP_MS = 20_000;
const HOUR_MS = 3_600_000;
const START = 1_000 * HOUR_MS;
const point = (step: number, requests: number): SeriesPoint => ({
  at: START + step * STEP_MS,
  sums: { 'requests.rpc': requests, 'requests.wallet': 0, 'blocks.main': 50 },
  peaks: {},
  latency: null,
});
const gridAt = (afterMs: number, points: readonly SeriesPoint[]) => {
  const toMs = START + afterMs;
  return gridOf({ fromMs: toMs - HOUR_MS, toMs, stepMs: STEP_MS, points });
};

test('a steady rate stays what it is to the end of the plot, whenever the running step was measured', () => {
  // 100 requests in every 20 s, measured once in each step.
  const points = [point(0, 100), point(1, 100), point(2, 100), point(3, 100)];
  for (const passedMs of [0, 1, 500, 8_000, 10_000, 15_000, 19_999]) {
    const isMeasured = passedMs >= 8_000;
    const grid = gridAt(3 * STEP_MS + passedMs, isMeasured ? points : points.slice(0, 3));
    const rates = familyPerMinute(grid, 'requests');
    assert.deepEqual(
      rates.filter((rate) => rate !== null),
      [300, 300, 300],
      `${passedMs} ms into the step`,
    );
    assert.equal(perMinute(grid, ['blocks.main']).at(-1), 150);
    assert.equal(grid.times.at(-1), START + 2 * STEP_MS);
  }
  // It is over.
  assert.equal(gridAt(4 * STEP_MS, points).times.at(-1), START + 3 * STEP_MS);
});

test('a single point is shown before its step is over, and its rate is never more than was measured', () => {
  for (const passedMs of [0, 1_000, 12_000]) {
    const grid = gridAt(passedMs, [point(0, 100)]);
    assert.equal(grid.times.at(-1), START);
    assert.equal(familyPerMinute(grid, 'requests').at(-1), 300);
  }
  const long = gridOf({ fromMs: START - HOUR_MS, toMs: START + 120_000, stepMs: 300_000, points: [point(0, 100)] });
  assert.equal(familyPerMinute(long, 'requests').at(-1), 50);
});

test('a step without a point has no rate, and no points make no rates', () => {
  const grid = gridAt(4 * STEP_MS, [point(0, 100), point(3, 40)]);
  assert.deepEqual(familyPerMinute(grid, 'requests').slice(-4), [300, null, null, 120]);
  const none = familyPerMinute(gridAt(30_000, []), 'requests');
  assert.ok(none.length >= 15 && none.every((rate) => rate === null));
});
