import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { readLedger } from '../../helpers/ledger-processor.ts';
import type { SeenCall } from '../../helpers/upstream.ts';
import { createBed, errorOf, grow, settles, until } from './harness.ts';

const optionsOf = (call: SeenCall) => (call.params as [number, Readonly<Record<string, unknown>>])[1];
const isHeader = (call: SeenCall) => call.method === 'getBlock' && optionsOf(call)['transactionDetails'] === 'none';

for (const depth of [1, 2, 8, 31, 64]) {
  test(`a fork of ${depth} blocks`, { timeout: 60_000 }, async (t) => {
    const bed = await createBed(t, { finalityDepth: 100 });
    grow(bed.world, depth + 10);
    const running = await bed.follow();
    await settles(bed);
    bed.world.fork(depth);
    grow(bed.world, depth + 2);
    await settles(bed);
    const metrics = await running.metrics();
    assert.match(metrics, /parhelion_follow_forks_total 1\n/);
    assert.match(metrics, new RegExp(`parhelion_follow_blocks_rolled_back_total ${depth}\n`));
    assert.match(metrics, new RegExp(`parhelion_follow_fork_depth_blocks_sum ${depth}\n`));
    assert.equal(running.follower.status().stalled, null);
  });
}

test('two forks in a row, the second before the first was seen whole, and back in other slots', async (t) => {
  const bed = await createBed(t);
  grow(bed.world, 30);
  const { follower } = await bed.follow();
  await settles(bed);
  for (const [depth, blocks, skips] of [
    [6, 3, 0],
    [4, 9, 2],
    [1, 2, 0],
    [9, 14, 1],
  ] as const) {
    bed.world.fork(depth);
    bed.world.grow(skips, 2);
    grow(bed.world, blocks);
    await sleep(10);
  }
  bed.world.grow(40, 1);
  await settles(bed);
  assert.equal(follower.status().stalled, null);
});

test('a fork deeper than the stored headers stops the chain for good, and changes nothing', {
  timeout: 60_000,
}, async (t) => {
  const bed = await createBed(t, { finalityDepth: 400, follow: { headers: 64 } });
  grow(bed.world, 200);
  const { follower, log } = await bed.follow();
  await settles(bed);
  const before = await readLedger(bed.store);
  bed.world.fork(150);
  grow(bed.world, 160);
  await until(() => /FOLLOW_DEEP_FORK/.test(follower.status().stalled ?? ''));
  assert.match(follower.status().stalled ?? '', /FOLLOW_DEEP_FORK/);
  assert.deepEqual(await readLedger(bed.store), before);
  await until(() => log.lines.some(({ fields }) => fields['event'] === 'chain.stalled'));
  assert.ok(log.lines.some(({ fields }) => fields['event'] === 'chain.stalled'));
});

test('the audit: null headers, errors and a node that is behind only delay the mark', async (t) => {
  const bed = await createBed(t, { finalityDepth: 5 });
  const [node] = bed.nodes;
  grow(bed.world, 20);
  let asked = 0;
  const answers = [
    { result: 'null' },
    errorOf(-32004),
    errorOf(-32005),
    errorOf(-32007),
    { status: 503, chunks: ['<html>'] },
  ];
  node!.interrupt = (call) => {
    if (!isHeader(call)) return undefined;
    asked += 1;
    return answers[asked % answers.length];
  };
  const running = await bed.follow();
  await settles(bed);
  await until(() => asked > 8);
  assert.equal(running.follower.status().finalizedSlot, null);
  assert.equal(running.follower.status().stalled, null);
  node!.interrupt = null;
  await until(() => running.follower.status().finalizedSlot === bed.world.finalizedSlot);
  assert.equal(running.follower.status().finalizedSlot, bed.world.finalizedSlot);
  assert.match(await running.metrics(), /parhelion_follow_finality_mismatches_total 0\n/);
});

test('the audit: a fork that it sees before the follower is a fork, and no contradiction', async (t) => {
  const bed = await createBed(t, { finalityDepth: 5 });
  const [node] = bed.nodes;
  grow(bed.world, 20);
  const running = await bed.follow();
  await settles(bed);
  const { log } = running;
  // Nobody lists or gives new blocks: the follower waits.
  const isBlocks = (call: SeenCall) => call.method === 'getBlocks' || (call.method === 'getBlock' && !isHeader(call));
  node!.interrupt = (call) => (isBlocks(call) ? { status: 503, chunks: ['<html>'] } : undefined);
  bed.world.replaceTop(4);
  grow(bed.world, 12);
  await until(async () => /parhelion_follow_forks_total 1\n/.test(await running.metrics()));
  node!.interrupt = null;
  await settles(bed);
  assert.match(await running.metrics(), /parhelion_follow_finality_mismatches_total 0\n/);
  assert.deepEqual(
    log.lines.filter(({ message }) => /released/.test(message)),
    [],
  );
  assert.equal(running.follower.status().stalled, null);
});

test('confirmed and finalized are the same', async (t) => {
  const bed = await createBed(t, { finalityDepth: 0 });
  const { follower } = await bed.follow();
  for (let round = 0; round < 5; round += 1) {
    grow(bed.world, 4);
    await settles(bed);
    await until(() => follower.status().finalizedSlot === bed.world.slot);
    assert.equal(follower.status().finalizedSlot, bed.world.slot);
  }
});

test('followed at finalized: what is released is final, forks are never seen, and the lag is the one to the finalized tip', async (t) => {
  const bed = await createBed(t, { finalityDepth: 6, follow: { commitment: 'finalized' } });
  grow(bed.world, 30);
  const running = await bed.follow();
  const isFinal = async () => {
    const final = bed.world.chain.filter(({ slot }) => slot <= bed.world.finalizedSlot);
    const entries = final.flatMap(({ slot, signatures }) => [...signatures].sort().map((each) => `${slot}:${each}`));
    await until(async () => JSON.stringify((await readLedger(bed.store)).entries) === JSON.stringify(entries));
    assert.deepEqual((await readLedger(bed.store)).entries, entries);
    await until(() => running.follower.status().lagSlots === 0);
    const { cursorSlot, finalizedSlot, tipSlot, lagSlots, stalled } = running.follower.status();
    const at = bed.world.finalizedSlot;
    assert.deepEqual([cursorSlot, finalizedSlot, tipSlot, lagSlots, stalled], [at, at, at, 0, null]);
  };
  await isFinal();
  for (const depth of [1, 5, 3]) {
    bed.world.fork(depth);
    grow(bed.world, depth + 8);
    await isFinal();
  }
  const metrics = await running.metrics();
  assert.match(metrics, /parhelion_follow_forks_total 0\n/);
  assert.match(metrics, new RegExp(`parhelion_follow_finalized_slot ${bed.world.finalizedSlot}\n`));
  // Nothing is kept for an undo that cannot happen.
  assert.deepEqual(await bed.store.read.selectFrom('ledger_undo').selectAll().execute(), []);
  for (const call of bed.nodes[0]!.server.calls) {
    const options = call.method === 'getBlocks' ? (call.params as unknown[])[2] : (call.params as unknown[])[1];
    if (call.method === 'getBlocks' || call.method === 'getBlock')
      assert.equal((options as { commitment: string }).commitment, 'finalized');
  }
});

test('followed at finalized: a finalized block that is replaced stops the chain', async (t) => {
  const bed = await createBed(t, { finalityDepth: 6, follow: { commitment: 'finalized' } });
  grow(bed.world, 30);
  const { follower } = await bed.follow();
  await until(() => follower.status().cursorSlot === bed.world.finalizedSlot);
  const before = await readLedger(bed.store);
  bed.world.replaceTop(10);
  bed.world.grow(3, 1);
  grow(bed.world, 10);
  await until(() => /FOLLOW_DEEP_FORK/.test(follower.status().stalled ?? ''));
  assert.match(follower.status().stalled ?? '', /FOLLOW_DEEP_FORK/);
  assert.deepEqual(await readLedger(bed.store), before);
});
