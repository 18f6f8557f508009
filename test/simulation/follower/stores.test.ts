import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eachStore } from '../../helpers/store.ts';
import { randomRun } from './random-run.ts';

// Seeds that once found something: a processor that caught up on a branch of its own, one that stood before a long stretch of skips, and
// an alarm of the audit that outlived its reason. A change of the simulation gives a seed another life, so each has a case of its own too.
eachStore('random lives of a follower', ({ store }) => {
  for (const seed of [1013, 5019, 5044, 5080, 868, 9356, 1472, 9804])
    test(`seed ${seed}`, async (t) => {
      const report = await randomRun(seed, await store(t));
      assert.deepEqual(report, { ...report, isRight: true, fault: null, fatals: [], stalled: null });
    });
});
