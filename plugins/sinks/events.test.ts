import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChainBlock } from '../../src/ports/block.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import type { SinkKind, SinkPosition, SinkRow } from '../../src/ports/sink.ts';
import type { Store } from '../../src/ports/store.ts';
import { migrate } from '../../src/store/migrate.ts';
import { emptyLedger, fill } from '../../test/helpers/archive.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { openSink, sourceOver, startSink } from '../../test/helpers/sinks.ts';
import { eachStore } from '../../test/helpers/store.ts';
import { until } from '../../test/helpers/until.ts';
import { createAccountReading } from './account-writes.ts';
import { createEventReader, createSinkEvents, type EventReader } from './events.ts';
import { describeSinks } from './overview.ts';
import { ALL_TABLES, EVENT_TABLES } from './rows/tables.ts';
import { boundEvents, type EventCut, migrations, readEventBytes, readStates } from './store.ts';
import { lineOf } from './targets/ndjson.ts';

const never = new AbortController().signal;
const [writes, deliveries] = EVENT_TABLES as [(typeof EVENT_TABLES)[number], (typeof EVENT_TABLES)[number]];
const wanted = new Map([['main', new Set(['deliveries'])]] as const);

const noAccounts = { read: () => Promise.reject(new Error('no accounts are read here')) };
const delivery = (id: number): SinkRow => [
  id,
  'hook',
  'project',
  'sig',
  5,
  1,
  1_700_000_000_123,
  4,
  null,
  'dns',
  'retry',
];

eachStore('rows that no block contains', ({ store: open }) => {
  const opened = async (t: Parameters<typeof open>[0]): Promise<Store> => {
    const store = await open(t);
    await migrate(store, [{ scope: 'sinks', migrations }]);
    return store;
  };

  test('each gets one slot, and those of a fixed slot never change, however many write and fix at once', async (t) => {
    const store = await opened(t);
    const events = createSinkEvents(wanted);
    const readers = [1, 2].map(() => createEventReader({ chain: 'main', store: () => store, accounts: noAccounts }));
    const random = createSfc32(9);
    const seen = new Map<number, string>();
    let final = 100;
    let added = 0;
    const look = async (reader: (typeof readers)[number]) => {
      const to = await reader.fix([deliveries], final, never);
      for (const slot of await reader.slots(deliveries, 0, to)) {
        const text = JSON.stringify(await reader.rows(deliveries, slot));
        assert.equal(text, seen.get(slot) ?? text, `rows of slot ${slot}`);
        seen.set(slot, text);
      }
    };
    await look(readers[0]!);
    for (let turn = 0; turn < 40; turn++) {
      final += random.below(3);
      const adds = Array.from({ length: random.below(4) }, async () => {
        const rows = Array.from({ length: 1 + random.below(3) }, () => delivery(added++));
        await store.write((tx) => events.add(tx, 'main', 'deliveries', rows));
      });
      await Promise.all([...adds, ...readers.map(look)]);
    }
    final += 1;
    await look(readers[1]!);
    const rows = [...seen.values()].flatMap((text) => JSON.parse(text) as SinkRow[]);
    assert.deepEqual(
      rows.map((row) => row[2] as number).toSorted((a, b) => a - b),
      Array.from({ length: added }, (_, id) => id),
    );
    assert.equal(new Set(rows.map(([slot, entry]) => `${slot}:${entry}`)).size, rows.length);
    assert.deepEqual(rows.find((row) => row[2] === 0)!.slice(2), delivery(0));
  });

  test('a transaction that fails adds none, other chains and tables are not wanted, and dropped rows are gone', async (t) => {
    const store = await opened(t);
    const events = createSinkEvents(wanted);
    assert.deepEqual(
      [
        events.wants('main', 'deliveries'),
        events.wants('main', 'account_writes'),
        events.wants('devnet', 'deliveries'),
      ],
      [true, false, false],
    );
    const reader = createEventReader({ chain: 'main', store: () => store, accounts: noAccounts });
    // Before a block is final.
    assert.equal(await reader.fix([deliveries, writes], -1, never), -1);
    for (const table of [deliveries, writes])
      assert.equal(await reader.keptFrom(table), Number.POSITIVE_INFINITY, table.name);
    assert.equal(await reader.fix([deliveries], 10, never), 10);
    assert.equal(await reader.keptFrom(deliveries), 10);
    await assert.rejects(
      store.write(async (tx) => {
        await events.add(tx, 'main', 'deliveries', [delivery(1)]);
        throw new Error('failed');
      }),
    );
    await store.write((tx) => events.add(tx, 'main', 'deliveries', [delivery(2)]));
    assert.equal(await reader.fix([deliveries], 12, never), 12);
    await store.write((tx) => events.add(tx, 'main', 'deliveries', [delivery(3)]));
    // Nothing is added to a slot that was fixed.
    assert.equal(await reader.fix([deliveries], 12, never), 12);
    assert.deepEqual(await reader.slots(deliveries, 0, 100), [12]);
    await reader.fix([deliveries], 13, never);
    await reader.drop(deliveries, 13);
    assert.deepEqual(await reader.slots(deliveries, 0, 100), [13]);
    assert.equal(await reader.keptFrom(deliveries), 13);
  });

  test('beyond the bound rows go that every sink has, then the oldest: each slot that a sink lacks is a hole, and no other', async (t) => {
    const store = await opened(t);
    const events = createSinkEvents(wanted);
    const reader = createEventReader({ chain: 'main', store: () => store, accounts: noAccounts });
    const total = async () => {
      let sum = 0;
      for (const slot of await reader.slots(deliveries, 0, 1_000))
        for (const row of await reader.rows(deliveries, slot))
          sum += Buffer.byteLength(lineOf(deliveries, [0, 0, ...row.slice(2)]));
      return sum;
    };
    const add = async (slot: number, count: number) => {
      const rows = Array.from({ length: count }, (_, at) => delivery(slot * 10 + at));
      await store.write((tx) => events.add(tx, 'main', 'deliveries', rows));
      await reader.fix([deliveries], slot, never);
    };
    await reader.fix([deliveries], 10, never);
    for (let slot = 11; slot <= 30; slot++) await add(slot, 1 + (slot % 3));
    assert.equal(await readEventBytes(store.read), await total());
    const whole = await total();
    // All is within the bound, or was taken: nothing is lost.
    assert.deepEqual(await boundEvents(store, whole, () => 0), []);
    assert.deepEqual(await boundEvents(store, whole - 1, () => 13), []);
    assert.deepEqual((await reader.slots(deliveries, 0, 100))[0], 12);
    assert.equal(await readEventBytes(store.read), await total());
    // Of two threads one cuts.
    const half = Math.floor(whole / 2);
    const found = await Promise.all([1, 2].map(() => boundEvents(store, half, () => 14)));
    const cuts = found.flat();
    assert.equal(cuts.length, 1);
    const [cut] = cuts as [EventCut];
    assert.equal(cut.first, 14);
    const kept = await reader.slots(deliveries, 0, 100);
    assert.equal(kept[0], cut.last + 1);
    assert.ok((await total()) <= half);
    assert.equal(await readEventBytes(store.read), await total());
    const gone = Array.from({ length: cut.last - 13 }, (_, at) => 14 + at);
    assert.equal(
      cut.rows,
      gone.reduce((sum, slot) => sum + 1 + (slot % 3), 0),
    );
    assert.deepEqual(await reader.cuts(deliveries, 0, 15), [[14, 15]]);
    // The next one goes on where it ended.
    await add(31, 3);
    const [next] = await boundEvents(store, half, () => 14);
    assert.deepEqual(await reader.cuts(deliveries, 0, 100), [[14, next!.last]]);
    // A cut that was taken after all is no hole of who took it.
    const views = await describeSinks(store.read, [{ name: 'rows', chain: 'main', tables: ['blocks', 'deliveries'] }]);
    assert.deepEqual(views[0]!.holes, [{ table: 'deliveries', from: 14, to: next!.last }]);
  });

  test('a sink whose rows are dropped while it is away has a hole: the slots it was written without, and none that it has', async (t) => {
    const store = await opened(t);
    const ledger = await emptyLedger(t);
    await fill(ledger, 11, 80);
    const events = createSinkEvents(wanted);
    const reader = createEventReader({ chain: 'main', store: () => store, accounts: noAccounts });
    await reader.fix([deliveries], 11, never);
    for (let slot = 12; slot <= 60; slot++) {
      await store.write((tx) => events.add(tx, 'main', 'deliveries', [delivery(slot)]));
      await reader.fix([deliveries], slot, never);
    }
    const written = new Map<number, number>();
    let position: SinkPosition | null = null;
    let isLost = true;
    const kind: SinkKind = {
      kind: 'memory',
      batch: { slots: 8, seconds: 0 },
      open: async () => ({
        positions: async () => (position === null ? [] : [position]),
        async write(batch) {
          // In the middle of what it has: the rest is read again, and by then rows of it are gone.
          if (isLost && batch.position.last > 40) {
            isLost = false;
            await boundEvents(
              store,
              Math.floor((await readEventBytes(store.read)) / 3),
              () => (position?.last ?? -1) + 1,
            );
            throw new Error('nothing was sent');
          }
          for (const [slot, , id] of batch.rows.get('deliveries') ?? []) written.set(slot as number, id as number);
          position = batch.position;
          return batch.position;
        },
        close: async () => undefined,
      }),
    };
    let isRaced = false;
    const raced: EventReader = {
      ...reader,
      async rows(table, slot) {
        // Between the list of slots and their rows.
        if (!isRaced && slot >= 22) {
          isRaced = true;
          await boundEvents(
            store,
            Math.floor((await readEventBytes(store.read)) * 0.6),
            () => (position?.last ?? -1) + 1,
          );
        }
        return await reader.rows(table, slot);
      },
    };
    const sink = openSink('memory', { tables: ALL_TABLES });
    const run = startSink({
      store,
      ledger,
      kind,
      sink,
      events: { tables: [deliveries], reader: raced },
      settings: { batchSlots: 8 },
    });
    t.after(run.stop);
    const end = Math.min(ledger.finalSlot, 60);
    // As the store knows: until then the cut itself is shown.
    await until(
      async () => ((await readStates(store.read, ['rows'])).get('rows')?.last ?? -1) >= end,
      'the sink has caught up',
    );
    const [view] = await describeSinks(store.read, [{ name: 'rows', chain: 'main', tables: ['deliveries'] }]);
    const { holes } = view!;
    assert.equal(holes.length, 2, JSON.stringify(holes));
    for (let slot = 12; slot <= end; slot++) {
      const isInHole = holes.some(({ from, to }) => slot >= from && slot <= to);
      assert.equal(written.has(slot), !isInHole, `slot ${slot} with the holes ${JSON.stringify(holes)}`);
    }
  });

  test('accounts: one row per final block that may have written one, once, with the state that a node gave', async (t) => {
    const store = await opened(t);
    const ledger = await emptyLedger(t);
    await fill(ledger, 11, 60, { hasTransfers: true });
    const blocks: ChainBlock[] = [];
    for (const slot of ledger.states(11, 60).blocks) blocks.push((await ledger.block(slot))!);
    const account = blocks[0]!.keys.base58(blocks[0]!.transactions[0]!.keys[0]!);
    const accounts = new Set([account]);
    let isAway = false;
    let calls = 0;
    const chain: Pick<ChainReader, 'callText'> = {
      async callText(_method, [, config]) {
        calls += 1;
        if (isAway) throw new Error('nobody answers');
        const { minContextSlot: slot } = config as { minContextSlot: number };
        const data = [Buffer.of(slot).toString('base64'), 'base64'];
        // The largest number of lamports: written by hand, since it is no double.
        const value = JSON.stringify({ owner: 'P', executable: false, space: 7, data, lamports: 0 });
        return `{"context":{"slot":${slot}},"value":[${value.replace('"lamports":0', '"lamports":18446744073709551615')}]}`;
      },
    };
    const reading = createAccountReading({ accounts, source: sourceOver(ledger), chain: () => chain as ChainReader });
    const readers = [1, 2].map(() => createEventReader({ chain: 'main', store: () => store, accounts: reading }));
    // What is older than the first question is not read.
    assert.equal(await readers[0]!.fix([writes], 20, never), 20);
    isAway = true;
    await assert.rejects(readers[0]!.fix([writes], ledger.finalSlot, never), {
      code: 'SINKS_ACCOUNTS',
      message: 'accounts cannot be read: nobody answers',
    });
    isAway = false;
    let to = 20;
    while (to < ledger.finalSlot) {
      const fixed = await Promise.all(readers.map((reader) => reader.fix([writes], ledger.finalSlot, never)));
      assert.ok(Math.max(...fixed) > to, `nothing is read behind slot ${to}`);
      to = Math.max(...fixed);
    }
    const rows: SinkRow[] = [];
    for (const slot of await readers[1]!.slots(writes, 0, 100)) rows.push(...(await readers[1]!.rows(writes, slot)));
    const expected = blocks.filter(
      ({ slot, transactions, keys }) =>
        slot > 20 &&
        // Its two first keys are writable.
        transactions.some((tx) => [...tx.keys].slice(0, 2).some((id) => keys.base58(id) === account)),
    );
    assert.ok(expected.length > 5);
    assert.deepEqual(
      rows.map(([slot]) => slot),
      expected.map(({ slot }) => slot),
    );
    for (const [slot, entry, , , address, readSlot, lamports, owner, executable, space, data] of rows) {
      assert.deepEqual(
        [entry, address, lamports, owner, executable, space],
        [0, account, 2n ** 64n - 1n, 'P', false, 7],
      );
      assert.ok((readSlot as number) >= (slot as number));
      assert.deepEqual(data, new Uint8Array([readSlot as number]));
    }
    // A call for many blocks, not one for each.
    assert.ok(calls < expected.length, `${calls} calls for ${expected.length} blocks`);
  });
});
