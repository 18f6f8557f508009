import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quorumLife } from './quorum-life.ts';

/** About 100 take a second of CPU. */
const SEEDS = Number(process.env['PARHELION_QUORUM_SEEDS'] ?? 10_000);

test(`liars that are fewer than a quorum give no wrong block and no wrong answer: seeds 1 to ${SEEDS}`, async () => {
  for (let seed = 1; seed <= SEEDS; seed += 1) assert.equal(await quorumLife(seed), null);
});
