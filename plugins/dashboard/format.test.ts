import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ago, planned } from './app/format.ts';

const NOW = 1_800_000_000_000;

test('what is planned is never said to be over', () => {
  const times = [-60_000, 0, 1, 3_000, 5_000, 90_000, 7_200_000].map((ms) => planned(NOW + ms, NOW));
  assert.deepEqual(times, ['now', 'now', 'in a moment', 'in a moment', 'in 5 seconds', 'in 1 minute', 'in 2 hours']);
});

test('what has happened is not said to come when the clocks of daemon and browser differ a little', () => {
  assert.deepEqual(
    [2_000, -2_000, -60_000].map((ms) => ago(NOW + ms, NOW)),
    ['just now', 'just now', '1 minute ago'],
  );
});
