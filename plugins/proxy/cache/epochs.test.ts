import assert from 'node:assert/strict';
import { test } from 'node:test';
import { epochOf } from '../../../src/lib/epoch-schedule.ts';
import { createEpochs } from './epochs.ts';

test('epochs double until the first normal one, then have one length', () => {
  const schedule = { slotsPerEpoch: 432_000, firstNormalEpoch: 14, firstNormalSlot: 524_256 };
  let first = 0;
  for (let epoch = 0; epoch < 14; epoch += 1) {
    const length = 32 * 2 ** epoch;
    assert.deepEqual([epochOf(schedule, first), epochOf(schedule, first + length - 1)], [epoch, epoch]);
    first += length;
  }
  assert.equal(first, schedule.firstNormalSlot);
  assert.deepEqual(
    [first, first + 431_999, first + 432_000].map((slot) => epochOf(schedule, slot)),
    [14, 14, 15],
  );
  // Mainnet has no such beginning: its epoch 1064 began at slot 459,648,000.
  const mainnet = { slotsPerEpoch: 432_000, firstNormalEpoch: 0, firstNormalSlot: 0 };
  assert.deepEqual(
    [459_647_999, 459_648_000].map((slot) => epochOf(mainnet, slot)),
    [1_063, 1_064],
  );
});

test('the schedule is requested once per chain, and again after a pause if no upstream answered', async () => {
  let now = 0;
  let asked = 0;
  let answer: unknown = null;
  const reader = {
    call: async <T>() => {
      asked += 1;
      return answer as T;
    },
  };
  const epochs = createEpochs(reader, { monotonic: () => now });
  const ask = async (chain: string) => {
    const epoch = epochs.of(chain, 100);
    await new Promise(setImmediate);
    return epoch;
  };
  assert.deepEqual([await ask('a'), await ask('a'), asked], [null, null, 1]);
  now += 5_000;
  answer = { slotsPerEpoch: 64, firstNormalEpoch: 0, firstNormalSlot: 0 };
  assert.deepEqual([await ask('a'), await ask('a'), await ask('a'), asked], [null, 1, 1, 2]);
  now += 5_000;
  assert.deepEqual([await ask('b'), await ask('b'), asked], [null, 1, 3]);
});
