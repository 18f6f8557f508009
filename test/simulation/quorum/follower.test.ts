import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bySeed } from '../../helpers/run-part.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { expectTruth, grow, rigOf } from '../follower/case-kit.ts';
import { type FakeUpstream, honest } from '../follower/fake-node.ts';
import { createRig } from '../follower/harness.ts';
import { quickStore } from '../follower/quick-store.ts';
import { createWorld } from '../follower/world.ts';

const fabrication = (seed: number) => {
  const world = createWorld(createSfc32(seed ^ 0x510e527f), 12, 'made-up ');
  world.migrate();
  return world;
};

test('a preferred upstream with a made-up chain holds the follower up without a quorum, and not with one', async (t) => {
  for (const agree of [0, 2]) {
    const made = fabrication(1);
    for (let count = 0; count < 30; count += 1) made.grow();
    const upstreams = [honest('upstream-0'), honest('upstream-1'), honest('upstream-2')];
    upstreams[0]!.fabricated = made;
    const { rig } = await rigOf(t, { upstreams, agree });
    rig.world.migrate();
    grow(rig, 20);
    await rig.start();
    if (agree === 0) {
      await rig.clock.advance(20_000);
      assert.equal(await rig.isSettled(), false);
      continue;
    }
    await expectTruth(rig);
    assert.equal(rig.follower.status().stalled, null);
    assert.match(rig.follower.status().distrusted?.[0] ?? '', /^main-0 contradicted the chain: block/);
    assert.match(await rig.metrics(), /upstream_contradictions_total\{upstream="main-0"\} [1-9]/);
    assert.match(await rig.metrics(), /upstream_quorum_total\{outcome="agreed"\} [1-9]/);
  }
});

test('two upstreams that must agree and do not stop the chain, which says so', async (t) => {
  const made = fabrication(2);
  for (let count = 0; count < 30; count += 1) made.grow();
  const upstreams = [honest('upstream-0'), honest('upstream-1')];
  const { rig } = await rigOf(t, { upstreams, agree: 2 });
  rig.world.migrate();
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  upstreams[1]!.fabricated = made;
  grow(rig, 10);
  await rig.clock.advance(10_000);
  assert.match(rig.follower.status().stalled ?? '', /^block \d+: upstreams disagree, 2 of 2 must agree; main-/);
  upstreams[1]!.fabricated = null;
  await expectTruth(rig);
  assert.equal(rig.follower.status().stalled, null);
});

/** Liars that are fewer than a quorum, and honest upstreams that fail and lag; the store never holds a block of theirs, and the chain goes on. */
async function liarLife(seed: number): Promise<void> {
  const draw = createSfc32(seed ^ 0x1f83d9ab);
  const total = draw.between(3, 5);
  const agree = draw.between(Math.floor(total / 2) + 1, total - 1);
  const upstreams = Array.from({ length: total }, (_, index) => honest(`upstream-${index}`));
  const made = fabrication(seed);
  const place = await quickStore();
  const rig = await createRig(place.store, { seed, upstreams, agree, hasStream: draw.float() < 0.3 });
  rig.world.migrate();
  const liars = new Set<FakeUpstream>();
  while (liars.size < total - agree) liars.add(upstreams[draw.below(total)]!);
  for (const liar of liars) {
    if (draw.float() < 0.6) liar.fabricated = made;
    else liar.lieRate = 0.5 + draw.float() / 2;
  }
  await rig.start();
  const right = () => new Set(rig.truth().entries);
  for (let round = 0; round < 6; round += 1) {
    for (const one of upstreams.filter((upstream) => !liars.has(upstream))) {
      one.failRate = draw.float() < 0.3 ? draw.float() * 0.5 : 0;
      one.lag = draw.float() < 0.3 ? draw.below(3) : 0;
      one.wrongSkipRate = draw.float() < 0.2 ? 0.3 : 0;
    }
    for (let count = draw.below(8); count > 0; count -= 1) rig.world.grow(draw.float() < 0.2 ? draw.below(5) : 0);
    for (let count = draw.below(8); count > 0; count -= 1) made.grow(draw.float() < 0.2 ? draw.below(5) : 0);
    await rig.clock.advance(500 + draw.below(4_000));
    const truth = right();
    const wrong = (await rig.ledger()).entries.find((entry) => !truth.has(entry));
    assert.equal(wrong, undefined, `seed ${seed}: a row that is not of the chain`);
    if (draw.float() < 0.2) await rig.restart();
  }
  for (const one of upstreams) if (!liars.has(one)) Object.assign(one, honest(one.label));
  for (let count = 0; count < 5; count += 1) rig.world.grow();
  await rig.settle();
  assert.ok(await rig.isSettled(), `seed ${seed}: it does not go on: ${rig.follower.status().stalled}`);
  assert.deepEqual(rig.fatals, []);
  await rig.stop();
  await place.remove();
}

bySeed(40, (seeds) => {
  test('a follower among liars that are fewer than a quorum releases no wrong block and goes on', async () => {
    for (const seed of seeds) await liarLife(seed);
  });
});
