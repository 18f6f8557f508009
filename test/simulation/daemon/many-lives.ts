import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bySeed } from '../../helpers/run-part.ts';
import { ALL_FAULTS_FROM } from './process.ts';
import { randomLife } from './random-life.ts';

/** As many files share the seeds, so that they run beside each other. */
const FILES = 3;

/** Lives a seed and expects that it ends in the truth. */
export async function live(seed: number): Promise<void> {
  const { fault } = await randomLife(seed);
  assert.equal(fault, null, `repeat with: npm run simulate -- --daemon --from ${seed} --seeds 1`);
}

/** Declares the lives of every third seed from the first one on, all of which draw all kinds of faults. */
export function manyLives(firstSeed: number): void {
  const seeds = Number(process.env['PARHELION_DAEMON_SEEDS'] ?? 200);
  bySeed(seeds, (all) => {
    const own = all.filter((seed) => seed % FILES === firstSeed % FILES);
    test(`random lives of a whole daemon end in the truth: seeds ${firstSeed}, ${firstSeed + FILES} … up to ${seeds}`, async () => {
      for (const seed of own) await live(ALL_FAULTS_FROM + seed);
    });
  });
}
