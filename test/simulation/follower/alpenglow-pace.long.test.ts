/** A chain of 200 ms slots whose roots come in groups, with nodes that are late, and with two blocks for one slot. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BlockProcessor } from '../../../src/plugin/plugin.ts';
import { createLedgerProcessor } from '../../helpers/ledger-processor.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { expectTruth, gapsOf, grow, rigOf } from './case-kit.ts';
import { honest } from './fake-node.ts';
import type { WorldBlock } from './world.ts';

const SLOT_MS = 200;
/** Of simulated time; an hour is 18,000 slots. */
const MINUTES = Number(process.env['PARHELION_PACE_MINUTES'] ?? 6);
const MAX_GROUP = 8;
const VALIDATORS = 2_000;
const MAX_LAG_MS = 1_000;

/** Counts how often each block is applied, and the rewards in it. */
function createCounter() {
  const applied = new Map<number, number>();
  const debits = new Map<number, number>();
  let reverted = 0;
  const processor: BlockProcessor = {
    name: 'counter',
    version: 1,
    chains: ['main'],
    async apply(_tx, block) {
      applied.set(block.slot, (applied.get(block.slot) ?? 0) + 1);
      const { rewards = [] } = JSON.parse(block.answer?.text().toString() ?? '{}') as {
        readonly rewards?: readonly { readonly rewardType: string; readonly lamports: number }[];
      };
      const paid = rewards.filter(({ rewardType, lamports }) => rewardType === 'VATDebit' && lamports === -800_000_000);
      if (paid.length > 0) debits.set(block.slot, paid.length);
    },
    async revert() {
      reverted += 1;
    },
  };
  return { processor, applied, debits, reverted: () => reverted };
}

const debitsText = JSON.stringify(
  Array.from({ length: VALIDATORS }, () => ({
    pubkey: '11111111111111111111111111111111',
    lamports: -800_000_000,
    postBalance: 1,
    rewardType: 'VATDebit',
    commission: null,
  })),
);

test(`${MINUTES} minutes of five slots a second: a root is followed within a second, the boundary of an epoch once`, async (t) => {
  const draw = createSfc32(99);
  const counter = createCounter();
  const { rig, store } = await rigOf(t, { slotMs: SLOT_MS, processors: [createLedgerProcessor(), counter.processor] });
  rig.world.migrate();
  grow(rig, 5);
  await rig.start();
  await expectTruth(rig);
  const slots = (MINUTES * 60_000) / SLOT_MS;
  const boundary = rig.world.slot + Math.floor(slots / 2);
  let boundarySlot: number | null = null;
  const late: string[] = [];
  for (const end = rig.world.slot + slots; rig.world.slot < end; ) {
    const before = rig.world.slot;
    for (let made = 1 + draw.below(MAX_GROUP); made > 0; made -= 1) {
      const isBoundary = boundarySlot === null && rig.world.slot >= boundary;
      rig.world.grow(draw.float() < 0.2 ? 1 : 0, draw.below(3), isBoundary ? debitsText : undefined);
      if (isBoundary) boundarySlot = rig.world.slot;
    }
    const tookMs = (rig.world.slot - before) * SLOT_MS;
    await rig.clock.advance(Math.min(tookMs, MAX_LAG_MS));
    if (rig.follower.status().cursorSlot !== rig.world.slot && tookMs >= MAX_LAG_MS)
      late.push(`slot ${rig.world.slot}: the cursor is at ${rig.follower.status().cursorSlot}`);
    await rig.clock.advance(Math.max(0, tookMs - MAX_LAG_MS));
  }
  await expectTruth(rig);
  assert.deepEqual(late, []);
  assert.deepEqual(
    [...counter.applied.values()].filter((times) => times !== 1),
    [],
  );
  assert.deepEqual([...counter.debits], [[boundarySlot, VALIDATORS]]);
  assert.deepEqual([counter.reverted(), await gapsOf(store)], [0, []]);
});

test('a block that a node names before it can serve it is there 300 ms later, and nothing is skipped', async (t) => {
  const upstream = honest('upstream-0');
  const { rig, store } = await rigOf(t, { slotMs: SLOT_MS, upstreams: [upstream] });
  rig.world.migrate();
  grow(rig, 3);
  await rig.start();
  await expectTruth(rig);
  const late: number[] = [];
  for (let block = 0; block < 200; block += 1) {
    rig.world.grow(block % 7 === 0 ? 1 : 0);
    upstream.notYetRate = 1;
    await rig.clock.advance(150);
    upstream.notYetRate = 0;
    await rig.clock.advance(300);
    if (rig.follower.status().cursorSlot !== rig.world.slot) late.push(rig.world.slot);
  }
  await expectTruth(rig);
  assert.deepEqual([late, await gapsOf(store), rig.follower.status().stalled], [[], [], null]);
  assert.deepEqual(
    rig.upstreamStates().map(({ healthy }) => healthy),
    [true],
  );
});

for (const [what, lie] of [
  ['another block of the same slot', ({ forgedHash }: WorldBlock) => ({ blockhash: forgedHash })],
  [
    'a block that has the hash of its parent',
    ({ previousBlockhash }: WorldBlock) => ({ blockhash: previousBlockhash }),
  ],
] as const)
  test(`final, and one of two nodes serves ${what}: the other is believed once a child decides`, async (t) => {
    const upstreams = [honest('upstream-0'), honest('upstream-1')];
    const { rig } = await rigOf(t, { slotMs: SLOT_MS, upstreams });
    rig.world.migrate();
    grow(rig, 5);
    await rig.start();
    await expectTruth(rig);
    for (let round = 0; round < 12; round += 1) {
      upstreams[round % 2]!.lies = lie;
      rig.world.grow(0, 2);
      await rig.clock.advance(SLOT_MS);
      rig.world.grow(round % 3, 1);
      await rig.clock.advance(SLOT_MS);
      upstreams[round % 2]!.lies = null;
      grow(rig, 2);
      await rig.clock.advance(5_000);
    }
    await expectTruth(rig);
    assert.equal(rig.follower.status().stalled, null);
    // Both were caught at it.
    const contradictions = (await rig.metrics()).match(/^parhelion_upstream_contradictions_total\{.*\} [1-9]\d*$/gm);
    assert.equal(contradictions?.length, 2);
  });
