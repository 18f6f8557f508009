import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bySeed } from '../../helpers/run-part.ts';
import { eachStore } from '../../helpers/store.ts';
import { backfillLife } from './backfill-life.ts';

const SEEDS = Number(process.env['PARHELION_BACKFILL_SEEDS'] ?? 8);

bySeed(SEEDS, (seeds) => {
  eachStore('random lives with gaps', ({ store, dialect }) => {
    let gaps = 0;
    const own = dialect === 'sqlite' ? seeds : seeds.slice(0, Math.max(2, Math.ceil(SEEDS / 20)));
    for (const seed of own)
      test(`seed ${seed}: every gap closes, and the store holds what a replay would give`, async (t) => {
        const report = await backfillLife(seed, await store(t));
        gaps += report.gaps;
        assert.deepEqual(report, { isRight: true, left: [], stalled: null, fatals: [], gaps: report.gaps });
      });
    test('there were gaps to fill', () => assert.ok(gaps > 0));
  });
});
