import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createLedgerProcessor } from '../../helpers/ledger-processor.ts';
import { expectTruth, grow, rigOf } from './case-kit.ts';
import { honest } from './fake-node.ts';

test('runs of skipped slots, also longer than the window', async (t) => {
  const { rig } = await rigOf(t, { follow: { window: 20 } });
  for (const run of [1, 5, 40, 700]) {
    rig.world.grow(run);
    grow(rig, 2);
  }
  await rig.start();
  await expectTruth(rig);
});

test('a wrong "skipped" stalls with one upstream and heals when the block comes', async (t) => {
  const only = honest('upstream-0');
  const { rig } = await rigOf(t, { upstreams: [only] });
  grow(rig, 6);
  const lost = rig.world.chain[3]!.slot;
  only.lost.add(lost);
  await rig.start();
  await rig.clock.advance(120_000);
  const status = rig.follower.status();
  assert.equal(status.cursorSlot, rig.world.chain[2]!.slot);
  assert.match(status.stalled ?? '', new RegExp(`slot ${lost} exists`));
  only.lost.clear();
  await expectTruth(rig);
  assert.equal(rig.follower.status().stalled, null);
});

test('a wrong "skipped" heals through the second upstream, and the first is distrusted', async (t) => {
  const liar = honest('upstream-0');
  const { rig } = await rigOf(t, { upstreams: [liar, honest('upstream-1')] });
  grow(rig, 12);
  for (const { slot } of rig.world.chain.slice(1, -1)) liar.lost.add(slot);
  await rig.start();
  await expectTruth(rig);
  assert.match(rig.upstreamStates()[0]!.reason ?? '', /contradicted the chain: said that slot \d+ was skipped/);
});

for (const depth of [1, 2, 8, 11]) {
  test(`a fork of ${depth} blocks`, async (t) => {
    const { rig } = await rigOf(t);
    grow(rig, 30);
    await rig.start();
    await expectTruth(rig);
    rig.world.fork(depth);
    grow(rig, depth + 2);
    await expectTruth(rig);
  });
}

test('a fork below the finalized mark stops the chain and takes nothing back', async (t) => {
  const { rig, store } = await rigOf(t);
  grow(rig, 30);
  await rig.start();
  await expectTruth(rig);
  await rig.clock.advance(5_000);
  const before = await rig.ledger();
  // The mark of this store is moved above what the world still calls open.
  await store.write(async ({ db }) => {
    await db
      .updateTable('follow_chains')
      .set({ finalized_slot: rig.world.chain.at(-2)!.slot })
      .execute();
  });
  await rig.restart();
  await rig.clock.advance(2_000);
  rig.world.fork(5);
  grow(rig, 8);
  await rig.clock.advance(30_000);
  assert.match(rig.follower.status().stalled ?? '', /FOLLOW_DEEP_FORK/);
  assert.deepEqual(await rig.ledger(), before);
});

test('a fork of the first block starts the chain again', async (t) => {
  const { rig } = await rigOf(t, { follow: { startSlot: 'latest' } });
  grow(rig, 20);
  await rig.start();
  await rig.clock.advance(3_000);
  const from = rig.follower.status().cursorSlot!;
  rig.world.fork(3);
  grow(rig, 6);
  await rig.clock.advance(60_000);
  assert.equal(rig.follower.status().stalled, null);
  const first = rig.world.chain.find(({ slot }) => slot >= from)!;
  assert.deepEqual(await rig.ledger(), rig.truth(first.slot));
});

test('a full outbox pauses, and nothing is lost', async (t) => {
  let full = true;
  const pressure = () => (full ? { ok: false as const, reason: 'the outbox is full' } : { ok: true as const });
  const { rig } = await rigOf(t, { processors: [createLedgerProcessor({ pressure })] });
  grow(rig, 10);
  await rig.start();
  await rig.clock.advance(5_000);
  assert.match(rig.follower.status().stalled ?? '', /the outbox is full/);
  assert.equal(rig.follower.status().cursorSlot, null);
  full = false;
  await expectTruth(rig);
});

test('another process on the same store is found out before it does harm', async (t) => {
  const { rig, store } = await rigOf(t);
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  await store.write(async ({ db }) => {
    await db.updateTable('follow_cursors').set({ blockhash: 'moved' }).execute();
  });
  const before = await rig.ledger();
  grow(rig, 3);
  await rig.clock.advance(5_000);
  const [error] = rig.fatals;
  assert.ok(error instanceof CodedError);
  assert.equal(error.code, 'FOLLOW_FENCED');
  assert.equal(error.exitCode, 75);
  assert.deepEqual(await rig.ledger(), before);
});

test('a commit whose answer is lost is not repeated', async (t) => {
  const { rig, store } = await rigOf(t);
  grow(rig, 20);
  let writes = 0;
  const flaky: Store = {
    ...store,
    async write(work) {
      const result = await store.write(work);
      writes += 1;
      if (writes % 4 === 0) throw new CodedError('STORE_UNREACHABLE', 'the connection broke', { retryable: true });
      return result;
    },
  };
  await rig.start({ store: flaky });
  await expectTruth(rig);
});

test('a roll-back whose answer is lost is not repeated and not taken for a rival', async (t) => {
  // Without audits the next write is the roll-back.
  const { rig, store } = await rigOf(t, { follow: { auditIntervalMs: 10_000_000 } });
  grow(rig, 20);
  await rig.start();
  await expectTruth(rig);
  let lose = false;
  const flaky: Store = {
    ...store,
    async write(work) {
      const result = await store.write(work);
      if (!lose) return result;
      lose = false;
      throw new CodedError('STORE_UNREACHABLE', 'the connection broke', { retryable: true });
    },
  };
  await rig.restart({ store: flaky });
  await rig.clock.advance(2_000);
  lose = true;
  rig.world.fork(5);
  rig.world.grow(8);
  grow(rig, 3);
  await expectTruth(rig);
  assert.equal(lose, false);
});
