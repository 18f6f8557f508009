/** One block is asked of an upstream once, however many read it: processors that are behind, gaps, replays and backfills. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createGapRecords } from '../../../src/chain/gaps.ts';
import { createLedgerMeter, openLedger } from '../../../src/ledger/index.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { createLedgerProcessor, readLedger } from '../../helpers/ledger-processor.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { createOrderFreeLedger } from '../../helpers/order-free-ledger.ts';
import { eachStore } from '../../helpers/store.ts';
import { FIRST_SLOT } from '../../simulation/follower/world.ts';
import { type Bed, createBed, grow, truthOf, until } from './harness.ts';

/** Calls for whole blocks, by slot. */
function countBlocks({ nodes }: Bed): Map<number, number> {
  const asked = new Map<number, number>();
  for (const node of nodes)
    node.interrupt = ({ method, params }) => {
      const [slot, details] = params as [number, Readonly<Record<string, unknown>>];
      if (method === 'getBlock' && details['transactionDetails'] === 'full')
        asked.set(slot, (asked.get(slot) ?? 0) + 1);
      return undefined;
    };
  return asked;
}

const askedTwice = (asked: ReadonlyMap<number, number>) => [...asked].filter(([, times]) => times > 1);

async function hasAll({ world, store }: Bed, name: string, fromSlot?: number): Promise<void> {
  const expected = JSON.stringify(truthOf(world, fromSlot));
  await until(async () => JSON.stringify(await readLedger(store, name)) === expected);
  assert.ok(JSON.stringify(await readLedger(store, name)) === expected, `${name} has all blocks`);
}

function ledgerOf(t: TestContext) {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-once-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return () =>
    openLedger({
      dir,
      chain: 'main',
      retainHours: 24,
      retainBytes: 1e9,
      clock: createManualClock(),
      log: createMemoryLog(),
      meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
    });
}

/** A call that is given up on a busy machine would be repeated. */
const PATIENT = { requestTimeoutMs: 600_000 };
const STARTS = [0, 0, 7, 19, 33].map((behind) => FIRST_SLOT + behind);
const lateOnes = () => STARTS.map((startSlot, at) => createLedgerProcessor({ name: `late${at}`, startSlot }));

eachStore('one call for a block', (engine) => {
  for (const startsAtTip of [false, true])
    test(`processors that begin at different slots, ${startsAtTip ? 'below a chain that begins at the tip' : 'while the chain is behind'}`, async (t) => {
      const bed = await createBed(t, { store: await engine.store(t) });
      grow(bed.world, 40);
      if (!startsAtTip) {
        const first = await bed.follow();
        await hasAll(bed, 'ledger@1');
        await first.stop();
        grow(bed.world, 40);
      }
      const asked = countBlocks(bed);
      await bed.follow({
        processors: [createLedgerProcessor(), ...lateOnes()],
        follow: { ...PATIENT, ...(startsAtTip ? { startSlot: 'latest' } : {}) },
      });
      for (const [at, fromSlot] of STARTS.entries()) await hasAll(bed, `late${at}@1`, fromSlot);
      assert.deepEqual(askedTwice(asked), []);
      assert.ok(asked.size >= bed.world.chain.length - 1);
    });

  test('with a ledger nobody asks again: processors that catch up, a filled gap, and what is read again', async (t) => {
    const open = ledgerOf(t);
    const store = await engine.store(t);
    const bed = await createBed(t, { store, finalityDepth: 5, openLedger: open, follow: PATIENT });
    const [node] = bed.nodes;
    const asked = countBlocks(bed);
    const free = () => createOrderFreeLedger();
    grow(bed.world, 20);
    const first = await bed.follow({ processors: [free()] });
    await hasAll(bed, 'ledger@1');
    await first.stop();
    // A gap: what the node has pruned is filled when it is there again.
    const below = bed.world.chain.at(-1)!.slot;
    grow(bed.world, 12);
    node!.view.prunedBelow = below + 8;
    const second = await bed.follow({ processors: [free()] });
    await until(() => second.follower.status().cursorSlot === bed.world.chain.at(-1)!.slot);
    await second.stop();
    node!.view.prunedBelow = 0;
    grow(bed.world, 12);
    const filling = await bed.follow({ processors: [free()] });
    await hasAll(bed, 'ledger@1');
    await filling.stop();
    grow(bed.world, 12);
    // Processors that begin below the gap and within it; the newest blocks are not final.
    const third = await bed.follow({ processors: [free(), ...lateOnes()] });
    await hasAll(bed, 'ledger@1');
    for (const [at, fromSlot] of STARTS.entries()) await hasAll(bed, `late${at}@1`, fromSlot);
    // Replays of webhooks and backfills of plugins are ranges that somebody asks for.
    const { finalizedSlot } = bed.world;
    await until(() => third.follower.status().finalizedSlot === finalizedSlot);
    const before = new Map(asked);
    // Not even where it has them no more.
    node!.view.prunedBelow = finalizedSlot;
    const book = createGapRecords(store, { now: () => Date.now() });
    const range = { chain: 'main', fromSlot: FIRST_SLOT + 3, addresses: null } as const;
    for (const toSlot of [finalizedSlot - 8, finalizedSlot - 4])
      await store.write((tx) => book.request(tx, { ...range, toSlot, processor: { name: 'ledger', version: 1 } }));
    await until(async () => (await book.list({ isOpen: true })).length === 0);
    assert.deepEqual(
      (await book.list({})).map(({ status }) => status),
      ['filled', 'filled', 'filled'],
    );
    assert.deepEqual(asked, before, 'a range that is read again costs no call');
    const pruned = new Set(askedTwice(asked).map(([slot]) => slot));
    // What the node did not have was asked for before it was given up.
    for (const slot of pruned) assert.ok(slot > below && slot <= below + 8, `slot ${slot}`);
  });
});
