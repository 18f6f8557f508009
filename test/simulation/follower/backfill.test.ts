import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createLedgerProcessor } from '../../helpers/ledger-processor.ts';
import { createOrderFreeLedger } from '../../helpers/order-free-ledger.ts';
import { expectTruth, gapsOf, grow, leaveBehind, rigOf } from './case-kit.ts';
import { honest } from './fake-node.ts';
import { FIRST_SLOT } from './world.ts';

const processors = [createOrderFreeLedger()];

test('a range that was too old to catch up is filled beside the following', async (t) => {
  const { rig, store } = await rigOf(t, { processors, follow: { maxCatchupSlots: 20, auditIntervalMs: 500 } });
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  await rig.stop();
  for (let made = 0; made < 60; made += 1) rig.world.grow(made % 4, made % 3);
  grow(rig, 20);
  await rig.start();
  await expectTruth(rig);
  const [gap] = await gapsOf(store);
  assert.equal(gap?.status, 'filled');
  await rig.clock.advance(3_000);
  assert.equal(rig.follower.status().openGaps, 0);
  const text = await rig.metrics();
  assert.match(text, /parhelion_follow_gap_slots 0\n/);
  assert.match(text, new RegExp(`parhelion_follow_gap_slots_filled_total ${gap.to_slot - gap.from_slot + 1}\n`));
});

test('a range that every upstream has pruned is filled once an upstream has it', async (t) => {
  const upstreams = [honest('upstream-0'), honest('upstream-1')];
  const { rig, store } = await rigOf(t, { upstreams, processors });
  await leaveBehind(rig, 40);
  for (const upstream of upstreams) upstream.prunedBelow = rig.world.chain.at(-20)!.slot;
  await rig.start();
  await rig.clock.advance(90_000);
  assert.deepEqual(
    (await gapsOf(store)).map(({ status, reason }) => [status, reason]),
    [['open', 'pruned']],
  );
  const [shown] = rig.follower.status().gaps ?? [];
  assert.match(shown?.trouble ?? '', /no upstream has the block at slot \d+ any more/);
  // The gap stalls nothing; the chain of the test has made no block since.
  assert.match(rig.follower.status().stalled ?? '', /^the chain has made no block for \d+ s$/);
  upstreams[1]!.prunedBelow = 0;
  await rig.settle(600_000);
  await expectTruth(rig);
  assert.equal((await gapsOf(store))[0]?.status, 'filled');
});

test('the part that can still be had is filled at once, the pruned part stays open', async (t) => {
  const upstreams = [honest('upstream-0')];
  const { rig, store } = await rigOf(t, { upstreams, processors, follow: { maxCatchupSlots: 15 } });
  await leaveBehind(rig, 60);
  const first = rig.world.chain.at(-40)!.slot;
  upstreams[0]!.prunedBelow = first;
  await rig.start();
  await rig.clock.advance(60_000);
  const gaps = await gapsOf(store);
  assert.deepEqual(
    gaps.map(({ status, to_slot }) => [status, to_slot]),
    [
      ['open', first - 1],
      ['filled', rig.world.slot - 16],
    ],
  );
  const lost = (slot: number) => slot >= gaps[0]!.from_slot && slot < first;
  const expected = rig.truth().entries.filter((entry) => !lost(Number(entry.split(':')[0])));
  assert.deepEqual((await rig.ledger()).entries, expected);
  upstreams[0]!.prunedBelow = 0;
  await rig.settle(600_000);
  await expectTruth(rig);
});

test('starts that come too late again and again, before any block was released, make one gap', async (t) => {
  const upstreams = [honest('upstream-0')];
  const { rig, store } = await rigOf(t, { upstreams, processors, follow: { maxCatchupSlots: 20 } });
  upstreams[0]!.notYetRate = 1;
  for (let starts = 0; starts < 3; starts += 1) {
    grow(rig, 40);
    await rig.restart();
    await rig.clock.advance(5_000);
  }
  const to_slot = rig.world.slot - 21;
  assert.deepEqual(await gapsOf(store), [{ from_slot: FIRST_SLOT, to_slot, reason: 'too_old', status: 'open' }]);
  upstreams[0]!.notYetRate = 0;
  grow(rig, 20);
  await expectTruth(rig);
});

test('a stretch without blocks that is longer than what is listed at once does not stop the filling', async (t) => {
  const { rig, store } = await rigOf(t, { processors, follow: { maxCatchupSlots: 20, window: 10 } });
  await leaveBehind(rig, 8);
  rig.world.grow(60);
  grow(rig, 40);
  await rig.start();
  await expectTruth(rig);
  assert.equal((await gapsOf(store))[0]?.status, 'filled');
});

test('a gap without any block is found empty', async (t) => {
  const { rig, store } = await rigOf(t, { processors, follow: { maxCatchupSlots: 20 } });
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  await rig.stop();
  rig.world.grow(60);
  grow(rig, 30);
  await rig.start();
  await expectTruth(rig);
  await rig.clock.advance(30_000);
  assert.deepEqual(
    (await gapsOf(store)).map(({ status }) => status),
    ['filled'],
  );
});

test('a hole that was given up is filled when the block turns up', async (t) => {
  const only = honest('upstream-0');
  const follow = { holePolicy: 'gap', holeTimeoutSeconds: 120 } as const;
  const { rig, store } = await rigOf(t, { upstreams: [only], follow, processors });
  grow(rig, 12);
  for (const { slot } of rig.world.chain.slice(4, 6)) only.lost.add(slot);
  await rig.start();
  await rig.clock.advance(300_000);
  grow(rig, 15);
  await rig.clock.advance(60_000);
  assert.equal((await gapsOf(store))[0]?.reason, 'hole');
  only.lost.clear();
  await rig.settle(600_000);
  await expectTruth(rig);
});

test('a processor that takes blocks in their order only is left alone, and the record says why', async (t) => {
  const { rig, store } = await rigOf(t, { follow: { maxCatchupSlots: 20 } });
  await leaveBehind(rig, 60);
  await rig.start();
  await rig.clock.advance(60_000);
  assert.equal((await gapsOf(store))[0]?.status, 'open');
  assert.match(rig.follower.status().gaps?.[0]?.trouble ?? '', /ledger takes blocks in their order only/);
});

test('pruned history of a processor that began late is filled when it can be had', async (t) => {
  const upstreams = [honest('upstream-0')];
  const { rig, store } = await rigOf(t, { upstreams });
  grow(rig, 40);
  await rig.start();
  await expectTruth(rig);
  upstreams[0]!.prunedBelow = rig.world.chain[20]!.slot;
  const late = createOrderFreeLedger({ name: 'late', startSlot: FIRST_SLOT });
  await rig.restart({ processors: [createLedgerProcessor(), late] });
  await rig.clock.advance(60_000);
  assert.equal((await gapsOf(store, 'late'))[0]?.status, 'open');
  upstreams[0]!.prunedBelow = 0;
  await rig.settle(600_000, 'late@1');
  await expectTruth(rig, 'late@1');
  await expectTruth(rig);
  assert.equal((await gapsOf(store, 'late'))[0]?.status, 'filled');
});

test('a lying upstream cannot fill a gap with blocks that are not of the chain', async (t) => {
  const liar = honest('upstream-0');
  const { rig } = await rigOf(t, {
    upstreams: [liar, honest('upstream-1')],
    processors,
    follow: { maxCatchupSlots: 20 },
  });
  await leaveBehind(rig, 80);
  Object.assign(liar, { lieRate: 0.5, wrongSkipRate: 0.3, hideRate: 0.4, failRate: 0.2, notYetRate: 0.2 });
  await rig.start();
  await rig.settle(900_000);
  await expectTruth(rig);
});

test('filling waits while the chain is behind its tip, and is done block by block with the life of the chain', async (t) => {
  const { rig, store } = await rigOf(t, { processors, follow: { maxCatchupSlots: 150 } });
  await leaveBehind(rig, 260);
  await rig.start();
  const tip = () => rig.follower.status().lagSlots ?? 1_000;
  while (tip() > 20) {
    assert.notEqual((await gapsOf(store))[0]?.status, 'filling');
    await rig.clock.advance(200);
  }
  grow(rig, 5);
  await expectTruth(rig);
});

test('a kill at any write of the filling loses nothing and repeats nothing', async (t) => {
  const { rig, store } = await rigOf(t, { processors, follow: { maxCatchupSlots: 20, auditIntervalMs: 300 } });
  await leaveBehind(rig, 60);
  let writes = 0;
  const dying: Store = {
    ...store,
    async write(work) {
      writes += 1;
      const dies = writes % 7 === 6 ? writes % 3 : -1;
      if (dies === 0) throw new CodedError('STORE_BUSY', 'killed', { retryable: true });
      const result = await store.write(async (tx) => {
        const value = await work(tx);
        if (dies === 1) throw new CodedError('STORE_UNREACHABLE', 'killed', { retryable: true });
        return value;
      });
      if (dies === 2) throw new CodedError('STORE_UNREACHABLE', 'killed', { retryable: true });
      return result;
    },
  };
  for (let lives = 0; lives < 12 && !(await rig.isSettled()); lives += 1) {
    await rig.restart({ store: dying });
    await rig.clock.advance(2_500);
  }
  await rig.restart();
  await expectTruth(rig);
});

test('two processes that fill the same gap do not spoil each other', async (t) => {
  const { rig, store } = await rigOf(t, { processors, follow: { maxCatchupSlots: 20, auditIntervalMs: 300 } });
  await leaveBehind(rig, 60);
  await rig.start();
  let moved = 0;
  while (!(await rig.isSettled()) && moved < 60) {
    await rig.clock.advance(700);
    // Another process was quicker with one block: the same rows, the same place.
    const fill = await store.read
      .selectFrom('follow_gap_fills')
      .selectAll()
      .where('is_done', '=', 0)
      .executeTakeFirst();
    const next = rig.world.chain.find(({ slot }) => slot > (fill?.slot ?? Number.POSITIVE_INFINITY));
    if (next !== undefined)
      await store.write(async (tx) => {
        const block = { ...next, transactions: next.signatures.map((signature, index) => ({ signature, index })) };
        await processors[0]!.apply(tx, block as never, 'main');
        await tx.db
          .updateTable('follow_gap_fills')
          .set({ slot: next.slot, blockhash: next.blockhash })
          .where('is_done', '=', 0)
          .execute();
      });
    moved += 1;
  }
  await expectTruth(rig);
});

test('an operator rewinds below the final mark, and the follower goes on along the branch that is', async (t) => {
  const { rig, store } = await rigOf(t, { processors });
  grow(rig, 40);
  await rig.start();
  await expectTruth(rig);
  await rig.clock.advance(5_000);
  const final = rig.follower.status().finalizedSlot ?? 0;
  await rig.stop();
  // The store stands on a branch that the whole chain has left, below what was final.
  rig.world.replaceTop(20);
  grow(rig, 5);
  await rig.start();
  await rig.clock.advance(20_000);
  assert.match(rig.follower.status().stalled ?? '', /FOLLOW_DEEP_FORK/);
  const to = rig.world.chain.at(-30)!.slot;
  assert.ok(to < final);
  await rig.restart({ follow: { rewindTo: to } });
  await expectTruth(rig);
  assert.equal(rig.follower.status().stalled, null);
  await rig.restart({ follow: { rewindTo: null } });
  grow(rig, 3);
  await expectTruth(rig);
  assert.deepEqual(await gapsOf(store), []);
});

test('an operator rewinds below a gap, and everything above that slot is read again', async (t) => {
  const { rig, store } = await rigOf(t, { processors, follow: { maxCatchupSlots: 20, auditIntervalMs: 500 } });
  await leaveBehind(rig, 60);
  const [kept] = rig.world.chain.slice(4);
  await rig.start();
  await expectTruth(rig);
  await rig.restart({ follow: { rewindTo: kept!.slot } });
  assert.equal((await rig.ledger()).entries.length > 0, true);
  await rig.clock.advance(100);
  await expectTruth(rig);
  await rig.clock.advance(30_000);
  const gaps = await gapsOf(store);
  assert.deepEqual(
    gaps.map(({ from_slot, status }) => [from_slot, status]),
    [
      [kept!.slot + 1, 'filled'],
      [gaps[1]?.from_slot, 'filled'],
    ],
  );
});

test('a rewind is refused where processors have dropped what it takes, or nothing is known any more', async (t) => {
  const { rig } = await rigOf(t);
  grow(rig, 40);
  await rig.start();
  await expectTruth(rig);
  await rig.clock.advance(5_000);
  const before = await rig.ledger();
  for (const rewindTo of [rig.world.chain.at(-30)!.slot, FIRST_SLOT - 5]) {
    rig.fatals.length = 0;
    await rig.restart({ follow: { rewindTo } });
    await rig.clock.advance(2_000);
    const [error] = rig.fatals;
    assert.ok(error instanceof CodedError);
    assert.deepEqual([error.code, error.exitCode], ['FOLLOW_REWIND', 78]);
    assert.deepEqual(await rig.ledger(), before);
  }
});
