import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SinkBatch, SinkKind, SinkPosition } from '../../src/ports/sink.ts';
import { emptyLedger, fill } from '../../test/helpers/archive.ts';
import { openSink, sinkStore, startSink } from '../../test/helpers/sinks.ts';
import { until } from '../../test/helpers/until.ts';
import { addTask, claimSink, readStates, readTask } from './store.ts';
import type { Findings } from './verify.ts';

/** Keeps positions, and no rows. */
function memoryKind(): SinkKind & { isThere: boolean } {
  let position: SinkPosition | null = null;
  return {
    kind: 'memory',
    batch: { slots: 8, seconds: 0 },
    isThere: true,
    async open() {
      if (!this.isThere) throw new Error('nobody answers');
      return {
        positions: async () => (position === null ? [] : [position]),
        write: async (batch: SinkBatch) => {
          position = batch.position;
          return position;
        },
        close: async () => undefined,
      };
    },
  };
}

test('the lag of a sink grows while nobody reaches its target', async (t) => {
  const ledger = await emptyLedger(t);
  await fill(ledger, 11, 40);
  const [store, kind, sink] = [await sinkStore(t), memoryKind(), openSink('memory')];
  const first = startSink({ store, ledger, kind, sink });
  const known = async () => (await readStates(store.read, ['rows'])).get('rows')?.last;
  await until(async () => (await known()) === ledger.finalSlot, 'the sink has caught up, and said so');
  await first.stop();
  kind.isThere = false;
  await fill(ledger, ledger.newest() + 1, ledger.newest() + 20);
  const second = startSink({ store, ledger, kind, sink });
  t.after(second.stop);
  await until(async () => (await second.lag()) >= 20, 'the lag is known');
});

test('a sink of a process that has ended is taken over at once; one that may still run keeps it until its lease ends', async (t) => {
  const ledger = await emptyLedger(t);
  await fill(ledger, 11, 40);
  const [store, kind, sink] = [await sinkStore(t), memoryKind(), openSink('memory')];
  const lease = { name: 'rows', now: Date.now(), leaseMs: 3_600_000, isGone: () => false };
  assert.ok(await claimSink(store, { ...lease, holder: 'killed' }));
  assert.ok(!(await claimSink(store, { ...lease, holder: 'another' })));
  const asked = new Set<string>();
  const waiting = startSink({
    store,
    ledger,
    kind,
    sink,
    holder: 'two',
    isGone: (holder) => {
      asked.add(holder);
      return false;
    },
  });
  await until(() => asked.has('killed'), 'it has looked who holds the sink');
  await waiting.stop();
  const known = async () => (await readStates(store.read, ['rows'])).get('rows')?.last ?? null;
  assert.equal(await known(), null);
  const next = startSink({ store, ledger, kind, sink, holder: 'two', isGone: (holder) => holder === 'killed' });
  t.after(next.stop);
  await until(async () => (await known()) === ledger.finalSlot, 'the sink has caught up');
});

/** Texts of whole blocks. Each second write fails, before anything is written or after all of it. */
function blocksKind(texts: Map<number, Uint8Array>): SinkKind {
  let position: SinkPosition | null = null;
  let writes = 0;
  return {
    kind: 'texts',
    takes: 'blocks',
    batch: { slots: 8, seconds: 0 },
    async open({ tables }) {
      assert.deepEqual(tables, []);
      return {
        positions: async () => (position === null ? [] : [position]),
        async write({ after, blocks, rows, position: next }) {
          assert.deepEqual(after, position);
          assert.equal(rows.size, 0);
          writes += 1;
          if (writes % 4 === 1) throw new Error('nothing was sent');
          for (const { slot, blockhash, text, isVerbatim } of blocks) {
            assert.ok(!texts.has(slot), `slot ${slot} comes twice`);
            assert.ok(Buffer.from(text).includes(blockhash));
            assert.ok(isVerbatim, `slot ${slot} as a node sent it`);
            texts.set(slot, text);
          }
          position = next;
          if (writes % 4 === 3) throw new Error('the answer was lost');
          return next;
        },
        texts: async (first, last) =>
          Array.from(texts, ([slot, text]) => ({ slot, text })).filter(({ slot }) => slot >= first && slot <= last),
        close: async () => undefined,
      };
    },
  };
}

test('a kind that takes blocks gets each once, as the ledger has it, and verify finds one that is another', async (t) => {
  const ledger = await emptyLedger(t);
  await fill(ledger, 11, 90);
  const texts = new Map<number, Uint8Array>();
  const [store, kind] = [await sinkStore(t), blocksKind(texts)];
  // One byte of texts: a block is a batch.
  const settings = { batchSlots: 5, limitBytes: 1 };
  const run = startSink({ store, ledger, kind, sink: openSink('memory', { tables: [] }), settings });
  t.after(run.stop);
  const end = ledger.finalSlot;
  await until(async () => (await readStates(store.read, ['rows'])).get('rows')?.last === end, 'the sink has caught up');
  const { blocks } = ledger.states(11, end);
  assert.deepEqual([...texts.keys()], blocks);
  for (const slot of blocks)
    assert.deepEqual(texts.get(slot), (await ledger.block(slot))!.answer!.text(), `slot ${slot}`);
  const verified = async (id: string): Promise<Findings> => {
    const [first_slot, last_slot] = [11, end];
    const task = { id, sink: 'rows', kind: 'verify' as const, first_slot, last_slot, next_slot: 11, detail: null };
    await addTask(store, { ...task, state: 'open', created_at: 0 });
    const done = await until(async () => {
      const found = await readTask(store.read, id);
      return found?.state === 'open' ? null : found;
    }, 'it is verified');
    return JSON.parse(done.detail!) as Findings;
  };
  const fine = await verified('a');
  assert.deepEqual([fine.rows, fine.differenceCount], [{ blocks: blocks.length }, 0]);
  texts.set(blocks[3]!, Buffer.from('{}'));
  texts.delete(blocks.at(-1)!);
  assert.equal((await verified('b')).differenceCount, 2);
});
