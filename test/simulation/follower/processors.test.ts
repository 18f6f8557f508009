import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLedgerProcessor } from '../../helpers/ledger-processor.ts';
import { expectTruth, gapsOf, grow, rigOf } from './case-kit.ts';
import { honest } from './fake-node.ts';
import { FIRST_SLOT } from './world.ts';

test('a new processor with an earlier start catches up and joins', async (t) => {
  const { rig } = await rigOf(t);
  grow(rig, 30);
  await rig.start();
  await expectTruth(rig);
  const late = createLedgerProcessor({ name: 'late', startSlot: FIRST_SLOT });
  await rig.restart({ processors: [createLedgerProcessor(), late] });
  await expectTruth(rig, 'late@1');
  grow(rig, 10);
  rig.world.fork(4);
  grow(rig, 6);
  await expectTruth(rig, 'late@1');
  await expectTruth(rig);
});

test('pruned history is noted as missing in the processor that catches up, and the chain goes on', async (t) => {
  const upstreams = [honest('upstream-0')];
  const { rig, store } = await rigOf(t, { upstreams });
  grow(rig, 40);
  await rig.start();
  await expectTruth(rig);
  const first = rig.world.chain[20]!.slot;
  upstreams[0]!.prunedBelow = first;
  const late = createLedgerProcessor({ name: 'late', startSlot: FIRST_SLOT });
  await rig.restart({ processors: [createLedgerProcessor(), late] });
  await rig.clock.advance(60_000);
  assert.deepEqual((await rig.ledger('late@1')).entries, rig.truth(first).entries);
  const gaps = await store.read.selectFrom('follow_gaps').selectAll().where('processor', '=', 'late').execute();
  assert.deepEqual(
    gaps.map(({ processor, from_slot, to_slot, reason }) => [processor, from_slot, to_slot, reason]),
    [['late', FIRST_SLOT, first - 1, 'pruned']],
  );
  assert.deepEqual(await gapsOf(store, '*'), []);
  assert.equal(rig.follower.status().openGaps, 1);
  grow(rig, 3);
  await expectTruth(rig);
});

test('a processor that catches up does not hold up the one that is live', async (t) => {
  const { rig } = await rigOf(t);
  grow(rig, 400);
  await rig.start();
  await expectTruth(rig);
  const late = createLedgerProcessor({ name: 'late', startSlot: FIRST_SLOT });
  await rig.restart({ processors: [createLedgerProcessor(), late] });
  await rig.clock.advance(1_500);
  grow(rig, 3);
  await expectTruth(rig);
  assert.ok((await rig.ledger('late@1')).lastSlot < rig.world.slot);
  await expectTruth(rig, 'late@1');
});

test('a processor that was switched off for a while comes back and misses nothing', async (t) => {
  const { rig } = await rigOf(t);
  const both = [createLedgerProcessor(), createLedgerProcessor({ name: 'other' })];
  grow(rig, 20);
  await rig.start({ processors: both });
  await expectTruth(rig, 'other@1');
  await rig.restart({ processors: both.slice(0, 1) });
  grow(rig, 30);
  await expectTruth(rig);
  await rig.restart({ processors: both });
  grow(rig, 2);
  await expectTruth(rig, 'other@1');
  await expectTruth(rig);
});

test('a processor whose last block was forked away while it was off says so, and the chain goes on', async (t) => {
  const { rig } = await rigOf(t);
  const both = [createLedgerProcessor(), createLedgerProcessor({ name: 'other' })];
  grow(rig, 20);
  await rig.start({ processors: both });
  await expectTruth(rig, 'other@1');
  await rig.restart({ processors: both.slice(0, 1) });
  rig.world.fork(4);
  rig.world.grow(8);
  grow(rig, 10);
  await expectTruth(rig);
  const before = await rig.ledger('other@1');
  await rig.restart({ processors: both });
  grow(rig, 2);
  await expectTruth(rig);
  await rig.clock.advance(30_000);
  assert.match(rig.follower.status().stalled ?? '', /processor other .* another branch/);
  assert.deepEqual(await rig.ledger('other@1'), before);
});

test('a processor that catches up gets over a stretch without blocks that is longer than the window', async (t) => {
  const { rig } = await rigOf(t, { follow: { window: 20 } });
  grow(rig, 3);
  rig.world.grow(500);
  grow(rig, 3);
  await rig.start();
  await expectTruth(rig);
  const late = createLedgerProcessor({ name: 'late', startSlot: FIRST_SLOT });
  await rig.restart({ processors: [createLedgerProcessor(), late] });
  await expectTruth(rig, 'late@1');
});
