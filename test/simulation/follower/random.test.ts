import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sqliteStore } from '../../helpers/store.ts';
import { randomRun } from './random-run.ts';

const SEEDS = Number(process.env['PARHELION_SIMULATION_SEEDS'] ?? 100);

test(`${SEEDS} random lives of a follower end in the truth`, { concurrency: 6 }, async (t) => {
  const lives = Array.from({ length: SEEDS }, (_, index) =>
    t.test(`seed ${index + 1}`, async (inner) => {
      const seed = index + 1;
      const report = await randomRun(seed, await sqliteStore(inner));
      assert.deepEqual(report, { ...report, isRight: true, fatals: [], stalled: null });
    }),
  );
  await Promise.all(lives);
});
