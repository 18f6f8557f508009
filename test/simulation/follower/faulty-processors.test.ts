import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { CoreConfig } from '../../../src/config/core.ts';
import type { BlockProcessor } from '../../../src/plugin/plugin.ts';
import { createLedgerProcessor } from '../../helpers/ledger-processor.ts';
import { expectTruth, gapsOf, grow, rigOf } from './case-kit.ts';
import { honest } from './fake-node.ts';
import { FIRST_SLOT } from './world.ts';

const BAD_SLOT = FIRST_SLOT + 15;

/** A ledger that cannot take one block while `faulty.mode` says so. */
function faultyLedger(faulty: { mode: 'throws' | 'hangs' | 'works' }): BlockProcessor {
  const ledger = createLedgerProcessor({ name: 'faulty' });
  return {
    ...ledger,
    async apply(tx, block, chain, how) {
      if (block.slot === BAD_SLOT && faulty.mode === 'throws') throw new TypeError('a secret of the plugin');
      if (block.slot === BAD_SLOT && faulty.mode === 'hangs') await new Promise(() => undefined);
      await ledger.apply(tx, block, chain, how);
    },
  };
}

async function bed(t: TestContext, mode: 'throws' | 'hangs', follow: Partial<CoreConfig['follow']>) {
  const faulty: { mode: 'throws' | 'hangs' | 'works' } = { mode };
  const upstreams = [honest('upstream-0')];
  const made = await rigOf(t, { upstreams, follow: { processorTimeoutSeconds: 5, ...follow } });
  grow(made.rig, 10);
  await made.rig.start({ processors: [createLedgerProcessor(), faultyLedger(faulty)] });
  grow(made.rig, 30);
  await made.rig.clock.advance(20_000);
  return { ...made, faulty, asked: upstreams[0]!.asked };
}

for (const mode of ['throws', 'hangs'] as const) {
  test(`a processor that ${mode}: the chain waits, and says for whom and where`, async (t) => {
    const { rig, faulty, asked } = await bed(t, mode, {});
    assert.equal((await rig.ledger()).lastSlot, BAD_SLOT - 1);
    const { stalled } = rig.follower.status();
    assert.match(stalled ?? '', new RegExp(`processor faulty of plugin faulty fails at slot ${BAD_SLOT}`));
    assert.match(stalled ?? '', mode === 'throws' ? /TypeError, at .*faulty-processors/ : /no end within 5 s/);
    assert.ok(!stalled?.includes('secret'), 'its message goes to the log alone');
    const line = rig.log.lines.find(({ message }) => message === 'a block processor fails');
    assert.equal(line?.fields['plugin'], 'faulty');
    assert.equal(line?.fields['slot'], BAD_SLOT);
    if (mode === 'throws')
      assert.match(String(line?.fields['stack']), /a secret of the plugin[\s\S]*faulty-processors/);
    assert.equal(asked.get(BAD_SLOT), 2, 'once more before it is the fault of the processor');
    assert.match(await rig.metrics(), /follow_processors_failing 1/);
    faulty.mode = 'works';
    await expectTruth(rig);
    await expectTruth(rig, 'faulty@1');
    assert.equal(rig.follower.status().stalled, null);
    assert.match(await rig.metrics(), /follow_processors_failing 0/);
  });

  test(`a processor that ${mode}, skip-plugin: the others go on, and it catches up once it works`, async (t) => {
    const { rig, store, faulty } = await bed(t, mode, { onError: 'skip-plugin' });
    await expectTruth(rig);
    assert.equal((await rig.ledger('faulty@1')).lastSlot, BAD_SLOT - 1);
    assert.equal(rig.follower.status().stalled, null);
    assert.match(rig.follower.status().leftBehind?.join() ?? '', new RegExp(`plugin faulty fails at slot ${BAD_SLOT}`));
    assert.match(await rig.metrics(), /follow_processors_failing 1/);
    await rig.clock.advance(5_000);
    assert.deepEqual(await gapsOf(store, 'faulty'), [
      { from_slot: BAD_SLOT, to_slot: rig.world.slot, reason: 'skipped', status: 'open' },
    ]);
    // A fork below its place, a restart, and more blocks.
    rig.world.fork(3);
    // Above what was there: only there does a branch show itself.
    rig.world.grow(12);
    grow(rig, 8);
    await expectTruth(rig);
    await rig.restart();
    await rig.clock.advance(20_000);
    assert.match(rig.follower.status().leftBehind?.join() ?? '', /plugin faulty fails/);
    faulty.mode = 'works';
    await expectTruth(rig, 'faulty@1');
    grow(rig, 3);
    await expectTruth(rig, 'faulty@1');
    await rig.clock.advance(10_000);
    assert.deepEqual(
      (await gapsOf(store, 'faulty')).map(({ status }) => status),
      ['filled'],
    );
    assert.equal(rig.follower.status().leftBehind, undefined);
    assert.equal(rig.follower.status().openGaps, 0);
  });
}

/** A ledger that cannot take blocks back while `faulty.mode` says so. */
function oneWayLedger(faulty: { mode: 'throws' | 'hangs' | 'works' }): BlockProcessor {
  const ledger = createLedgerProcessor({ name: 'faulty' });
  return {
    ...ledger,
    async revert(tx, header, chain) {
      if (faulty.mode === 'throws') throw new TypeError('a secret of the plugin');
      if (faulty.mode === 'hangs') await new Promise(() => undefined);
      await ledger.revert(tx, header, chain);
    },
  };
}

async function forkedBed(t: TestContext, mode: 'throws' | 'hangs', follow: Partial<CoreConfig['follow']>) {
  const faulty: { mode: 'throws' | 'hangs' | 'works' } = { mode: 'works' };
  const made = await rigOf(t, { follow: { processorTimeoutSeconds: 5, ...follow } });
  const { rig } = made;
  grow(rig, 20);
  await rig.start({ processors: [createLedgerProcessor(), oneWayLedger(faulty)] });
  await expectTruth(rig, 'faulty@1');
  faulty.mode = mode;
  const before = await rig.ledger('faulty@1');
  rig.world.fork(4);
  const ancestor = rig.world.chain.at(-1)!.slot;
  rig.world.grow(6);
  grow(rig, 4);
  return { ...made, faulty, before, ancestor };
}

for (const mode of ['throws', 'hangs'] as const) {
  test(`a processor whose revert ${mode}: the chain waits, and says for whom`, async (t) => {
    const { rig, faulty, before } = await forkedBed(t, mode, {});
    await rig.clock.advance(20_000);
    assert.deepEqual(await rig.ledger(), before);
    assert.match(rig.follower.status().stalled ?? '', /processor faulty of plugin faulty fails at slot \d+ \(revert\)/);
    faulty.mode = 'works';
    await expectTruth(rig);
    await expectTruth(rig, 'faulty@1');
    assert.equal(rig.follower.status().stalled, null);
  });

  test(`a processor whose revert ${mode}, skip-plugin: only its plugin stays behind, and is right again once it works`, async (t) => {
    const { rig, store, faulty, before, ancestor } = await forkedBed(t, mode, { onError: 'skip-plugin' });
    await expectTruth(rig);
    assert.deepEqual(await rig.ledger('faulty@1'), before, 'nothing on top of what it has not reverted');
    const { stalled, leftBehind } = rig.follower.status();
    assert.equal(stalled, null);
    assert.match(leftBehind?.join() ?? '', /^processor faulty of plugin faulty fails at slot \d+ \(revert\)/);
    assert.ok(!leftBehind?.join().includes('secret'));
    const line = rig.log.lines.find(
      ({ message }) => message === 'the chain continues without the processors of a plugin',
    );
    assert.deepEqual([line?.fields['plugin'], line?.fields['call']], ['faulty', 'revert']);
    assert.match(await rig.metrics(), /follow_processors_failing 1/);
    await rig.clock.advance(5_000);
    const gaps = async () => (await gapsOf(store, 'faulty')).map(({ reason, status }) => `${reason} ${status}`);
    assert.deepEqual(await gaps(), ['skipped open']);
    const [gap] = await gapsOf(store, 'faulty');
    assert.ok(gap!.from_slot > ancestor && gap!.to_slot === rig.world.slot, JSON.stringify(gap));
    // A fork below its place, a restart, and more blocks.
    rig.world.fork(6);
    // Above what was there: only there does a branch show itself.
    rig.world.grow(20);
    grow(rig, 6);
    await expectTruth(rig);
    await rig.restart();
    rig.world.fork(2);
    // Above what was there: only there does a branch show itself.
    rig.world.grow(12);
    grow(rig, 5);
    await expectTruth(rig);
    await rig.clock.advance(20_000);
    assert.deepEqual(await rig.ledger('faulty@1'), before);
    assert.match(rig.follower.status().leftBehind?.join() ?? '', /plugin faulty fails/);
    faulty.mode = 'works';
    await expectTruth(rig, 'faulty@1');
    grow(rig, 3);
    await expectTruth(rig, 'faulty@1');
    await rig.clock.advance(10_000);
    assert.deepEqual(await gaps(), ['skipped filled']);
    assert.deepEqual([rig.follower.status().leftBehind, rig.follower.status().openGaps], [undefined, 0]);
    rig.world.fork(3);
    // Above what was there: only there does a branch show itself.
    rig.world.grow(12);
    grow(rig, 6);
    await expectTruth(rig);
    await expectTruth(rig, 'faulty@1');
  });
}

test('missing reverts of a processor come first: after a restart at the ancestor, and with forks below', async (t) => {
  const faulty: { mode: 'throws' | 'works' } = { mode: 'works' };
  const [done, gate] = [[] as string[], { ok: true, reason: 'full' }];
  const inner = oneWayLedger(faulty);
  const noted: BlockProcessor = {
    ...inner,
    async apply(tx, block, chain, how) {
      await inner.apply(tx, block, chain, how);
      done.push(`apply ${block.slot}`);
    },
    async revert(tx, header, chain) {
      await inner.revert(tx, header, chain);
      done.push(`revert ${header.slot}`);
    },
  };
  const { rig } = await rigOf(t, { follow: { onError: 'skip-plugin' } });
  grow(rig, 20);
  await rig.start({ processors: [{ ...createLedgerProcessor(), pressure: () => gate }, noted] });
  await expectTruth(rig, 'faulty@1');
  const before = await rig.ledger('faulty@1');
  const top = rig.world.slot;
  // The chain is rolled back, and nothing is released above the ancestor.
  [faulty.mode, gate.ok] = ['throws', false];
  rig.world.fork(4);
  const ancestor = rig.world.chain.at(-1)!.slot;
  rig.world.grow(6);
  await rig.clock.advance(5_000);
  assert.equal(rig.follower.status().cursorSlot, ancestor);
  await rig.restart();
  await rig.clock.advance(5_000);
  gate.ok = true;
  await expectTruth(rig);
  assert.deepEqual(await rig.ledger('faulty@1'), before);
  // Its lane rests after failures: the fork comes first.
  await rig.clock.advance(60_000);
  done.length = 0;
  faulty.mode = 'works';
  rig.world.fork(4);
  rig.world.grow(20);
  await expectTruth(rig);
  await expectTruth(rig, 'faulty@1');
  const firsts = done.slice(
    0,
    done.findIndex((one) => one.startsWith('apply')),
  );
  assert.equal(firsts[0], `revert ${top}`);
  assert.deepEqual(firsts, firsts.toSorted().reverse(), 'newest first');
});

test('a block that a processor cannot take because the answer is wrong is fetched again, elsewhere first', async (t) => {
  const upstreams = [honest('upstream-0'), honest('upstream-1')];
  const { rig } = await rigOf(t, { upstreams });
  const ledger = createLedgerProcessor();
  const from: string[] = [];
  const picky: BlockProcessor = {
    ...ledger,
    async apply(tx, block, chain, how) {
      from.push(`${block.slot}`);
      // As if its first answer had been one that only the processor finds wrong.
      if (block.slot === BAD_SLOT && from.filter((slot) => slot === `${BAD_SLOT}`).length === 1) throw new Error('no');
      await ledger.apply(tx, block, chain, how);
    },
  };
  grow(rig, 30);
  await rig.start({ processors: [picky] });
  await expectTruth(rig);
  assert.deepEqual(
    upstreams.map(({ asked }) => asked.get(BAD_SLOT)),
    [1, 1],
  );
  assert.equal(rig.log.lines.filter(({ message }) => message === 'a block processor fails').length, 0);
});

test('single answers that a listed block is gone make no gap', async (t) => {
  const upstreams = [honest('upstream-0')];
  const { rig, store } = await rigOf(t, { upstreams });
  upstreams[0]!.wrongPruneRate = 0.3;
  grow(rig, 80);
  await rig.start();
  await expectTruth(rig);
  assert.deepEqual(await gapsOf(store), []);
});
