import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRootCheck } from '../../../plugins/compression/chain/root-check.ts';
import type { CompressionDb, TreeRow } from '../../../plugins/compression/store/tables.ts';
import { HISTORY } from '../../../plugins/compression/trees/hashing.ts';
import type { ChainRoot } from '../../../plugins/compression/trees/tree-reader.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createCompressionTables, keyOf, treeRow } from '../../helpers/compression-rows.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { eachStore } from '../../helpers/store.ts';

const SIGNAL = new AbortController().signal;
const OURS = keyOf(50);
const THEIRS = keyOf(51);

interface Bed {
  /** What the chain says next: its newest sequence number, and the root that it has for ours. */
  chain: ChainRoot;
  readonly asked: number[];
  pass(): Promise<TreeRow>;
  set(changes: Partial<TreeRow>): Promise<void>;
  moveHead(slot: number): Promise<void>;
}

async function makeBed(store: Store, tree: Partial<TreeRow> = {}): Promise<Bed> {
  await createCompressionTables(store);
  const row = treeRow(1, { seq: 10, root: OURS, status: 'unverified', ...tree });
  await store.write(async (tx) => {
    await (tx.db as CompressionDb).insertInto('compression_trees').values(row).execute();
    await (tx.db as CompressionDb)
      .insertInto('compression_head')
      .values({ id: 1, slot: 100, block_time: null })
      .execute();
  });
  const asked: number[] = [];
  const bed: Bed = {
    asked,
    chain: { seq: 10, root: OURS, slot: 100 },
    async pass() {
      await check.pass(SIGNAL);
      return (await (store.read as CompressionDb).selectFrom('compression_trees').selectAll().executeTakeFirst())!;
    },
    set: async (changes) =>
      void (await store.write((tx) =>
        (tx.db as CompressionDb).updateTable('compression_trees').set(changes).execute(),
      )),
    moveHead: async (slot) =>
      void (await store.write((tx) =>
        (tx.db as CompressionDb).updateTable('compression_head').set({ slot }).execute(),
      )),
  };
  const reader = {
    async one(key: Uint8Array) {
      const { type, height } = row;
      const known = { key, type, height, queue: null, nextTree: keyOf(9), rootCapacity: 60, nextIndex: 0 };
      return { kind: 'tree', slot: bed.chain.slot, tree: { ...known, seq: bed.chain.seq } } as const;
    },
    async rootAt(_: unknown, seq: number) {
      asked.push(seq);
      return bed.chain;
    },
  };
  const check = createRootCheck({ store, reader, log: createMemoryLog() });
  return bed;
}

eachStore('roots against the chain', (engine) => {
  test('the same root makes a tree ok, once for each sequence number', async (t) => {
    const bed = await makeBed(await engine.store(t));
    const { status, verified_seq, verified_slot } = await bed.pass();
    assert.deepEqual({ status, verified_seq, verified_slot }, { status: 'ok', verified_seq: 10, verified_slot: 100 });
    await bed.pass();
    assert.deepEqual(bed.asked, [10]);
    await bed.set({ seq: 11 });
    await bed.pass();
    assert.deepEqual(bed.asked, [10, 11]);
  });

  test('another root refuses a tree when it is seen twice for the same sequence number', async (t) => {
    const bed = await makeBed(await engine.store(t));
    // The chain continues beyond our newest slot.
    bed.chain = { seq: 12, root: THEIRS, slot: 500 };
    assert.equal((await bed.pass()).status, 'unverified');
    await bed.set({ seq: 11 });
    bed.chain = { seq: 13, root: THEIRS, slot: 500 };
    assert.equal((await bed.pass()).status, 'unverified');
    const { status, reason, expected_root, computed_root } = await bed.pass();
    assert.deepEqual([status, reason], ['diverged', 'root']);
    assert.deepEqual(
      [expected_root, computed_root].map((root) => Buffer.from(root ?? []).toString('hex')),
      [Buffer.from(THEIRS).toString('hex'), Buffer.from(OURS).toString('hex')],
    );
  });

  test('a doubt that goes away leaves nothing behind', async (t) => {
    const bed = await makeBed(await engine.store(t));
    for (const root of [THEIRS, OURS, THEIRS]) {
      bed.chain = { seq: 10, root, slot: 100 };
      assert.notEqual((await bed.pass()).status, 'diverged');
      await bed.set({ status: 'unverified' });
    }
  });

  test('a chain that is behind us at our own slot contradicts us', async (t) => {
    const bed = await makeBed(await engine.store(t));
    bed.chain = { seq: 9, root: OURS, slot: 100 };
    assert.equal((await bed.pass()).status, 'unverified');
    assert.equal((await bed.pass()).status, 'diverged');
  });

  test('a root that the chain may not keep any more says nothing', async (t) => {
    const bed = await makeBed(await engine.store(t), { root_capacity: 60 });
    bed.chain = { seq: 40, root: THEIRS, slot: 500 };
    for (let pass = 0; pass < 3; pass += 1) assert.equal((await bed.pass()).status, 'unverified');
    bed.chain = { seq: 39, root: OURS, slot: 500 };
    assert.equal((await bed.pass()).status, 'ok');
  });

  test('the account provides an unknown capacity', async (t) => {
    const bed = await makeBed(await engine.store(t), { root_capacity: null });
    const { root_capacity, next_tree, status } = await bed.pass();
    assert.deepEqual([root_capacity, Buffer.compare(next_tree ?? OURS, keyOf(9)), status], [60, 0, 'ok']);
  });

  test('an index past the slot of the tree account must have reached its sequence number', async (t) => {
    const bed = await makeBed(await engine.store(t));
    bed.chain = { seq: 12, root: OURS, slot: 110 };
    assert.equal((await bed.pass()).status, 'ok');
    await bed.moveHead(109);
    assert.equal((await bed.pass()).status, 'ok');
    await bed.moveHead(110);
    const { status, reason } = await bed.pass();
    assert.deepEqual([status, reason], ['gap', HISTORY]);
    // What was missing has come: the chain says when that is all.
    await bed.set({ seq: 11 });
    assert.equal((await bed.pass()).status, 'gap');
    assert.equal((await bed.pass()).status, 'gap');
    await bed.set({ seq: 12 });
    for (let pass = 0; pass < 2; pass += 1) await bed.pass();
    assert.equal((await bed.pass()).status, 'ok');
  });

  test('trees withheld for other reasons are not changed', async (t) => {
    const bed = await makeBed(await engine.store(t), { status: 'diverged', reason: 'decode' });
    assert.equal((await bed.pass()).status, 'diverged');
    await bed.set({ status: 'gap', reason: null });
    assert.equal((await bed.pass()).status, 'gap');
    assert.deepEqual(bed.asked, []);
  });
});
