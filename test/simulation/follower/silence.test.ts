import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BlockProcessor } from '../../../src/plugin/plugin.ts';
import { createLedgerProcessor } from '../../helpers/ledger-processor.ts';
import { expectTruth, grow, rigOf } from './case-kit.ts';
import { honest } from './fake-node.ts';
import { FIRST_SLOT } from './world.ts';

const LIMIT_SECONDS = 60;
/** A stall is reported at most this long after its limit. */
const LATEST_SECONDS = 5;

type Rig = Awaited<ReturnType<typeof rigOf>>['rig'];

const metric = async (rig: Rig, name: string): Promise<number> =>
  Number(new RegExp(`^parhelion_follow_${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(await rig.metrics())?.[1]);

const events = (rig: Rig, event: string) => rig.log.lines.filter(({ fields }) => fields['event'] === event);

test('a chain that makes no block while its node answers is stalled and lags, and both end with the next block', async (t) => {
  const { rig } = await rigOf(t, { upstreams: [honest('upstream-0')] });
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  await rig.clock.advance((LIMIT_SECONDS - 20) * 1_000);
  assert.equal(rig.follower.status().stalled, null);
  assert.ok((await metric(rig, 'lag_seconds')) > 20, 'time without a block is lag');
  assert.ok((rig.follower.status().lagSlots ?? 0) > 0);
  await rig.clock.advance((20 + LATEST_SECONDS) * 1_000);
  assert.match(rig.follower.status().stalled ?? '', /^the chain has made no block for 6\d s$/);
  assert.equal(events(rig, 'chain.stalled').length, 1);
  grow(rig, 1);
  await expectTruth(rig);
  await rig.clock.advance(2_000);
  assert.equal(rig.follower.status().stalled, null);
  assert.equal(rig.follower.status().lagSlots, 0);
  assert.equal(events(rig, 'chain.resumed').length, 1);
});

test('a chain that makes blocks only for transactions is not stalled without them', async (t) => {
  const { rig } = await rigOf(t, { upstreams: [honest('upstream-0')], isOnDemand: true });
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  await rig.clock.advance(10 * LIMIT_SECONDS * 1_000);
  assert.equal(rig.follower.status().stalled, null);
  assert.equal(rig.follower.status().lagSlots, 0);
});

test('a node that hangs at a slot is not the truth while another one makes slots', async (t) => {
  const upstreams = [honest('upstream-0'), honest('upstream-1')];
  const { rig } = await rigOf(t, { upstreams });
  grow(rig, 10);
  await rig.start();
  await expectTruth(rig);
  upstreams[0]!.frozen = { chain: [...rig.world.chain], finalizedSlot: rig.world.finalizedSlot };
  for (let second = 0; second < 90; second += 1) {
    grow(rig, 1);
    await rig.clock.advance(1_000);
    assert.equal(rig.follower.status().stalled, null);
  }
  await expectTruth(rig);
  assert.equal(events(rig, 'chain.stalled').length, 0);
});

test('the age of the final slot is that of the last answer about it, however old the slot is', async (t) => {
  const upstream = honest('upstream-0');
  const { rig } = await rigOf(t, { upstreams: [upstream] });
  grow(rig, 40);
  await rig.start();
  await expectTruth(rig);
  /** Two audits, and what their calls take. */
  const fresh = 3_000;
  const age = () => rig.follower.status().finalizedAgeMs ?? Number.NaN;
  await rig.clock.advance(LIMIT_SECONDS * 1_000);
  assert.ok(age() < fresh, `nothing newer is final, and that is known: ${age()} ms`);
  upstream.isDown = true;
  const before = age();
  await rig.clock.advance(LIMIT_SECONDS * 1_000);
  assert.ok(age() >= before + (LIMIT_SECONDS - 2) * 1_000, `nobody answers: ${age()} ms`);
  assert.equal(rig.follower.status().finalizedSlot, rig.world.finalizedSlot);
  await rig.restart();
  assert.equal(rig.follower.status().finalizedAgeMs, null);
  upstream.isDown = false;
  await expectTruth(rig);
  await rig.clock.advance(2_000);
  assert.ok(age() < fresh);
  // An upstream that has forgotten what is final proves nothing.
  const old = rig.world.chain.slice(0, 5);
  upstream.frozen = { chain: old, finalizedSlot: old.at(-1)!.slot };
  await rig.clock.advance(LIMIT_SECONDS * 1_000);
  assert.ok(age() >= (LIMIT_SECONDS - 2) * 1_000, `the upstream is behind: ${age()} ms`);
});

test('a chain whose first block cannot be had lags and is stalled', async (t) => {
  const upstream = honest('upstream-0');
  const { rig } = await rigOf(t, { upstreams: [upstream] });
  grow(rig, 40);
  for (const { slot } of rig.world.chain) upstream.lost.add(slot);
  await rig.start();
  await rig.clock.advance((LIMIT_SECONDS + LATEST_SECONDS) * 1_000);
  assert.equal(rig.follower.status().cursorSlot, null);
  assert.ok((await metric(rig, 'lag_slots')) >= 40);
  assert.ok((await metric(rig, 'lag_seconds')) >= LIMIT_SECONDS);
  assert.equal(events(rig, 'chain.stalled').length, 1);
  upstream.lost.clear();
  await expectTruth(rig);
  assert.equal(rig.follower.status().stalled, null);
});

test('a processor that does not return is named before its own deadline', async (t) => {
  const badSlot = FIRST_SLOT + 15;
  const ledger = createLedgerProcessor({ name: 'slow' });
  let release = (): void => undefined;
  const slow: BlockProcessor = {
    ...ledger,
    async apply(tx, block, chain, how) {
      if (block.slot === badSlot) await new Promise<void>((resolve) => (release = resolve));
      await ledger.apply(tx, block, chain, how);
    },
  };
  const { rig } = await rigOf(t, { upstreams: [honest('upstream-0')], follow: { processorTimeoutSeconds: 3_600 } });
  grow(rig, 10);
  await rig.start({ processors: [slow] });
  grow(rig, 30);
  await rig.clock.advance((LIMIT_SECONDS + LATEST_SECONDS) * 1_000);
  assert.match(
    rig.follower.status().stalled ?? '',
    new RegExp(`^processor slow has not returned for 6\\d s, at slot ${badSlot}$`),
  );
  assert.equal(events(rig, 'chain.stalled').length, 1);
  release();
  await rig.clock.advance(1_000);
  assert.equal(rig.follower.status().stalled, null);
});
