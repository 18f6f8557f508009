import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { readLedger } from '../../helpers/ledger-processor.ts';
import { type Bed, type BedNode, createBed, errorOf, grow, type Running, settles, truthOf, until } from './harness.ts';

const methodsOf = (node: BedNode, method: string) => node.server.callsOf(method).length;
const cursorOf = async ({ store }: Pick<Bed, 'store'>) => (await readLedger(store)).lastSlot;

async function stalls(running: Running, pattern: RegExp): Promise<void> {
  const says = () => running.follower.status().stalled ?? '';
  await until(() => pattern.test(says()));
  assert.match(says(), pattern);
}

test('a wrong "skipped": with one node it stands still for ever, says so everywhere, and goes on when the block is there', async (t) => {
  const bed = await createBed(t);
  grow(bed.world, 6);
  const lost = bed.world.chain[3]!;
  const { view } = bed.nodes[0]!;
  view.lost.add(lost.slot);
  const running = await bed.follow();
  await stalls(running, new RegExp(`slot ${lost.slot} exists and no upstream has it`));
  grow(bed.world, 20);
  const told = (event: string) => running.log.lines.filter(({ fields }) => fields['event'] === event);
  await until(() => told('chain.stalled').length > 0);
  assert.equal(told('chain.stalled').length, 1);
  assert.match(String(told('chain.stalled')[0]!.fields['reason']), /exists and no upstream has it/);
  assert.match(await running.metrics(), /parhelion_follow_hole_open 1\n/);
  assert.match(await running.metrics(), /parhelion_follow_stalls_total 1\n/);
  assert.equal(running.follower.status().cursorSlot, lost.parentSlot);
  assert.deepEqual((await readLedger(bed.store)).lastSlot, lost.parentSlot);
  view.lost.clear();
  await settles(bed);
  await until(() => told('chain.resumed').length > 0);
  assert.equal(told('chain.resumed').length, 1);
  assert.match(await running.metrics(), /parhelion_follow_hole_open 0\n/);
});

test('a wrong "skipped" heals through the second node, and the first one is distrusted', async (t) => {
  const bed = await createBed(t, { nodes: 2 });
  grow(bed.world, 12);
  for (const { slot } of bed.world.chain.slice(2, -1)) bed.nodes[0]!.view.lost.add(slot);
  const running = await bed.follow();
  await settles(bed);
  assert.match(running.pool.states()[0]!.reason ?? '', /contradicted the chain: said that slot \d+ was skipped/);
  assert.match(await running.metrics(), /parhelion_follow_skips_contradicted_total [1-9]/);
  assert.equal(running.follower.status().stalled, null);
});

test('a node that lists fewer slots, and one that lists none', async (t) => {
  const bed = await createBed(t, { nodes: 2 });
  grow(bed.world, 5);
  const [first] = bed.nodes;
  first!.view.hideRate = 0.7;
  await bed.follow();
  for (let round = 0; round < 6; round += 1) {
    grow(bed.world, 4);
    await settles(bed);
  }
  first!.view.hideRate = 1;
  grow(bed.world, 10);
  await settles(bed);
});

test('a tip that goes backwards, by one and by fifty', async (t) => {
  const bed = await createBed(t, { nodes: 2 });
  const { follower } = await bed.follow();
  for (const by of [2, 51]) {
    for (const { view } of bed.nodes) view.tipBackBy = by;
    grow(bed.world, 60);
    await until(async () => (await cursorOf(bed)) >= bed.world.slot - by);
    assert.deepEqual(
      (await readLedger(bed.store)).entries,
      truthOf(bed.world).entries.filter((entry) => Number(entry.split(':')[0]) <= follower.status().cursorSlot!),
    );
  }
  for (const { view } of bed.nodes) view.tipBackBy = 0;
  await settles(bed);
  assert.equal(follower.status().stalled, null);
});

test('a node more than fifty slots behind is left out, and comes back', async (t) => {
  const bed = await createBed(t, { nodes: 2 });
  grow(bed.world, 80);
  const [late] = bed.nodes;
  late!.view.lag = 70;
  const running = await bed.follow();
  await settles(bed);
  const state = () => running.pool.states()[0]!;
  // A busy machine may let a call time out before, or half a minute pass: then it counts as stalled too.
  await until(() => !state().healthy && /behind the others$/.test(state().reason ?? ''));
  const before = methodsOf(late!, 'getBlocks');
  grow(bed.world, 5);
  await settles(bed);
  assert.equal(methodsOf(late!, 'getBlocks'), before);
  late!.view.lag = 10;
  await until(() => state().healthy);
  assert.equal(state().healthy, true);
  grow(bed.world, 5);
  await settles(bed);
});

test('the preferred node is behind by less: blocks come all the same, and none is skipped', async (t) => {
  const bed = await createBed(t, { nodes: 2 });
  bed.nodes[0]!.view.lag = 20;
  grow(bed.world, 60);
  const { follower } = await bed.follow();
  await until(async () => (await cursorOf(bed)) >= bed.world.chain.at(-21)!.slot);
  bed.nodes[0]!.view.lag = 0;
  await settles(bed);
  assert.equal(follower.status().stalled, null);
});

test('the node that was followed dies: the other one has a lower tip, and it goes on', async (t) => {
  const bed = await createBed(t, { nodes: 2 });
  grow(bed.world, 20);
  bed.nodes[1]!.view.lag = 8;
  const { follower } = await bed.follow();
  await settles(bed);
  await bed.nodes[0]!.server.down();
  grow(bed.world, 5);
  bed.nodes[1]!.view.lag = 2;
  await until(async () => (await cursorOf(bed)) >= bed.world.chain.at(-3)!.slot);
  bed.nodes[1]!.view.lag = 0;
  await settles(bed);
  assert.equal(follower.status().stalled, null);
});

test('one node lies about blocks, the other does not: the truth is what is left', { timeout: 60_000 }, async (t) => {
  const bed = await createBed(t, { nodes: 2, finalityDepth: 32, upstream: { distrustMs: 5_000 } });
  bed.nodes[0]!.view.lieRate = 0.4;
  bed.nodes[0]!.view.brokenRate = 0.2;
  const { follower } = await bed.follow();
  for (let round = 0; round < 5; round += 1) {
    grow(bed.world, 6);
    await sleep(40);
  }
  bed.nodes[0]!.view.lieRate = 0;
  bed.nodes[0]!.view.brokenRate = 0;
  grow(bed.world, 3);
  await settles(bed);
  assert.equal(follower.status().stalled, null);
});

test('a node on a dead branch beside one on the chain', { timeout: 60_000 }, async (t) => {
  const bed = await createBed(t, { nodes: 2, finalityDepth: 32 });
  grow(bed.world, 30);
  const { follower } = await bed.follow();
  await settles(bed);
  bed.nodes[0]!.view.frozen = { chain: bed.world.chain, finalizedSlot: bed.world.finalizedSlot };
  bed.world.fork(6);
  grow(bed.world, 12);
  await sleep(200);
  bed.nodes[0]!.view.frozen = null;
  grow(bed.world, 2);
  await settles(bed);
  assert.equal(follower.status().stalled, null);
});

test('forms that are no answer: a slot in words, a list of strings, slots outside the range', {
  timeout: 60_000,
}, async (t) => {
  const bed = await createBed(t, { nodes: 2, upstream: { distrustMs: 1_000 } });
  grow(bed.world, 5);
  const lies: Readonly<Record<string, readonly string[]>> = {
    getSlot: ['"many"', 'null', '-1', '{}', '1.5'],
    getBlocks: ['"none"', 'null', '["100"]', '[1e300]', '[0]', '{}'],
    getFirstAvailableBlock: ['null', '"0"'],
  };
  let turn = 0;
  let lying = 'getSlot';
  bed.nodes[0]!.interrupt = ({ method }) => {
    const list = lies[method];
    turn += 1;
    return method !== lying || list === undefined ? undefined : { result: list[turn % list.length]! };
  };
  const { log } = await bed.follow();
  const told = (form: string) => log.lines.some(({ fields }) => String(fields['reason'] ?? '').includes(form));
  const isBack = (since: number) => log.lines.slice(since).some(({ message }) => message === 'upstream is back');
  for (const [method, form] of [
    ['getSlot', 'slot'],
    ['getBlocks', 'list of slots in the range'],
    ['getFirstAvailableBlock', ''],
  ] as const) {
    lying = method;
    grow(bed.world, 3);
    await settles(bed);
    // A node that is distrusted is left alone for a while: it has to be asked again, and only what is new makes the follower ask.
    for (let tries = 0; form !== '' && tries < 80 && !told(`${method} is no ${form}`); tries += 1) {
      await sleep(250);
      grow(bed.world, 1);
      await settles(bed);
    }
    assert.ok(form === '' || told(`${method} is no ${form}`), method);
    // One outage has one line, whatever its reasons: it has to be over before the next one.
    lying = '';
    const since = log.lines.length;
    for (let tries = 0; form !== '' && tries < 200 && !isBack(since); tries += 1) {
      await sleep(50);
      grow(bed.world, 1);
      await settles(bed);
    }
  }
});

test('429 with Retry-After: the node is left alone for so long, also when there is no other', async (t) => {
  const bed = await createBed(t);
  grow(bed.world, 3);
  const [node] = bed.nodes;
  const { follower } = await bed.follow();
  await settles(bed);
  let limited = 0;
  node!.interrupt = () => {
    limited += 1;
    return { status: 429, headers: { 'retry-after': '300' }, chunks: ['slow down'] };
  };
  await until(() => limited > 0);
  // Those that were on their way already.
  await sleep(100);
  const before = node!.server.calls.length;
  grow(bed.world, 3);
  await sleep(1_000);
  assert.equal(node!.server.calls.length, before);
  assert.notEqual(follower.status().cursorSlot, bed.world.slot);
  node!.interrupt = null;
  await settles(bed);
});

test('a range that a node refuses as too wide does not hide what comes behind a long stretch of skips', async (t) => {
  const bed = await createBed(t, { follow: { window: 20 } });
  bed.nodes[0]!.interrupt = ({ method, params }) => {
    if (method !== 'getBlocks') return undefined;
    const [from, to] = params as [number, number];
    return to - from >= 500 ? errorOf(-32602) : undefined;
  };
  await bed.follow();
  bed.world.grow(25_000);
  grow(bed.world, 3);
  await settles(bed);
});

test('pruned on every node: a gap is recorded and later slots go on', async (t) => {
  for (const code of [-32001, -32011]) {
    const bed = await createBed(t, { nodes: 2 });
    grow(bed.world, 5);
    const first = await bed.follow();
    await settles(bed);
    await first.stop();
    const from = bed.world.slot + 1;
    grow(bed.world, 20);
    const until_ = bed.world.chain.at(-5)!.slot - 1;
    for (const node of bed.nodes)
      node.interrupt = ({ method, params }) => {
        const slot = (params as [number])[0];
        return method === 'getBlock' && slot >= from && slot <= until_ ? errorOf(code) : undefined;
      };
    const { follower } = await bed.follow();
    await until(async () => (await cursorOf(bed)) === bed.world.slot);
    assert.equal(await cursorOf(bed), bed.world.slot);
    const gaps = await bed.store.read.selectFrom('follow_gaps').selectAll().execute();
    assert.deepEqual(
      gaps.map(({ from_slot, to_slot, reason, status }) => [from_slot, to_slot, reason, status]),
      [[from, until_, 'pruned', 'open']],
    );
    assert.equal(follower.status().openGaps, 1);
    assert.equal(follower.status().stalled, null);
    await (async () => grow(bed.world, 3))();
    await until(async () => (await cursorOf(bed)) === bed.world.slot);
    assert.equal(await cursorOf(bed), bed.world.slot);
  }
});
