import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readGap } from '../../../src/chain/gap-records.ts';
import { createLedgerMeter, type Ledger, openLedger } from '../../../src/ledger/index.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { BlockProcessor } from '../../../src/plugin/plugin.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { createLedgerProcessor, readLedger } from '../../helpers/ledger-processor.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createOrderFreeLedger } from '../../helpers/order-free-ledger.ts';
import { byCase } from '../../helpers/run-part.ts';
import { blockText, FIRST_SLOT } from '../../simulation/follower/world.ts';
import { type Bed, createBed, errorOf, grow, settles, truthOf, until } from './harness.ts';

function setUp(t: TestContext) {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-ledger-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const open = (at = dir) =>
    openLedger({
      dir: at,
      chain: 'main',
      retainHours: 24,
      retainBytes: 1e9,
      clock: createManualClock(),
      log: createMemoryLog(),
      meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
    });
  return { dir, open };
}

/** The ledger has the blocks of the chain from the first to the newest released one, and no others. */
async function assertTruth(ledger: Ledger, { world }: Bed, fromSlot = FIRST_SLOT): Promise<void> {
  const blocks = world.chain.filter(({ slot }) => slot >= fromSlot);
  for (let slot = fromSlot; slot <= world.highestSlot; slot++) {
    const block = blocks.find((one) => one.slot === slot);
    const read = await ledger.block(slot);
    assert.equal(read?.blockhash, block?.blockhash, `slot ${slot}`);
    assert.equal(
      ledger.state(slot),
      block !== undefined ? 'block' : slot < blocks.at(-1)!.slot ? 'skipped' : 'unknown',
      `slot ${slot}`,
    );
    if (block === undefined) continue;
    assert.deepEqual(read!.transactions.map(({ signature }) => signature).toSorted(), [...block.signatures].toSorted());
    assert.deepEqual(JSON.parse(read!.answer!.text().toString()), JSON.parse(blockText(block)));
  }
}

byCase([31, 5, 1], (depths) => {
  for (const depth of depths)
    test(`the ledger follows a fork of ${depth} blocks, and a restart`, async (t) => {
      const { open } = setUp(t);
      const bed = await createBed(t, { finalityDepth: 32, openLedger: () => open() });
      grow(bed.world, depth + 8);
      const running = await bed.follow();
      await settles(bed);
      bed.world.fork(depth);
      grow(bed.world, depth + 3);
      await settles(bed);
      await running.stop();
      await assertTruth(await open(), bed);
      bed.world.fork(2);
      grow(bed.world, 5);
      const again = await bed.follow();
      await settles(bed);
      await again.stop();
      await assertTruth(await open(), bed);
    });
});

test('a block is in the ledger before its rows are in the store; one that was not committed is replaced', async (t) => {
  const { open, dir } = setUp(t);
  const bed = await createBed(t, { finalityDepth: 40 });
  grow(bed.world, 10);
  const normal = createLedgerProcessor();
  let failAt = Number.POSITIVE_INFINITY;
  const failing: BlockProcessor = {
    ...normal,
    async apply(tx, block, ...rest) {
      const seen = await open();
      assert.equal((await seen.header(block.slot))?.blockhash, block.blockhash);
      if (block.slot >= failAt) throw new CodedError('TEST_REFUSED', 'not this one');
      await normal.apply(tx, block, ...rest);
    },
  };
  const running = await bed.follow({ openLedger: () => open(), processors: [failing] });
  await settles(bed);
  const top = bed.world.chain.at(-1)!.slot;
  failAt = top + 1;
  bed.world.grow(0, 2);
  await until(async () => (await open()).newest() > top);
  await until(() => running.follower.status().stalled !== null);
  const ahead = await open();
  assert.ok(ahead.newest() > top);
  assert.equal((await readLedger(bed.store)).lastSlot, top);
  // As kill -9 leaves it: a copy is continued, with a chain that replaced the block.
  const copy = mkdtempSync(join(tmpdir(), 'parhelion-ledger-'));
  t.after(() => rmSync(copy, { recursive: true, force: true }));
  cpSync(dir, copy, { recursive: true });
  await running.stop();
  bed.world.fork(1);
  grow(bed.world, 4);
  const again = await bed.follow({ openLedger: () => open(copy) });
  await settles(bed);
  await again.stop();
  await assertTruth(await open(copy), bed);
});

test('a new processor reads final blocks from the ledger and asks upstreams for no block twice', async (t) => {
  const { open } = setUp(t);
  const bed = await createBed(t, { finalityDepth: 3, openLedger: () => open() });
  grow(bed.world, 40);
  const asked = new Map<number, number>();
  const [node] = bed.nodes;
  node!.interrupt = ({ method, params }) => {
    const [slot, details] = params as [number, Readonly<Record<string, unknown>>];
    if (method === 'getBlock' && details['transactionDetails'] === 'full') asked.set(slot, (asked.get(slot) ?? 0) + 1);
    return undefined;
  };
  const first = await bed.follow();
  await settles(bed);
  const finalSlot = bed.world.finalizedSlot;
  await until(() => first.follower.status().finalizedSlot === finalSlot);
  await first.stop();
  const late = createLedgerProcessor({ name: 'late', startSlot: FIRST_SLOT });
  const second = await bed.follow({ processors: [createLedgerProcessor(), late] });
  const expected = JSON.stringify(truthOf(bed.world));
  await until(async () => JSON.stringify(await readLedger(bed.store, 'late@1')) === expected);
  assert.equal(JSON.stringify(await readLedger(bed.store, 'late@1')), expected);
  for (const [slot, times] of asked) if (slot <= finalSlot) assert.equal(times, 1, `slot ${slot}`);
  assert.match(await second.metrics(), /parhelion_follow_blocks_from_ledger_total [1-9]/);
});

test('damaged blocks are asked of an upstream', async (t) => {
  const { open, dir } = setUp(t);
  const bed = await createBed(t, { finalityDepth: 3, openLedger: () => open() });
  grow(bed.world, 30);
  const first = await bed.follow();
  await settles(bed);
  await until(() => first.follower.status().finalizedSlot === bed.world.finalizedSlot);
  await first.stop();
  for (const name of readdirSync(dir)) {
    const bytes = readFileSync(join(dir, name));
    for (let at = 300; at < bytes.length - 2_000; at += 701) bytes[at] = bytes[at]! ^ 4;
    writeFileSync(join(dir, name), bytes);
  }
  const late = createLedgerProcessor({ name: 'late', startSlot: FIRST_SLOT });
  await bed.follow({ processors: [createLedgerProcessor(), late] });
  const expected = JSON.stringify(truthOf(bed.world));
  await until(async () => JSON.stringify(await readLedger(bed.store, 'late@1')) === expected);
  assert.equal(JSON.stringify(await readLedger(bed.store, 'late@1')), expected);
});

test('a gap is unknown until it is filled, and then part of the ledger', async (t) => {
  const { open } = setUp(t);
  const bed = await createBed(t, { finalityDepth: 3, openLedger: () => open(), processors: [createOrderFreeLedger()] });
  grow(bed.world, 10);
  const first = await bed.follow();
  await settles(bed);
  await first.stop();
  const [node] = bed.nodes;
  const below = bed.world.chain.at(-1)!.slot;
  grow(bed.world, 20);
  node!.view.prunedBelow = below + 10;
  grow(bed.world, 10);
  const second = await bed.follow();
  await until(() => second.follower.status().cursorSlot === bed.world.chain.at(-1)!.slot);
  const held = await open();
  assert.equal(held.state(below + 5), 'unknown');
  assert.notEqual(await readGap(bed.store.read, 1), null);
  await second.stop();
  node!.view.prunedBelow = 0;
  const third = await bed.follow();
  await until(() => third.follower.status().openGaps === 0);
  await settles(bed);
  await third.stop();
  await assertTruth(await open(), bed);
});

test('a ledger that nothing confirms is not used', async (t) => {
  const { open } = setUp(t);
  const other = await createBed(t, { finalityDepth: 3, openLedger: () => open() });
  grow(other.world, 30);
  const first = await other.follow();
  await settles(other);
  await until(() => first.follower.status().finalizedSlot === other.world.finalizedSlot);
  await first.stop();
  const bed = await createBed(t, { finalityDepth: 3, openLedger: () => open() });
  for (let made = 0; made < 12; made += 1) bed.world.grow(1, 2);
  // Its nodes do not give the header: that proves nothing either.
  const [node] = bed.nodes;
  const ours = await open();
  const finalSlot = ours.finalSlot;
  node!.interrupt = ({ method, params }) =>
    method === 'getBlock' && (params as [number])[0] === finalSlot ? errorOf(-32007) : undefined;
  const second = await bed.follow();
  await until(() => second.log.lines.some(({ message }) => message.startsWith('no upstream confirms')));
  assert.ok(second.log.lines.some(({ message }) => message.startsWith('no upstream confirms')));
  node!.interrupt = null;
  await settles(bed);
  await second.stop();
  await assertTruth(await open(), bed);
});
