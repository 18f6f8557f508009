/** What every kind of target has to do. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { AccountReading } from '../../../plugins/sinks/account-writes.ts';
import { createEventReader, createSinkEvents } from '../../../plugins/sinks/events.ts';
import { LIVE } from '../../../plugins/sinks/open-target.ts';
import { ALL_TABLES, EVENT_TABLES } from '../../../plugins/sinks/rows/tables.ts';
import { addTask, readStates, readTask, type SinkTaskRow, setPaused } from '../../../plugins/sinks/store.ts';
import { type Findings, sumOf } from '../../../plugins/sinks/verify.ts';
import { codeOf } from '../../../src/lib/coded-error.ts';
import type { OpenSink, SinkKind, SinkRow, SinkTarget } from '../../../src/ports/sink.ts';
import type { Store } from '../../../src/ports/store.ts';
import { emptyLedger, fill } from '../../helpers/archive.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { assertRows, batchOf, openSink, sinkStore, startSink } from '../../helpers/sinks.ts';
import { until } from '../../helpers/until.ts';

export interface TargetUnderTest {
  readonly name: string;
  readonly kind: SinkKind;
  /** An empty place, as `target` of the configuration, or with `options`. */
  place(t: TestContext): Promise<string | Pick<OpenSink, 'target' | 'options'>>;
  /** Why it cannot be tested here. */
  readonly skip?: string | false;
}

const FIRST = 11;

async function setUp(t: TestContext, under: TargetUnderTest, last = 90) {
  const ledger = await emptyLedger(t);
  await fill(ledger, FIRST, last, { hasTransfers: true });
  const place = await under.place(t);
  const sink = typeof place === 'string' ? openSink(place) : openSink(place.target, place);
  const open = async (): Promise<SinkTarget> => {
    const target = await under.kind.open(sink);
    t.after(() => target.close());
    return target;
  };
  return { ledger, sink, open, store: await sinkStore(t) };
}

/** Until the target has the newest final slot, as it says itself. */
const caughtUp = (target: SinkTarget, slot: number) =>
  until(
    async () => (await target.positions()).find(({ part }) => part === LIVE)?.last === slot,
    'the sink has caught up',
  );

async function taskOf(store: Store, task: Pick<SinkTaskRow, 'id' | 'kind' | 'first_slot' | 'last_slot'>) {
  const { id, kind, first_slot, last_slot } = task;
  await addTask(store, {
    id,
    sink: 'rows',
    kind,
    first_slot,
    last_slot,
    next_slot: first_slot,
    state: 'open',
    detail: null,
    created_at: 0,
  });
  return await until(async () => {
    const found = await readTask(store.read, id);
    return found?.state === 'open' ? null : found;
  }, `the task ${id} ends`);
}

/** A kind whose writes fail at random: before anything is written, or after all of it, as when an answer is lost. */
function failing(kind: SinkKind, seed: number): SinkKind & { readonly failures: () => number } {
  const random = createSfc32(seed);
  let failures = 0;
  return {
    ...kind,
    failures: () => failures,
    async open(sink) {
      const target = await kind.open(sink);
      return {
        positions: () => target.positions(),
        close: () => target.close(),
        async write(batch) {
          const draw = random.below(3);
          if (draw === 0) failures += 1;
          if (draw === 0) throw new Error('nothing was sent');
          const position = await target.write(batch);
          if (draw === 1) failures += 1;
          if (draw === 1) throw new Error('the answer was lost');
          return position;
        },
      };
    },
  };
}

export function sinkSuite(under: TargetUnderTest): void {
  const { kind, name, skip = false } = under;
  const check = (title: string, run: (t: TestContext) => Promise<void>) => test(`${name}: ${title}`, { skip }, run);

  check(`the rows of all final blocks are there once, and a restart goes on behind them`, async (t) => {
    const { ledger, sink, open, store } = await setUp(t, under);
    const target = await open();
    const first = startSink({ store, ledger, kind, sink });
    await caughtUp(target, ledger.finalSlot);
    await first.stop();
    await assertRows(target, ledger, FIRST, ledger.finalSlot);
    await fill(ledger, ledger.newest() + 1, ledger.newest() + 30, { hasTransfers: true });
    const second = startSink({ store, ledger, kind, sink });
    await caughtUp(target, ledger.finalSlot);
    await second.stop();
    await assertRows(target, ledger, FIRST, ledger.finalSlot);
    const state = (await readStates(store.read, ['rows'])).get('rows')!;
    assert.deepEqual([state.first, state.isPaused], [FIRST, false]);
  });

  check(`writes that fail, and answers that are lost, lose no row and write none twice`, async (t) => {
    const { ledger, sink, open, store } = await setUp(t, under, 160);
    const target = await open();
    const broken = failing(kind, 5);
    const run = startSink({ store, ledger, kind: broken, sink, settings: { batchSlots: 5 } });
    await caughtUp(target, ledger.finalSlot);
    await run.stop();
    assert.ok(broken.failures() >= 5, `${broken.failures()} failures`);
    await assertRows(target, ledger, FIRST, ledger.finalSlot);
  });

  check(`two daemons that write the same target at once write each row once`, async (t) => {
    const { ledger, sink, open, store } = await setUp(t, under, 160);
    const target = await open();
    // With stores of their own neither knows of the other.
    const other = await sinkStore(t);
    const settings = { batchSlots: 4 };
    const runs = [
      startSink({ store, ledger, kind, sink, settings, holder: 'one' }),
      startSink({ store: other, ledger, kind, sink, settings, holder: 'two' }),
    ];
    await caughtUp(target, ledger.finalSlot);
    for (const run of runs) await run.stop();
    await assertRows(target, ledger, FIRST, ledger.finalSlot);
  });

  check(`a batch for another position is refused, and changes nothing`, async (t) => {
    const { ledger, open } = await setUp(t, under, 40);
    const [one, two] = [await open(), await open()];
    const batch = await batchOf(ledger, FIRST, 30);
    assert.deepEqual(await one.write(batch), batch.position);
    await assert.rejects(two.write(batch), (error) => codeOf(error) === 'SINKS_MOVED');
    assert.deepEqual(await two.positions(), [batch.position]);
    await assertRows(two, ledger, FIRST, 30);
  });

  check(`a target with blocks of another chain, or with newer rows, is refused and left as it is`, async (t) => {
    const { ledger, sink, open, store } = await setUp(t, under, 40);
    const target = await open();
    const batch = await batchOf(ledger, FIRST, 30);
    const foreign = { ...batch, position: { ...batch.position, blockhash: '1'.repeat(32) } };
    await target.write(foreign);
    const run = startSink({ store, ledger, kind, sink });
    await until(
      async () => (await readStates(store.read, ['rows'])).get('rows')?.errorCode === 'SINKS_OTHER_CHAIN',
      'the sink says that the chain is another',
    );
    await run.stop();
    assert.deepEqual(await target.positions(), [foreign.position]);
    await assert.rejects(
      async () => await (await kind.open({ ...sink, version: 0 })).positions(),
      (error) => codeOf(error) === 'SINKS_REFUSED',
    );
  });

  check(`rows that no block contains are there once, however often writes fail, and are verified`, async (t) => {
    const { ledger, sink: given, store } = await setUp(t, under, 60);
    const sink = { ...given, tables: ALL_TABLES };
    const add = createSinkEvents(new Map([['main', new Set(['deliveries'])]]));
    const reader = createEventReader({ chain: 'main', store: () => store, accounts: someAccounts });
    const events = { tables: EVENT_TABLES, reader };
    await reader.fix(EVENT_TABLES, 20, new AbortController().signal);
    const broken = failing(kind, 7);
    const settings = { batchSlots: 5, from: 21 };
    const run = startSink({ store, ledger, kind: broken, sink, events, settings });
    const target = await kind.open(sink);
    t.after(() => target.close());
    let id = 0;
    for (let turn = 0; turn < 6; turn++) {
      const rows = Array.from({ length: 1 + (turn % 3) }, () => deliveryRow(id++));
      await store.write((tx) => add.add(tx, 'main', 'deliveries', rows));
      await fill(ledger, ledger.newest() + 1, ledger.newest() + 6, { hasTransfers: true });
      await caughtUp(target, ledger.finalSlot);
    }
    const end = ledger.finalSlot;
    for (const table of EVENT_TABLES) {
      const expected: SinkRow[] = [];
      for (const slot of await reader.slots(table, 0, end)) expected.push(...(await reader.rows(table, slot)));
      assert.ok(expected.length >= 10, table.name);
      assert.deepEqual(sumOf(await target.read!(table.name, 0, end)), sumOf(expected), table.name);
    }
    const deliveries = (await target.read!('deliveries', 0, end)).map((row) => row[2] as number);
    assert.deepEqual(
      deliveries.toSorted((a, b) => a - b),
      Array.from({ length: id }, (_, at) => at),
    );
    await run.stop();
    assert.ok(broken.failures() > 0);
    const second = startSink({ store, ledger, kind, sink, events, settings });
    t.after(second.stop);
    const fine = await taskOf(store, { id: 'e', kind: 'verify', first_slot: 21, last_slot: end });
    const findings = JSON.parse(fine.detail!) as Findings;
    assert.deepEqual([findings.differenceCount, findings.rows['deliveries']], [0, id], fine.detail!);
    // What is dropped once all have it is not compared.
    await reader.drop(EVENT_TABLES[1]!, 70);
    const later = await taskOf(store, { id: 'f', kind: 'verify', first_slot: 21, last_slot: end });
    assert.equal((JSON.parse(later.detail!) as Findings).differenceCount, 0, later.detail!);
  });

  check(`a paused sink takes nothing until it is resumed`, async (t) => {
    const { ledger, sink, open, store } = await setUp(t, under, 40);
    const target = await open();
    await setPaused(store, 'rows', true, 0);
    const run = startSink({ store, ledger, kind, sink });
    t.after(run.stop);
    await taskOfOther(store);
    assert.deepEqual(await target.positions(), []);
    await setPaused(store, 'rows', false, 0);
    await caughtUp(target, ledger.finalSlot);
  });

  check(`a back-fill adds older slots once, and verify finds a row that is missing`, async (t) => {
    const { ledger, sink, open, store } = await setUp(t, under);
    const target = await open();
    const run = startSink({ store, ledger, kind, sink, settings: { from: 60 } });
    await caughtUp(target, ledger.finalSlot);
    await assertRows(target, ledger, 60, ledger.finalSlot);
    const filled = await taskOf(store, { id: 'a', kind: 'backfill', first_slot: FIRST, last_slot: 59 });
    assert.equal(filled.state, 'done', filled.detail ?? '');
    await assertRows(target, ledger, FIRST, ledger.finalSlot);
    const again = await taskOf(store, { id: 'b', kind: 'backfill', first_slot: 20, last_slot: 30 });
    assert.equal(again.state, 'failed');
    const fine = await taskOf(store, { id: 'c', kind: 'verify', first_slot: FIRST, last_slot: ledger.finalSlot });
    const findings = JSON.parse(fine.detail!) as Findings;
    assert.equal(findings.differenceCount, 0);
    assert.ok(
      Object.values(findings.rows).every((count) => count > 0),
      fine.detail!,
    );
    await run.stop();
    const lossy: SinkKind = {
      ...kind,
      async open(given) {
        const whole = await kind.open(given);
        return {
          positions: () => whole.positions(),
          write: (batch) => whole.write(batch),
          close: () => whole.close(),
          read: async (table, first, last) => {
            const rows = await whole.read!(table, first, last);
            return table === 'logs' ? rows.slice(1) : rows;
          },
        };
      },
    };
    const second = startSink({ store, ledger, kind: lossy, sink });
    t.after(second.stop);
    const wrong = await taskOf(store, { id: 'd', kind: 'verify', first_slot: 60, last_slot: 80 });
    const found = JSON.parse(wrong.detail!) as Findings;
    assert.deepEqual(
      found.differences.map(({ table, ledger: expected, target: there }) => [table, expected.count - there.count]),
      [['logs', 1]],
    );
  });
}

/** States of one account in every third slot: the values of a row that have to survive. */
const someAccounts: AccountReading = {
  async read(from, final) {
    const to = Math.min(final, from + 8);
    const slots = Array.from({ length: to - from + 1 }, (_, at) => from + at).filter((slot) => slot % 3 === 0);
    const state = ['P', true, 131_073, new Uint8Array([0, 9, 10, 13, 34, 92, 255])];
    const gone = [null, null, null, null];
    const rowOf = (slot: number): SinkRow => [
      slot % 2 === 0 ? null : 1_700_000_000 + slot,
      `s${slot}`,
      'A',
      slot + 1,
      slot % 2 === 0 ? 0n : 2n ** 64n - 1n,
      ...(slot % 2 === 0 ? gone : state),
    ];
    return { to, rows: slots.map((slot) => ({ slot, row: rowOf(slot) })) };
  },
};

const deliveryRow = (id: number): SinkRow => [
  id,
  'hook',
  'project',
  `sig ${id}`,
  12,
  1 + (id % 3),
  1_700_000_000_123,
  id,
  id % 2 === 0 ? 500 : null,
  id % 2 === 0 ? null : 'dns',
  'retry',
];

/** Some turns of a runner: it has looked at its state more than once when another write of the store is read back. */
async function taskOfOther(store: Store): Promise<void> {
  for (let turn = 0; turn < 20; turn++) {
    await setPaused(store, 'rows', true, turn);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
