import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLedgerProcessor } from '../../helpers/ledger-processor.ts';
import { eachStore, sqliteStore } from '../../helpers/store.ts';
import { expectTruth, grow } from './case-kit.ts';
import { honest } from './fake-node.ts';
import { createRig } from './harness.ts';

const NAMES = ['first', 'second', 'third'] as const;

/** Whole blocks that were asked for, and how often the most wanted one was. */
function callsOf(upstreams: readonly ReturnType<typeof honest>[]) {
  const bySlot = new Map<number, number>();
  for (const { asked } of upstreams)
    for (const [slot, count] of asked) bySlot.set(slot, (bySlot.get(slot) ?? 0) + count);
  return { slots: [...bySlot.keys()].sort((a, b) => a - b), most: Math.max(...bySlot.values()) };
}

eachStore('no block is fetched twice', (engine) => {
  test('by processors that catch up from different places, and the chain with them', async (t) => {
    const upstreams = [honest('upstream-0'), honest('upstream-1')];
    const rig = await createRig(await engine.store(t), { upstreams, follow: { bufferBlocks: 8, window: 40 } });
    t.after(() => rig.stop());
    const all = () => [createLedgerProcessor(), ...NAMES.map((name) => createLedgerProcessor({ name }))];
    grow(rig, 10);
    await rig.start({ processors: all() });
    await expectTruth(rig, 'third@1');
    // One after the other stays away, so that each stands at a place of its own.
    for (const left of [3, 2, 1]) {
      await rig.restart({ processors: all().slice(0, left) });
      grow(rig, 20);
      await expectTruth(rig);
    }
    await rig.stop();
    const from = (await rig.ledger('third@1')).lastSlot;
    grow(rig, 150);
    for (const { asked } of upstreams) asked.clear();
    await rig.start({ processors: all() });
    for (const name of NAMES) await expectTruth(rig, `${name}@1`);
    await expectTruth(rig);
    const { slots, most } = callsOf(upstreams);
    assert.equal(most, 1);
    assert.deepEqual(
      slots,
      rig.world.chain.map(({ slot }) => slot).filter((slot) => slot > from),
    );
  });
});

test('by a full buffer: what is on its way has its place', async (t) => {
  const upstreams = [honest('upstream-0')];
  upstreams[0]!.slowMs = 40;
  const rig = await createRig(await sqliteStore(t), {
    upstreams,
    follow: { bufferBlocks: 4, window: 30, catchUpConcurrency: 10, concurrency: 10 },
  });
  t.after(() => rig.stop());
  grow(rig, 120);
  await rig.start();
  await expectTruth(rig);
  const { slots, most } = callsOf(upstreams);
  assert.equal(most, 1);
  assert.equal(slots.length, rig.world.chain.length);
});

test('a fork is never served from what was kept', async (t) => {
  const upstreams = [honest('upstream-0')];
  const rig = await createRig(await sqliteStore(t), { upstreams });
  t.after(() => rig.stop());
  const late = () => createLedgerProcessor({ name: 'late' });
  grow(rig, 10);
  await rig.start({ processors: [createLedgerProcessor(), late()] });
  await expectTruth(rig, 'late@1');
  await rig.restart({ processors: [createLedgerProcessor()] });
  grow(rig, 60);
  await expectTruth(rig);
  await rig.restart({ processors: [createLedgerProcessor(), late()] });
  for (let round = 0; round < 6; round += 1) {
    await rig.clock.advance(300);
    rig.world.fork(4);
    grow(rig, 6);
  }
  await expectTruth(rig);
  await expectTruth(rig, 'late@1');
});
