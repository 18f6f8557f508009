import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quickStore } from './quick-store.ts';
import { isGood, randomRun } from './random-run.ts';

/** Declares the lives of every second seed; two files share them, so that two processes run them. */
export function manyLives(firstSeed: 1 | 2): void {
  const seeds = Number(process.env['PARHELION_SIMULATION_SEEDS'] ?? 500);
  test(`random lives of a follower end in the truth: seeds ${firstSeed}, ${firstSeed + 2} … up to ${seeds}`, async () => {
    for (let seed = firstSeed; seed <= seeds; seed += 2) {
      const place = await quickStore();
      const report = await randomRun(seed, place.store);
      await place.remove();
      assert.ok(isGood(report), `repeat with: npm run simulate -- --from ${seed} --seeds 1\n${JSON.stringify(report)}`);
    }
  });
}
