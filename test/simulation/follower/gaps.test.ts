import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Store } from '../../../src/ports/store.ts';
import { createOrderFreeLedger } from '../../helpers/order-free-ledger.ts';
import { byCase } from '../../helpers/run-part.ts';
import { expectTruth, gapsOf, grow, rigOf } from './case-kit.ts';
import { honest } from './fake-node.ts';
import type { createRig, RigOptions } from './harness.ts';
import type { World } from './world.ts';

type Rig = Awaited<ReturnType<typeof createRig>>;

test('blocks that every upstream has pruned become a gap, and the chain goes on', async (t) => {
  const upstreams = [honest('upstream-0'), honest('upstream-1')];
  const { rig } = await rigOf(t, { upstreams });
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  await rig.stop();
  grow(rig, 40);
  const first = rig.world.chain.at(-10)!.slot;
  for (const upstream of upstreams) upstream.prunedBelow = first;
  await rig.start();
  await rig.clock.advance(60_000);
  const { cursorSlot, openGaps } = rig.follower.status();
  assert.equal(cursorSlot, rig.world.chain.at(-1)!.slot);
  assert.equal(openGaps, 1);
});

test('a start too far behind records the gap, shows it, and keeps it over a restart', async (t) => {
  const { rig, store } = await rigOf(t, { follow: { maxCatchupSlots: 20 } });
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  await rig.stop();
  const last = rig.world.chain.at(-1)!.slot;
  grow(rig, 60);
  await rig.start();
  await rig.clock.advance(30_000);
  const expected = [{ from_slot: last + 1, to_slot: last + 60 - 21, reason: 'too_old', status: 'open' }];
  assert.deepEqual(await gapsOf(store), expected);
  assert.equal(rig.follower.status().openGaps, 1);
  assert.equal(rig.follower.status().cursorSlot, rig.world.chain.at(-1)!.slot);
  assert.match(await rig.metrics(), /parhelion_follow_gaps_open 1\n/);
  await rig.restart();
  await rig.clock.advance(3_000);
  assert.deepEqual(await gapsOf(store), expected);
  assert.equal(rig.follower.status().openGaps, 1);
});

byCase([200, 400], (all) => {
  for (const slotMs of all) {
    const slotsOf = (seconds: number) => (seconds * 1_000) / slotMs;
    /** A daemon follows a minute of the chain, is down for so long, and starts again. */
    const returns = async (t: TestContext, downSeconds: number) => {
      const { rig, store } = await rigOf(t, { slotMs, follow: { maxCatchupHours: 60 / 3_600 } });
      grow(rig, slotsOf(60));
      await rig.start();
      await expectTruth(rig);
      await rig.stop();
      await rig.clock.advance(downSeconds * 1_000);
      grow(rig, slotsOf(downSeconds));
      await rig.start();
      await rig.clock.advance(60_000);
      assert.equal(rig.follower.status().cursorSlot, rig.world.slot);
      return { rig, store };
    };

    test(`slots of ${slotMs} ms: a daemon that was down for less than follow.maxCatchupHours catches up`, async (t) => {
      const { rig, store } = await returns(t, 54);
      assert.deepEqual(await gapsOf(store), []);
      assert.deepEqual(await rig.ledger(), rig.truth());
    });

    test(`slots of ${slotMs} ms: one that was down for longer goes on that long ago and records the rest`, async (t) => {
      const { rig, store } = await returns(t, 90);
      const [gap, ...others] = await gapsOf(store);
      assert.deepEqual([gap?.reason, others], ['too_old', []]);
      assert.equal(gap?.from_slot, rig.world.slot - slotsOf(90) + 1);
      // Block times are whole seconds, so the measured length is a little off.
      const keptSeconds = ((rig.world.slot - gap!.to_slot) * slotMs) / 1_000;
      assert.ok(Math.abs(keptSeconds - 60) < 3, `${keptSeconds} s`);
    });
  }
});

test('a cursor that was forked away is rolled back before a gap is laid above it', async (t) => {
  const { rig, store } = await rigOf(t, { follow: { maxCatchupSlots: 20 } });
  grow(rig, 30);
  await rig.start();
  await expectTruth(rig);
  await rig.stop();
  rig.world.fork(4);
  const kept = rig.world.chain.at(-1)!.slot;
  rig.world.grow(8);
  grow(rig, 60);
  await rig.start();
  await rig.clock.advance(30_000);
  assert.equal((await gapsOf(store))[0]?.from_slot, kept + 1);
  const lastLost = (await gapsOf(store))[0]!.to_slot;
  const all = rig.truth().entries.filter((entry) => {
    const slot = Number(entry.split(':')[0]);
    return slot <= kept || slot > lastLost;
  });
  assert.deepEqual((await rig.ledger()).entries, all);
  assert.equal(rig.follower.status().stalled, null);
});

test('a fork of the first block behind a gap goes back to the last block below it', async (t) => {
  const upstreams = [honest('upstream-0')];
  const { rig } = await rigOf(t, { upstreams, follow: { auditIntervalMs: 10_000_000 } });
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  const below = rig.truth().entries;
  await rig.stop();
  grow(rig, 20);
  const first = rig.world.chain.at(-3)!.slot;
  upstreams[0]!.prunedBelow = first;
  await rig.start();
  await rig.clock.advance(60_000);
  assert.equal(rig.follower.status().cursorSlot, rig.world.chain.at(-1)!.slot);
  rig.world.fork(3);
  rig.world.grow(8);
  grow(rig, 4);
  await rig.clock.advance(60_000);
  assert.equal(rig.follower.status().stalled, null);
  assert.deepEqual((await rig.ledger()).entries, [...below, ...rig.truth(first).entries]);
});

test('the hole policy "gap" gives up exactly the missing slots, and only after the timeout', async (t) => {
  const only = honest('upstream-0');
  const follow = { holePolicy: 'gap', holeTimeoutSeconds: 120 } as const;
  const { rig, store } = await rigOf(t, { upstreams: [only], follow });
  grow(rig, 12);
  const lost = rig.world.chain.slice(4, 6).map(({ slot }) => slot);
  for (const slot of lost) only.lost.add(slot);
  await rig.start();
  await rig.clock.advance(100_000);
  assert.deepEqual(await gapsOf(store), []);
  assert.match(rig.follower.status().stalled ?? '', /exists and no upstream has it/);
  await rig.clock.advance(200_000);
  assert.deepEqual(await gapsOf(store), [{ from_slot: lost[0], to_slot: lost[1], reason: 'hole', status: 'open' }]);
  assert.equal(rig.follower.status().cursorSlot, rig.world.chain.at(-1)!.slot);
  const entries = rig.truth().entries.filter((entry) => !lost.includes(Number(entry.split(':')[0])));
  assert.deepEqual((await rig.ledger()).entries, entries);
});

test('a finalized block that is not the released one rolls back by the audit alone', async (t) => {
  const { rig } = await rigOf(t);
  grow(rig, 20);
  await rig.start();
  await expectTruth(rig);
  // No block follows above the cursor, so that only the audit can find it: the new branch re-uses lower slots.
  rig.world.replaceTop(3);
  rig.world.finalizeAll();
  await rig.clock.advance(20_000);
  assert.deepEqual(await rig.ledger(), rig.truth());
  assert.equal(rig.follower.status().stalled, null);
});

for (const [name, branch] of [
  ['another block at its slot', (world: World) => world.replaceTop(3)],
  [
    'none at its slot',
    (world: World) => {
      world.fork(3);
      world.grow(12);
    },
  ],
] as const)
  test(`a block below a gap that was forked away is taken back, and the gap grows downwards: ${name}`, async (t) => {
    // The first audit comes when what the upstream has is asked for anew.
    const follow = { maxCatchupSlots: 20, auditIntervalMs: 70_000 };
    const { rig, store } = await forkedBelowGap(t, branch, follow);
    await rig.clock.advance(5_000);
    assert.equal((await gapsOf(store))[0]?.status, 'open');
    rig.upstreams[0]!.prunedBelow = 0;
    await expectTruth(rig);
    assert.equal(rig.follower.status().stalled, null);
    await expectFilled(rig, store);
  });

test('a block that was forked away while nothing is released behind the gap above it leaves no slot out', async (t) => {
  const { rig, store } = await forkedBelowGap(t, (world) => world.replaceTop(3), { auditIntervalMs: 3_000 });
  const [only] = rig.upstreams;
  only!.notYetRate = 1;
  await rig.clock.advance(1_000);
  only!.prunedBelow = 0;
  await rig.clock.advance(10_000);
  only!.notYetRate = 0;
  await expectTruth(rig);
  await expectFilled(rig, store);
});

/** What has no blocks closes without a change of rows. */
async function expectFilled(rig: Rig, store: Store): Promise<void> {
  await rig.clock.advance(30_000);
  assert.deepEqual([...new Set((await gapsOf(store)).map(({ status }) => status))], ['filled']);
}

/** A follower that began again when its newest blocks had been forked away, and nobody could tell any more. */
async function forkedBelowGap(t: TestContext, branch: (world: World) => void, follow: RigOptions['follow']) {
  const upstreams = [honest('upstream-0')];
  const { rig, store } = await rigOf(t, { upstreams, processors: [createOrderFreeLedger()], follow: follow ?? {} });
  grow(rig, 30);
  await rig.start();
  await rig.settle();
  const cursor = rig.follower.status().cursorSlot!;
  assert.ok(cursor > (rig.follower.status().finalizedSlot ?? 0) + 3);
  await rig.stop();
  branch(rig.world);
  grow(rig, 60);
  upstreams[0]!.prunedBelow = cursor + 5;
  await rig.start();
  return { rig, store };
}
