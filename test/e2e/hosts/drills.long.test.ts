/** A drawn drill, a wrong clock, a full disk and a lost database server; `npm run drills -- --count 100` runs many. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainMissing } from '../../helpers/chain.ts';
import { runDrills } from './drills.ts';

const skip = (await chainMissing()) ?? false;

test('hosts are hurt at random, and the database server is lost: its promoted replica has all that was acknowledged', {
  skip,
}, async (t) => {
  const seed = Number(process.env['PARHELION_DRILLS_SEED'] ?? 1);
  const last = [
    'the clock of a process steps',
    'the disk of the database is full',
    'a replica takes the place of the database',
  ];
  const tell = (line: object) => t.diagnostic(JSON.stringify(line));
  const { drills, leftOut, deliveries, epoch } = await runDrills(t, { seed, count: 1, last }, tell);
  t.diagnostic(`${drills.join('; ')}: ${deliveries} deliveries, epoch ${epoch}`);
  if (leftOut.length > 0) t.diagnostic(`left out, because nothing can be mounted here: ${leftOut.join('; ')}`);
  assert.ok(deliveries > 0);
});
