import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { createBudgets } from '../../../src/budgets.ts';
import { createLedgerMeter, createLedgerReader, openLedger } from '../../../src/ledger/index.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { LedgerReader } from '../../../src/ports/ledger.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { decodeBlock } from '../../../src/solana/decode/decode-block.ts';
import { scanBlockAnswer } from '../../../src/solana/decode/scan-block.ts';
import { syntheticBlock } from '../../../test/bench/samples/synthetic-block.ts';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../../test/helpers/memory-log.ts';
import { createSfc32 } from '../../../test/helpers/sfc32.ts';
import { until } from '../../../test/helpers/until.ts';
import { compileFilters } from '../filters.ts';
import { GrpcError } from '../grpc-server.ts';
import { createUpdateFeed } from '../reader/update-feed.ts';
import { SLOT_STATUS } from '../wire/updates.ts';
import { type Board, createStreamHub, type Feed, type Reader, type UpdateBatch } from './index.ts';

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
  blocks: (() => LedgerReader | null) | null = null,
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
  const log = createMemoryLog();
  const hub = createStreamHub({
    metrics: metrics.scope('streams'),
    log,
    blocks: blocks ?? (() => kept as unknown as LedgerReader),
    limits: { maxPendingBytes: 1_000_000 },
  });
  const empty = new Map<string, never>();
  const filters = compileFilters(
    {
      accounts: new Set<string>(),
      blocksMeta: new Set<string>(),
      entries: new Set<string>(),
      blockFooters: new Set<string>(),
      slots: empty,
      transactions: empty,
      transactionsStatus: empty,
      blocks: empty,
      commitment: 1,
      ping: null,
      fromSlot: null,
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
  return { hub, log, metrics, read, replay, reader: (send: Reader['send']) => readerOf('one', { send }) };
}

test('replays read in turns over the projects, however many one of them has', async () => {
  const { read, replay } = createBed();
  const attacks = Array.from({ length: 30 }, (_, i) => replay('attacker', i * 100));
  while (read.length < 10) await turn();
  const before = read.length;
  const victim = replay('victim', 5_000);
  while (read.filter((slot) => slot >= 5_000).length < 10) await turn();
  const theirs = read.slice(before).filter((slot) => slot < 5_000).length;
  for (const { leave } of [...attacks, victim]) leave();
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
  for (const { leave } of replays) leave();
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
    early();
    join('b');
    hub.reverted([3, 4, 5].map((slot) => ({ ...blockOf(slot), blockhash: 'x' })));
    release(3, 7, 'y');
    hub.finalized(7);
    // At `finalized` the filters that stand when a block becomes final decide.
    const before = level === 'confirmed' ? ['a1x', 'a2x', 'a3x', 'a4x', 'a5x'] : ['b1x', 'b2x'];
    assert.deepEqual(got, [...before, 'b3y', 'b4y', 'b5y', 'b6y', 'b7y'], level);
  }
});

test('a fork that is removed from the ledger before the hub hears of it delays replays and ends none', async () => {
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

/** What a Yellowstone server sends at `finalized`: whatever becomes final, to whoever listens then. */
test('reconnections at finalized without a first slot lose nothing that becomes final meanwhile, over forks', async () => {
  const seed = Math.floor(Math.random() * 2 ** 32);
  console.log(`seed ${seed}`);
  const draw = createSfc32(seed);
  for (const hasLedger of [false, true]) {
    const { hub, reader } = createBed(
      undefined,
      { finalSlot: -1, newest: -1, branch: '' },
      hasLedger ? null : () => null,
    );
    const chain: ChainBlock[] = [];
    let branch = 0;
    let finalCount = 0;
    let reconnections = 0;
    const clients = Array.from({ length: 6 }, (_, number) => ({
      // Some share their filters, and so a group.
      key: number % 2 === 0 ? `shared ${number % 4}` : null,
      got: [] as string[],
      expected: [] as string[],
      leave: null as ReturnType<typeof hub.join> | null,
    }));
    const feed: Feed = {
      level: 'finalized',
      content: ({ slot, blockhash }) => (slot % 3 === 0 ? [] : [batchOf(`${slot}${blockhash}`)]),
      slot: ({ slot, blockhash }, status) =>
        status === SLOT_STATUS.finalized ? [batchOf(`final ${slot}${blockhash}`)] : [],
    };
    for (let step = 0; step < 4_000; step++) {
      const dice = draw.float();
      if (dice < 0.4) {
        const slot = (chain.at(-1)?.slot ?? 0) + draw.between(1, 2);
        const block = { ...blockOf(slot), blockhash: `b${branch}` };
        chain.push(block);
        hub.released(block);
      } else if (dice < 0.45 && chain.length > finalCount) {
        branch += 1;
        const dropped = chain.splice(draw.between(Math.max(finalCount, chain.length - 31), chain.length - 1));
        hub.reverted(dropped.toReversed());
      } else if (dice < 0.75) {
        const next = Math.min(chain.length, finalCount + draw.below(5));
        if (next === finalCount) continue;
        for (const { slot, blockhash } of chain.slice(finalCount, next))
          for (const { expected, leave } of clients)
            if (leave !== null)
              expected.push(...(slot % 3 === 0 ? [] : [`${slot}${blockhash}`]), `final ${slot}${blockhash}`);
        finalCount = next;
        hub.finalized(chain[next - 1]!.slot);
      } else {
        const client = clients[draw.below(clients.length)]!;
        if (client.leave !== null) {
          client.leave();
          client.leave = null;
        } else {
          reconnections += 1;
          const subscription = { key: client.key, feed, from: null };
          client.leave = hub.join(
            subscription,
            reader(({ bytes }) => void client.got.push(String(bytes))),
          );
        }
      }
    }
    assert.ok(reconnections >= 400, `${reconnections} reconnections`);
    for (const { got, expected } of clients) assert.deepEqual(got, expected);
  }
});

test('blocks that a finalized subscription missed are read from the ledger, or the subscription is refused', async () => {
  // So many transactions in each block that a few of them fill the memory.
  const largeBlock = (slot: number) => ({ ...blockOf(slot), transactions: new Array(30_000) }) as unknown as ChainBlock;
  const feed: Feed = { level: 'finalized', content: ({ slot }) => [batchOf(`${slot}`)], slot: () => [] };
  const finalized = (got: string[], subscription: Reader) => ({
    ...subscription,
    send: ({ bytes }: UpdateBatch) => void got.push(String(bytes)),
  });
  const ledger = { finalSlot: 2, newest: 2, branch: '' };
  for (const hasLedger of [false, true]) {
    const { hub, reader } = createBed(undefined, ledger, hasLedger ? null : () => null);
    const [early, late]: string[][] = [[], []];
    hub.released(largeBlock(1));
    const base = reader(() => undefined);
    // It came after the first block, and before that block leaves the memory.
    hub.join({ key: null, feed, from: null }, finalized(early!, base));
    hub.finalized(0);
    for (let slot = 2; slot <= 8; slot++) {
      ledger.newest = slot;
      hub.released(largeBlock(slot));
    }
    const join = () => hub.join({ key: null, feed, from: null }, finalized(late!, base));
    if (!hasLedger) assert.throws(join, { status: 'unavailable' });
    else join();
    for (let count = 0; count < 60; count++) await turn();
    hub.finalized(8);
    const all = ['1', '2', '3', '4', '5', '6', '7', '8'];
    assert.deepEqual([early, late], [all, hasLedger ? all : []]);
  }
});

const batchOf = (text: string): UpdateBatch => ({ bytes: Buffer.from(text), updates: 1, messageBytes: text.length });

test('blocks wait for a board in their order; a fork takes out what waits; one that falls behind leaves out the oldest, says so, and ends nothing', async () => {
  const { hub, log, metrics, reader } = createBed();
  const asked: number[] = [];
  let answer: ((batches: readonly UpdateBatch[]) => void) | null = null;
  const feeds = new Set<Feed>();
  const batchOf = (slot: number): UpdateBatch => ({ bytes: Buffer.from(String(slot)), updates: 1, messageBytes: 1 });
  const board: Board = {
    add: (one) => void feeds.add(one),
    remove: (one) => void feeds.delete(one),
    async content({ slot }) {
      asked.push(slot);
      const batches = await new Promise<readonly UpdateBatch[]>((resolve) => {
        answer = resolve;
      });
      return new Map([...feeds].map((one) => [one, { batches, searched: 0, problem: null }]));
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
  for (let slot = 104; slot < 184; slot++) hub.released(blockOf(slot));
  for (let slot = 104; slot < 184; slot++) await next();
  const all = Array.from({ length: 80 }, (_, at) => String(104 + at));
  assert.deepEqual([got.slice(2), lagged, feeds.size], [all, [], 1]);
  // Each has so many transactions that three of them are as many as may wait.
  const large = (slot: number) => ({ ...blockOf(slot), transactions: new Array(33_000) }) as unknown as ChainBlock;
  for (let slot = 200; slot < 210; slot++) hub.released(large(slot));
  for (let count = 0; count < 3; count++) await next();
  assert.deepEqual([got.slice(82), lagged], [['200', '208', '209'], []]);
  assert.match(await metrics.text(), /parhelion_streams_parsed_blocks_left_out_total 7/);
  // Who is behind is said once, until the queue was empty.
  const lateFrom = () => log.lines.filter(({ level }) => level === 'warn').map(({ fields }) => fields['slot']);
  assert.deepEqual(lateFrom(), [201]);
  assert.match(JSON.stringify(log.lines), /decoding is behind the chain/);
  for (let slot = 210; slot < 215; slot++) hub.released(large(slot));
  for (let count = 0; count < 3; count++) await next();
  assert.deepEqual([got.slice(85), lagged, lateFrom()], [['210', '213', '214'], [], [201, 211]]);
});

for (const finalSlot of [30, 25])
  test(`a replay begins in the ledger of a process that stopped, final up to ${finalSlot} of 30, and goes on when this one writes`, async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'parhelion-hub-'));
    t.after(() => rmSync(dir, { recursive: true, force: true }));
    const clock = createManualClock();
    const log = createMemoryLog();
    const openIt = () =>
      openLedger({
        dir,
        chain: 'main',
        retainHours: 24,
        retainBytes: 1_073_741_824,
        clock,
        log,
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
    assert.deepEqual([ended(), leave(), paid >= 30], [null, null, true]);
  });

test('a subscription at finalized after a restart has what becomes final of the blocks of the process before, and does not pay for them', async () => {
  const ledger = { finalSlot: 25, newest: 30, branch: 'x' };
  const { hub, reader } = createBed(undefined, ledger);
  const feed: Feed = {
    level: 'finalized',
    content: ({ slot }) => [batchOf(`${slot}`)],
    slot: ({ slot }, status) => (status === SLOT_STATUS.finalized ? [batchOf(`final ${slot}`)] : []),
  };
  const got: string[] = [];
  let paid = 0;
  const client: Reader = {
    ...reader(({ bytes }) => void got.push(String(bytes))),
    async payForBlock() {
      paid += 1;
    },
  };
  hub.join({ key: 'same', feed, from: null }, client);
  for (let slot = 31; slot <= 33; slot++) {
    ledger.newest = slot;
    hub.released({ ...blockOf(slot), blockhash: 'x' });
    for (let count = 0; count < 40; count++) await turn();
  }
  hub.finalized(32);
  const expected = Array.from({ length: 7 }, (_, at) => [`${26 + at}`, `final ${26 + at}`]).flat();
  assert.deepEqual([got, paid], [expected, 0]);
});
