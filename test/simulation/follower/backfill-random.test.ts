import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eachStore } from '../../helpers/store.ts';
import { backfillLife } from './backfill-life.ts';

const SEEDS = Number(process.env['PARHELION_BACKFILL_SEEDS'] ?? 8);

eachStore('random lives with gaps', ({ store, dialect }) => {
  let gaps = 0;
  const seeds = dialect === 'sqlite' ? SEEDS : Math.max(2, Math.ceil(SEEDS / 20));
  for (let seed = 1; seed <= seeds; seed += 1)
    test(`seed ${seed}: every gap closes, and the store holds what a replay would give`, async (t) => {
      const report = await backfillLife(seed, await store(t));
      gaps += report.gaps;
      assert.deepEqual(report, { isRight: true, left: [], stalled: null, fatals: [], gaps: report.gaps });
    });
  test('there were gaps to fill', () => assert.ok(gaps > 0));
});
