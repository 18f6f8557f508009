import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byCase } from '../../helpers/run-part.ts';
import { expectTruth, grow, rigOf } from './case-kit.ts';
import { honest } from './fake-node.ts';

const consensusEvents = (rig: Awaited<ReturnType<typeof rigOf>>['rig']) =>
  rig.log.lines.filter(({ fields }) => fields['event'] === 'chain.consensus').map(({ fields }) => fields['era']);

test('a chain on TowerBFT is followed at confirmed, and a fork is followed', async (t) => {
  const { rig } = await rigOf(t);
  grow(rig, 20);
  await rig.start();
  await expectTruth(rig);
  const { consensus, commitment } = rig.follower.status();
  assert.deepEqual(consensus, { era: 'towerbft', genesisSlot: null, source: 'certificate' });
  assert.equal(commitment, 'confirmed');
  rig.world.fork(3);
  grow(rig, 5);
  await expectTruth(rig);
});

byCase([0, -1, 1, null], (places) => {
  for (const restartAt of places)
    test(`a chain that moves to Alpenglow while it is followed is one chain${restartAt === null ? '' : `, with a restart at slot ${restartAt} of the move`}`, async (t) => {
      const { rig } = await rigOf(t);
      grow(rig, 20);
      await rig.start();
      await expectTruth(rig);
      for (const place of [-1, 0, 1]) {
        if (place === 0) rig.world.migrate();
        else grow(rig, 1);
        await rig.clock.advance(2_000);
        if (restartAt === place) await rig.restart();
      }
      for (let second = 0; second < 130; second += 1) {
        grow(rig, 1);
        await rig.clock.advance(1_000);
      }
      await expectTruth(rig);
      await rig.clock.advance(2_000);
      const { consensus, commitment, finalizedSlot, cursorSlot, stalled } = rig.follower.status();
      assert.deepEqual(consensus, { era: 'alpenglow', genesisSlot: rig.world.genesisSlot, source: 'certificate' });
      assert.equal(commitment, 'finalized');
      assert.equal(finalizedSlot, cursorSlot, 'what is released is final');
      assert.equal(stalled, null);
      assert.equal(consensusEvents(rig).filter((era) => era === 'alpenglow').length, 1, 'the commitment switches once');
    });
});

test('the account of the certificate answers where a proxy lacks the method', async (t) => {
  const upstreams = [{ ...honest('upstream-0'), lacksCertificate: true }];
  const { rig } = await rigOf(t, { upstreams });
  grow(rig, 5);
  rig.world.migrate();
  grow(rig, 5);
  await rig.start();
  await expectTruth(rig);
  assert.deepEqual(rig.follower.status().consensus, {
    era: 'alpenglow',
    genesisSlot: rig.world.genesisSlot,
    source: 'account',
  });
});

test('a node that refuses confirmed is followed, whatever the commitment', async (t) => {
  for (const commitment of ['auto', 'confirmed', 'finalized'] as const) {
    const upstreams = [{ ...honest('upstream-0'), refusesConfirmed: true }];
    const { rig } = await rigOf(t, { upstreams, follow: { commitment } });
    rig.world.migrate();
    grow(rig, 20);
    await rig.start();
    await expectTruth(rig);
    assert.equal(rig.follower.status().stalled, null);
    assert.deepEqual(
      rig.upstreamStates().map(({ healthy }) => healthy),
      [true],
    );
  }
});

test('a node of 4.2 that is stalled at the move neither hides it nor holds up the chain', async (t) => {
  const old = { ...honest('upstream-0'), version: '4.2.1' };
  const { rig } = await rigOf(t, { upstreams: [old, honest('upstream-1')] });
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  rig.world.migrate();
  for (let second = 0; second < 130; second += 1) {
    grow(rig, 2);
    await rig.clock.advance(1_000);
    assert.equal(rig.follower.status().stalled, null);
  }
  await expectTruth(rig);
  assert.equal(rig.follower.status().consensus?.era, 'alpenglow');
  const [state] = rig.upstreamStates();
  assert.match(state?.reason ?? '', new RegExp(`^stalled at slot ${rig.world.genesisSlot}`));
});

test('a node of 4.2 alone proves nothing: the era stays unknown, and confirmed is followed', async (t) => {
  const { rig } = await rigOf(t, { upstreams: [{ ...honest('upstream-0'), version: '4.2.1' }] });
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  assert.equal(rig.follower.status().consensus?.era, 'unknown');
  assert.equal(rig.follower.status().commitment, 'confirmed');
});

test('the operator says how the chain finalizes', async (t) => {
  const { rig } = await rigOf(t, {
    upstreams: [{ ...honest('upstream-0'), version: '4.2.1' }],
    follow: { consensus: 'alpenglow' },
  });
  rig.world.finalizeAll();
  await rig.start();
  await rig.clock.advance(2_000);
  assert.deepEqual(rig.follower.status().consensus, { era: 'alpenglow', genesisSlot: null, source: 'configuration' });
  assert.equal(rig.follower.status().commitment, 'finalized');
});

test('empty blocks of one parent share a blockhash, and the chain tells them apart by their slots', async (t) => {
  const { rig } = await rigOf(t);
  rig.world.sharesEmptyHashes = true;
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  for (let round = 0; round < 12; round += 1) {
    rig.world.grow(0, 0);
    const replaced = rig.world.chain.at(-1)!;
    await rig.clock.advance(round % 2 === 0 ? 2_000 : 100);
    rig.world.fork(1);
    rig.world.grow(round % 3, 0);
    const instead = rig.world.chain.at(-1)!;
    assert.equal(instead.blockhash, replaced.blockhash);
    await rig.clock.advance(1_000);
    grow(rig, 2);
    await expectTruth(rig);
  }
});

test('one wrong newest block of an upstream does not stop a chain that is followed at finalized', async (t) => {
  const upstreams = [honest('upstream-0'), honest('upstream-1')];
  const { rig } = await rigOf(t, { upstreams });
  grow(rig, 5);
  rig.world.migrate();
  grow(rig, 5);
  await rig.start();
  await expectTruth(rig);
  for (let round = 0; round < 10; round += 1) {
    upstreams[0]!.lieRate = 1;
    grow(rig, 1);
    await rig.clock.advance(400);
    upstreams[0]!.lieRate = 0;
    grow(rig, 2);
    await rig.clock.advance(4_000);
  }
  await expectTruth(rig);
  assert.equal(rig.follower.status().stalled, null);
});
