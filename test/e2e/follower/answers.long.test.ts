import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLedger } from '../../helpers/ledger-processor.ts';
import type { Behaviour, SeenCall } from '../../helpers/upstream.ts';
import { blockText } from '../../simulation/follower/world.ts';
import { type BedNode, createBed, errorOf, grow, settles, until } from './harness.ts';

const slotOf = (call: SeenCall) => (call.params as [number])[0];
const optionsOf = (call: SeenCall) => (call.params as [number, Readonly<Record<string, unknown>>])[1];

/** Every block is answered like this for its first times. */
function atFirst(node: BedNode, behaviour: Behaviour, times = 2): void {
  const seen = new Map<number, number>();
  node.interrupt = (call) => {
    if (call.method !== 'getBlock' || optionsOf(call)['transactionDetails'] !== 'full') return undefined;
    const count = (seen.get(slotOf(call)) ?? 0) + 1;
    seen.set(slotOf(call), count);
    return count <= times ? behaviour : undefined;
  };
}

const troubles: readonly (readonly [string, Behaviour])[] = [
  ['-32004, not yet', errorOf(-32004)],
  ['-32005, unwell', errorOf(-32005)],
  ['-32007, a wrong skip', errorOf(-32007)],
  ['-32009, a wrong skip', errorOf(-32009)],
  ['-32014, not yet', errorOf(-32014)],
  ['-32016, behind', errorOf(-32016)],
  ['-32019, archive down', errorOf(-32019)],
  ['a null result', { result: 'null' }],
  ['429 with Retry-After', { status: 429, headers: { 'retry-after': '2' }, chunks: ['later'] }],
  ['429 without', { status: 429, chunks: ['later'] }],
  ['a storm of 503', { status: 503, chunks: ['<html>'] }],
  ['a reset', { fault: 'reset' }],
  ['no answer at all', { fault: 'hang' }],
  ['half an answer, then the end', { fault: 'cut', body: '{"jsonrpc":"2.0","result":{"block' }],
  ['broken JSON', { chunks: ['{"jsonrpc":"2.0","result":{"block'] }],
  ['a page of HTML', { chunks: ['<!doctype html><title>welcome</title>'] }],
];

for (const [name, behaviour] of troubles) {
  test(`${name}: delays, and loses nothing`, { timeout: 60_000 }, async (t) => {
    const bed = await createBed(t, { follow: { requestTimeoutMs: 2_000 }, upstream: { distrustMs: 2_000 } });
    grow(bed.world, 3);
    atFirst(bed.nodes[0]!, behaviour, name === 'no answer at all' ? 1 : 2);
    await bed.follow();
    await settles(bed);
    grow(bed.world, 3);
    await settles(bed);
  });
}

test('-32015: the version is raised, and each block is processed once', async (t) => {
  const bed = await createBed(t);
  const node = bed.nodes[0]!;
  node.interrupt = (call) => {
    if (call.method !== 'getBlock' || optionsOf(call)['transactionDetails'] !== 'full') return undefined;
    return (optionsOf(call)['maxSupportedTransactionVersion'] as number) < 2 ? errorOf(-32015) : undefined;
  };
  grow(bed.world, 5);
  const { follower } = await bed.follow();
  await settles(bed);
  assert.equal(follower.status().stalled, null);
  const full = node.server.callsOf('getBlock').filter((call) => optionsOf(call)['transactionDetails'] === 'full');
  const served = full.filter((call) => optionsOf(call)['maxSupportedTransactionVersion'] === 2).map(slotOf);
  assert.deepEqual(
    served.toSorted((a, b) => a - b),
    bed.world.chain.map(({ slot }) => slot),
  );
  // What was learnt with the first blocks is asked for at once with the later ones.
  grow(bed.world, 3);
  await settles(bed);
  const late = node.server.callsOf('getBlock').filter((call) => slotOf(call) === bed.world.slot);
  assert.ok(late.every((call) => optionsOf(call)['maxSupportedTransactionVersion'] === 2));
});

test('runs of skips, at the tip and over the edge of the window', async (t) => {
  const bed = await createBed(t, { follow: { window: 20 } });
  await bed.follow();
  for (const run of [1, 5, 19, 20, 21, 40, 130]) {
    bed.world.grow(run);
    grow(bed.world, 2);
    await settles(bed);
  }
});

test('a list that leaves out a slot, and one that tells it late', async (t) => {
  const bed = await createBed(t);
  grow(bed.world, 8);
  const hidden = bed.world.chain[4]!.slot;
  const hiddenAtTip = bed.world.slot;
  let asked = 0;
  bed.nodes[0]!.interrupt = ({ method, params }) => {
    if (method !== 'getBlocks') return undefined;
    asked += 1;
    const [from, to] = params as [number, number];
    const told = bed.world.chain.map(({ slot }) => slot).filter((slot) => slot >= from && slot <= to);
    const isHidden = (slot: number) => slot === hidden || (asked < 6 && slot === hiddenAtTip);
    return { result: JSON.stringify(told.filter((slot) => !isHidden(slot))) };
  };
  await bed.follow();
  await settles(bed);
});

test('answers that come in reverse order', async (t) => {
  const bed = await createBed(t);
  grow(bed.world, 40);
  const { server } = bed.nodes[0]!;
  const held: (() => void)[] = [];
  const letGo = () => {
    for (const go of held.splice(0).reverse()) go();
  };
  const order: number[] = [];
  server.on('getBlock', async (call) => {
    await new Promise<void>((go) => held.push(go));
    order.push(slotOf(call));
    const found = bed.world.blockAt(slotOf(call));
    return found === undefined ? errorOf(-32007) : { result: blockText(found) };
  });
  const timer = setInterval(letGo, 30);
  t.after(() => {
    clearInterval(timer);
    letGo();
  });
  await bed.follow();
  await settles(bed);
  assert.notDeepEqual(
    order,
    order.toSorted((a, b) => a - b),
  );
});

test('two blocks for one slot: the one that continues the chain is kept', { timeout: 60_000 }, async (t) => {
  const bed = await createBed(t, { nodes: 2, upstream: { distrustMs: 1_000 } });
  grow(bed.world, 10);
  const liar = bed.nodes[0]!;
  liar.view.lieRate = 0.5;
  const { follower } = await bed.follow();
  grow(bed.world, 10);
  await until(async () => (await readLedger(bed.store)).lastSlot === bed.world.slot);
  liar.view.lieRate = 0;
  grow(bed.world, 3);
  await settles(bed);
  assert.equal(follower.status().stalled, null);
});
