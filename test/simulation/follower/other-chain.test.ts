/** An upstream that becomes another chain: nothing of it is written, and it is used again once it is ours again. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { sqliteStore } from '../../helpers/store.ts';
import { expectTruth, gapsOf, grow } from './case-kit.ts';
import { honest } from './fake-node.ts';
import { createRig } from './harness.ts';
import { positionFault } from './random-run.ts';
import { FIRST_SLOT } from './world.ts';

const SLOTS = [
  ['lower slots', 1],
  ['the same slots', FIRST_SLOT],
  ['higher slots', FIRST_SLOT + 200],
] as const;

type Rig = Awaited<ReturnType<typeof createRig>>;

async function bed(t: TestContext, upstreams: number, otherFirstSlot: number) {
  const store = await sqliteStore(t);
  const rig = await createRig(store, {
    upstreams: Array.from({ length: upstreams }, (_, index) => honest(`upstream-${index}`)),
    otherFirstSlot,
    finalityDepth: 4,
  });
  t.after(() => rig.stop());
  grow(rig, 40);
  for (let made = 0; made < 45; made += 1) rig.other.grow(0, 2);
  await rig.start();
  await expectTruth(rig);
  // Something is final.
  await rig.clock.advance(10_000);
  return { rig, store, first: rig.upstreams[0]! };
}

/** Both chains go on for a while. */
async function live(rig: Rig, rounds = 8, wait = 2_000): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    rig.world.grow(0, 2);
    rig.other.grow(0, 2);
    if (round === 3) rig.other.fork(2);
    await rig.clock.advance(wait);
  }
}

const othersOf = (rig: Rig) => rig.upstreamStates().map(({ otherChain }) => otherChain);

for (const [name, otherFirstSlot] of SLOTS) {
  test(`the only upstream becomes a chain with ${name}, and comes back`, async (t) => {
    const { rig, store, first } = await bed(t, 1, otherFirstSlot);
    const before = await rig.ledger();
    first.elsewhere = rig.other;
    await live(rig, 35);
    assert.deepEqual(othersOf(rig), [rig.other.genesisHash]);
    assert.deepEqual(await rig.ledger(), before);
    assert.deepEqual(await gapsOf(store), []);
    first.elsewhere = null;
    await expectTruth(rig);
    assert.deepEqual(othersOf(rig), [null]);
    assert.equal(await positionFault(store, rig.world), null);
    assert.equal(rig.follower.status().stalled, null);
  });

  test(`the only upstream was unreachable and is a chain with ${name}`, async (t) => {
    const { rig, store, first } = await bed(t, 1, otherFirstSlot);
    const before = await rig.ledger();
    first.isDown = true;
    await live(rig, 3);
    Object.assign(first, { isDown: false, elsewhere: rig.other });
    await rig.clock.advance(1_500);
    assert.deepEqual(othersOf(rig), [rig.other.genesisHash]);
    await live(rig, 4);
    assert.deepEqual(await rig.ledger(), before);
    first.isDown = true;
    await live(rig, 2);
    Object.assign(first, { isDown: false, elsewhere: null });
    await expectTruth(rig);
    assert.equal(await positionFault(store, rig.world), null);
  });

  test(`one of two becomes a chain with ${name}: the other one goes on`, async (t) => {
    const { rig, store, first } = await bed(t, 2, otherFirstSlot);
    first.elsewhere = rig.other;
    await live(rig, 35);
    assert.deepEqual(othersOf(rig), [rig.other.genesisHash, null]);
    await expectTruth(rig);
    first.elsewhere = null;
    await live(rig, 5);
    assert.deepEqual(othersOf(rig), [null, null]);
    await expectTruth(rig);
    assert.equal(await positionFault(store, rig.world), null);
    assert.deepEqual(await gapsOf(store), []);
  });
}

test('while nothing final is known, a roll-back to no ancestor is refused to another chain', async (t) => {
  const store = await sqliteStore(t);
  const upstreams = [honest('upstream-0')];
  const rig = await createRig(store, { upstreams, finalityDepth: 500, otherFirstSlot: FIRST_SLOT });
  t.after(() => rig.stop());
  grow(rig, 29);
  for (let made = 0; made < 60; made += 1) rig.other.grow(0, 2);
  await rig.start();
  await expectTruth(rig);
  upstreams[0]!.elsewhere = rig.other;
  await live(rig, 6, 1_000);
  assert.equal((await rig.ledger()).lastSlot, FIRST_SLOT + 29);
  assert.deepEqual(othersOf(rig), [rig.other.genesisHash]);
  upstreams[0]!.elsewhere = null;
  await expectTruth(rig);
});

test('a tip below what is final is asked about at once', async (t) => {
  const { rig, first } = await bed(t, 1, 1);
  first.elsewhere = rig.other;
  await rig.clock.advance(1_000);
  assert.deepEqual(othersOf(rig), [rig.other.genesisHash]);
});
