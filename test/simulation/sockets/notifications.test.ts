/**
 * Subscriptions through sockets that break on both sides, from one seed each: every event comes once at most, to who asked for it and after
 * that, and a subscription that lives gets what happens. Long mode: npm run simulate -- --sockets --seeds 10000.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bySeed } from '../../helpers/run-part.ts';
import { socketLife } from './life.ts';

const SEEDS = 150;

bySeed(SEEDS, (seeds) => {
  test(`${SEEDS} seeds: no notification is doubled, stale, misplaced, or withheld from a subscription that lives`, async () => {
    const wrong: string[] = [];
    for (const seed of seeds) {
      const problem = await socketLife(seed);
      if (problem !== null) wrong.push(`seed ${seed}: ${problem}`);
    }
    assert.deepEqual(wrong, []);
  });
});
