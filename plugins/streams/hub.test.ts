import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createBudgets } from '../../src/budgets.ts';
import { createLedgerMeter, createLedgerReader, openLedger } from '../../src/ledger/index.ts';
import type { ChainBlock } from '../../src/ports/block.ts';
import type { LedgerReader } from '../../src/ports/ledger.ts';
import { createMetricsRegistry } from '../../src/runtime/metrics.ts';
import { decodeBlock } from '../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../src/solana/decode/scan-block.ts';
import { syntheticBlock } from '../../test/bench/samples/synthetic-block.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { until } from '../../test/helpers/until.ts';
import { compileFilters } from './filters.ts';
import { GrpcError } from './grpc-server.ts';
import { type Batch, type Board, createHub, type Feed, type Reader } from './hub.ts';
import { createUpdateFeed } from './reader.ts';
import { SLOT_STATUS } from './wire/updates.ts';

const TOP = 10_000;

/** A block without transactions. */
const blockOf = (slot: number) =>
  ({
    slot,
    parentSlot: slot - 1,
    transactions: [],
    keys: { size: 0, words: new Uint32Array(0) },
  }) as unknown as ChainBlock;

function createBed(
  budgets = createBudgets(),
  ledger = { finalSlot: TOP, newest: TOP, branch: '' },
  blocks: (() => LedgerReader) | null = null,
) {
  const read: number[] = [];
  const kept = {
    get finalSlot() {
      return ledger.finalSlot;
    },
    newest: () => ledger.newest,
    firstOfRun: () => 0,
    state: (slot: number) => (slot <= ledger.newest ? ('block' as const) : ('unknown' as const)),
    async block(slot: number) {
      await turn();
      if (slot > ledger.newest) return null;
      read.push(slot);
      return { ...blockOf(slot), blockhash: ledger.branch };
    },
  };
  const metrics = createMetricsRegistry();
  const hub = createHub({
    ...{ metrics: metrics.scope('streams'), log: createMemoryLog() },
    ...{ blocks: blocks ?? (() => kept as unknown as LedgerReader), limits: { maxPendingBytes: 1_000_000 } },
  });
  const empty = new Map<string, never>();
  const filters = compileFilters(
    {
      ...{ accounts: new Set<string>(), blocksMeta: new Set<string>(), entries: new Set<string>() },
      ...{ slots: empty, transactions: empty, transactionsStatus: empty, blocks: empty },
      ...{ commitment: 1, ping: null, fromSlot: null },
    },
    { limits: { maxFilters: 1, maxAddresses: 1, maxCuckooBytes: 1, allowFullStream: true }, seed: new Uint32Array(4) },
  );
  const feed = createUpdateFeed(filters, 'identity', createManualClock());
  const readerOf = (project: string, more: Partial<Reader>): Reader => ({
    tenant: budgets.tenantOf({ projectId: project, keyId: project, plan: 'p', wallet: null }, ''),
    send: () => undefined,
    ready: () => Promise.resolve(),
    payForBlock: () => Promise.resolve(),
    lagged: () => undefined,
    refused: () => undefined,
    ...more,
  });
  function replay(project: string, from: number, more: Partial<Reader> = {}) {
    let ended: GrpcError | null = null;
    const refused = (error: GrpcError) => {
      ended = error;
    };
    const reader = readerOf(project, { refused, ...more });
    const leave = hub.join({ key: null, feed, from }, reader);
    return { leave, ended: () => ended };
  }
  return { hub, metrics, read, replay, reader: (send: Reader['send']) => readerOf('one', { send }) };
}

test('replays read in turns over the projects, however many one of them has', async () => {
  const { read, replay } = createBed();
  const attacks = Array.from({ length: 30 }, (_, i) => replay('attacker', i * 100));
  while (read.length < 10) await turn();
  const before = read.length;
  const victim = replay('victim', 5_000);
  while (read.filter((slot) => slot >= 5_000).length < 10) await turn();
  const theirs = read.slice(before).filter((slot) => slot < 5_000).length;
  for (const { leave } of [...attacks, victim]) leave('at-once');
  // In the order of arrival it would be three hundred.
  assert.ok(theirs <= 25, `${theirs} blocks of the attacker beside 10 of the victim`);
});

test('a thousand equal replays read each block once', async () => {
  const newest = 40;
  const { read, replay } = createBed(createBudgets(), { finalSlot: newest, newest, branch: 'a' });
  const paid = Array.from({ length: 1_000 }, () => 0);
  const replays = paid.map((_, at) =>
    replay(`project ${at % 20}`, 1, {
      // Some come later than others by a turn, as sockets do.
      ready: () => (at % 3 === 0 ? turn() : Promise.resolve()),
      async payForBlock() {
        paid[at]! += 1;
      },
    }),
  );
  for (let turns = 0; paid.some((count) => count < newest); turns += 1) {
    assert.ok(turns < 10_000, 'all replays reach the newest block');
    await turn();
  }
  assert.deepEqual(
    read,
    Array.from({ length: newest }, (_, at) => at + 1),
  );
  for (const { leave } of replays) leave('at-once');
});

test('a block that is read costs something, whatever the filters take of it', async () => {
  const { read, replay } = createBed();
  let credits = 5;
  const { ended } = replay('poor', 100, {
    async payForBlock() {
      if (credits === 0) throw new GrpcError('resourceExhausted', 'max usage reached');
      credits -= 1;
    },
  });
  while (ended() === null) await turn();
  assert.deepEqual(read, [100, 101, 102, 103, 104]);
  assert.equal((ended() as GrpcError | null)?.status, 'resourceExhausted');
});

test('the new branch after a fork reaches readers that came after the blocks that were dropped', () => {
  for (const level of ['confirmed', 'finalized'] as const) {
    const { hub, reader } = createBed();
    const feed = (name: string): Feed => ({
      level,
      content: ({ slot, blockhash }) => [batchOf(`${name}${slot}${blockhash}`)],
      slot: () => [],
    });
    const got: string[] = [];
    const join = (name: string) =>
      hub.join(
        { key: null, feed: feed(name), from: null },
        reader(({ bytes }) => void got.push(String(bytes))),
      );
    const release = (from: number, to: number, branch: string) => {
      for (let slot = from; slot <= to; slot++) hub.released({ ...blockOf(slot), blockhash: branch });
    };
    const early = join('a');
    release(1, 5, 'x');
    // Other filters of the same subscription, and a reader that is new.
    early('after-released');
    join('b');
    hub.reverted([3, 4, 5].map((slot) => ({ ...blockOf(slot), blockhash: 'x' })));
    release(3, 7, 'y');
    hub.finalized(7);
    const before = level === 'confirmed' ? ['a1x', 'a2x', 'a3x', 'a4x', 'a5x'] : ['a1x', 'a2x'];
    assert.deepEqual(got, [...before, 'b3y', 'b4y', 'b5y', 'b6y', 'b7y'], level);
  }
});

test('a fork that is cut off the ledger before the hub is told holds replays up, and ends none', async () => {
  for (const level of ['confirmed', 'finalized'] as const)
    for (const atCut of [2, 6, 9]) {
      const ledger = { finalSlot: 3, newest: 10, branch: 'x' };
      const { hub, reader } = createBed(undefined, ledger);
      const got: string[] = [];
      const ended: string[] = [];
      const feed: Feed = {
        level,
        content: ({ slot, blockhash }) => [batchOf(`${slot}${blockhash}`)],
        slot: ({ slot }, status) => (status === SLOT_STATUS.dead ? [batchOf(`-${slot}`)] : []),
      };
      for (let slot = 1; slot <= 10; slot++) hub.released({ ...blockOf(slot), blockhash: 'x' });
      hub.finalized(3);
      let room = atCut;
      const one: Reader = {
        ...reader(({ bytes }) => void got.push(String(bytes))),
        refused: ({ message }) => void ended.push(message),
        async ready() {
          while (room <= 0) await turn();
          room -= 1;
        },
      };
      hub.join({ key: null, feed, from: 1 }, one);
      while (room > 0) await turn();
      // What is in flight is finished before the cut, or after it.
      if (atCut !== 6) for (let count = 0; count < 5; count++) await turn();
      ledger.newest = 5;
      room = 1_000;
      for (let count = 0; count < 40; count++) await turn();
      hub.reverted([10, 9, 8, 7, 6].map((slot) => ({ ...blockOf(slot), blockhash: 'x' })));
      ledger.branch = 'y';
      for (let slot = 6; slot <= 12; slot++) {
        ledger.newest = slot;
        hub.released({ ...blockOf(slot), blockhash: 'y' });
      }
      for (let count = 0; count < 40; count++) await turn();
      hub.finalized(12);
      const chain = got.filter((text) => !text.startsWith('-'));
      const standing = chain.filter((text) => !(text.endsWith('x') && Number.parseInt(text, 10) > 5));
      assert.deepEqual([ended, level], [[], level]);
      assert.deepEqual(standing.map(Number.parseFloat), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], `${level} ${atCut}`);
      // Only what was sent of the branch that was left is dead.
      const left = chain.filter((text) => !standing.includes(text)).map((text) => Number.parseInt(text, 10));
      if (level === 'confirmed')
        assert.deepEqual(
          got
            .filter((text) => text.startsWith('-'))
            .map(Number)
            .map(Math.abs),
          left.toReversed(),
        );
    }
});

const batchOf = (text: string): Batch => ({ bytes: Buffer.from(text), updates: 1, messageBytes: text.length });

test('blocks wait for a board in their order; a fork takes out what waits, and one that falls behind ends its subscriptions', async () => {
  const { hub, reader } = createBed();
  const asked: number[] = [];
  let answer: ((batches: readonly Batch[]) => void) | null = null;
  const feeds = new Set<Feed>();
  const batchOf = (slot: number): Batch => ({ bytes: Buffer.from(String(slot)), updates: 1, messageBytes: 1 });
  const board: Board = {
    add: (one) => void feeds.add(one),
    remove: (one) => void feeds.delete(one),
    async content({ slot }) {
      asked.push(slot);
      const batches = await new Promise<readonly Batch[]>((resolve) => {
        answer = resolve;
      });
      return new Map([...feeds].map((one) => [one, batches]));
    },
  };
  const feed: Feed = { level: 'confirmed', board, content: () => [], slot: () => [] };
  const got: string[] = [];
  const lagged: string[] = [];
  const first = { ...reader(({ bytes }) => void got.push(String(bytes))), lagged: () => void lagged.push('first') };
  hub.released(blockOf(99));
  hub.join({ key: null, feed, from: null }, first);
  const next = async () => {
    await turn();
    answer!([batchOf(asked.at(-1)!)]);
    await turn();
  };
  for (const slot of [100, 101, 102]) hub.released(blockOf(slot));
  await next();
  hub.reverted([blockOf(102), blockOf(101)]);
  // What was being compared when its block was left is dropped.
  await next();
  hub.released({ ...blockOf(103), blockhash: 'new' });
  await next();
  assert.deepEqual(
    [asked, got],
    [
      [100, 101, 103],
      ['100', '103'],
    ],
  );
  for (let slot = 104; slot < 104 + 33; slot++) hub.released(blockOf(slot));
  assert.deepEqual([lagged, feeds.size], [['first'], 0]);
});

for (const finalSlot of [30, 25])
  test(`a replay begins in the ledger of a process that stopped, final up to ${finalSlot} of 30, and goes on when this one writes`, async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'parhelion-hub-'));
    t.after(() => rmSync(dir, { recursive: true, force: true }));
    const clock = createManualClock();
    const log = createMemoryLog();
    const openIt = () =>
      openLedger({
        ...{ dir, chain: 'main', retainHours: 24, retainBytes: 1_073_741_824, clock, log },
        meter: createLedgerMeter(createMetricsRegistry().scope('ledger')),
      });
    const made = (slot: number) =>
      decodeBlock(slot, scanBlockAnswer(syntheticBlock({ seed: slot, transactions: 2, slot }).body)!);
    const before = await openIt();
    for (let slot = 1; slot <= 30; slot += 1) await before.append(made(slot));
    await before.finalize(finalSlot);
    await before.close();
    // Its last blocks that are not final may be on a fork by now.
    await clock.advance(finalSlot === 30 ? 1_000 : 120_000);

    let current: LedgerReader = createLedgerReader({ dir, chain: 'main', clock, log, damaged: () => assert.fail() });
    await current.refresh();
    const { hub, metrics, replay } = createBed(createBudgets(), undefined, () => current);
    let goOn = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    let paid = 0;
    const { leave, ended } = replay('one', 1, {
      ready: () => (paid === 10 ? held : Promise.resolve()),
      async payForBlock() {
        paid += 1;
      },
    });
    await until(() => paid === 10);
    const writer = await openIt();
    t.after(() => writer.close());
    await writer.finalize(30);
    current = writer;
    const release = async (slot: number) => {
      await writer.append(made(slot));
      hub.released(await writer.block(slot).then((block) => block!));
      await writer.finalize(slot);
      hub.finalized(slot);
    };
    for (let slot = 31; slot <= 34; slot += 1) await release(slot);
    goOn();
    for (let slot = 35; slot <= 40; slot += 1) await release(slot);
    await until(async () => (await metrics.text()).includes('parhelion_streams_groups 1'), 'the replay becomes live');
    assert.deepEqual([ended(), leave('at-once'), paid >= 30], [null, null, true]);
  });
