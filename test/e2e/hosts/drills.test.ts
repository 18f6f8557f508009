/** A few drawn drills and a lost database server; `npm run drills -- --count 100` runs many. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { runDrills } from './drills.ts';

const skip = (await chainMissing()) ?? false;

test('hosts are hurt at random, and the database server is lost: its promoted replica has all that was acknowledged', {
  skip,
}, async (t) => {
  const seed = Number(process.env['PARHELION_DRILLS_SEED'] ?? 1);
  const last = ['a replica takes the place of the database'];
  const { drills, deliveries, epoch } = await runDrills(t, { seed, count: 2, last });
  t.diagnostic(`${drills.join('; ')}: ${deliveries} deliveries, epoch ${epoch}`);
  assert.ok(deliveries > 0);
});
