import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eachStore } from '../../helpers/store.ts';
import { randomRun } from './random-run.ts';

// Seeds that once found something: a processor that caught up on a branch of its own, and one that stood before a long stretch of skips.
eachStore('random lives of a follower', ({ store }) => {
  for (const seed of [1013, 5019, 5044, 5080])
    test(`seed ${seed}`, async (t) => {
      const report = await randomRun(seed, await store(t));
      assert.deepEqual(report, { ...report, isRight: true, fault: null, fatals: [], stalled: null });
    });
});
