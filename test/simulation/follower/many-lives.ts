import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bySeed } from '../../helpers/run-part.ts';
import { quickStore } from './quick-store.ts';
import { isGood, randomRun } from './random-run.ts';

/** As many files share the seeds, so that they run beside each other and none of them for long. */
const FILES = 4;

/** Declares the lives of every fourth seed from the first one on. */
export function manyLives(firstSeed: number): void {
  const seeds = Number(process.env['PARHELION_SIMULATION_SEEDS'] ?? 500);
  bySeed(seeds, (all) => {
    const own = all.filter((seed) => seed % FILES === firstSeed % FILES);
    test(`random lives of a follower end in the truth: seeds ${firstSeed}, ${firstSeed + FILES} … up to ${seeds}`, async () => {
      for (const seed of own) {
        const place = await quickStore();
        const report = await randomRun(seed, place.store);
        await place.remove();
        assert.ok(
          isGood(report),
          `repeat with: npm run simulate -- --from ${seed} --seeds 1\n${JSON.stringify(report)}`,
        );
      }
    });
  });
}
