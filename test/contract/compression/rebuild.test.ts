/** Pages are a matter of the rows: thrown away or damaged they come back as they were, and a walk finds what is wrong with them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CompressionDb, TreeRow } from '../../../plugins/compression/store/tables.ts';
import { createHashing } from '../../../plugins/compression/trees/hashing.ts';
import { openPage, sealPage } from '../../../plugins/compression/trees/page-book.ts';
import { rebuildTree } from '../../../plugins/compression/trees/rebuild.ts';
import { walkTree } from '../../../plugins/compression/verify-command.ts';
import type { Store } from '../../../src/ports/store.ts';
import { nodeOffset } from '../../../src/solana/merkle/path.ts';
import {
  blocksOf,
  createIndexingBed,
  loadRecording,
  readEverything,
  recordingNames,
} from '../../helpers/compression.ts';
import { skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { eachStore, type StoreEngine } from '../../helpers/store.ts';

const skip = skipWithoutFixtures;
const SIGNAL = new AbortController().signal;
const hashing = createHashing({ add: () => undefined });
const PARTIAL = new Set(['address_with_nullifiers', 'nullfiier_and_address_queue_transactions', 'index_transaction']);
const whole = recordingNames.filter((name) => !PARTIAL.has(name));

async function indexed(store: Store, name: string): Promise<TreeRow[]> {
  const recording = loadRecording(name);
  const { expected, trees } = recording;
  const bed = await createIndexingBed(store, { programId: expected.compressionProgramId, trees });
  await bed.applyAll(blocksOf(recording));
  return await readTrees(store);
}

const readTrees = (store: Store): Promise<TreeRow[]> =>
  (store.read as CompressionDb).selectFrom('compression_trees').selectAll().orderBy('id').execute();

const setStatus = async (store: Store, status: string): Promise<void> =>
  void (await store.write((tx) => (tx.db as CompressionDb).updateTable('compression_trees').set({ status }).execute()));

/** The lowest page of the largest tree. */
async function firstPage(store: Store, [tree]: readonly TreeRow[]) {
  assert.ok(tree !== undefined);
  const row = await (store.read as CompressionDb)
    .selectFrom('compression_pages')
    .selectAll()
    .where('id', '>=', tree.id * 2 ** 37)
    .orderBy('id')
    .executeTakeFirstOrThrow();
  return { tree, id: row.id, bytes: Buffer.from(row.bytes) };
}

const writePage = async (store: Store, id: number, bytes: Uint8Array): Promise<void> =>
  void (await store.write((tx) =>
    (tx.db as CompressionDb).updateTable('compression_pages').set({ bytes }).where('id', '=', id).execute(),
  ));

eachStore('stored trees', (engine: StoreEngine) => {
  for (const name of whole)
    test(`pages come back from the rows, byte for byte: ${name}`, { skip }, async (t) => {
      const store = await engine.store(t);
      const trees = await indexed(store, name);
      const before = await readEverything(store, ['compression_pages']);
      await setStatus(store, 'diverged');
      await store.write((tx) => (tx.db as CompressionDb).deleteFrom('compression_pages').execute());
      for (const tree of trees) {
        const root = await rebuildTree({ store, hashing }, tree, SIGNAL);
        assert.deepEqual(Buffer.from(root ?? []), Buffer.from(tree.root));
        assert.deepEqual((await walkTree(store.read as CompressionDb, hashing, tree)).faults, []);
      }
      assert.deepEqual(await readEverything(store, ['compression_pages']), before);
    });

  test('a tree whose proofs are no longer withheld is not rebuilt', { skip }, async (t) => {
    const store = await engine.store(t);
    const [tree] = await indexed(store, 'lamport_transfers');
    const before = await readEverything(store);
    assert.equal(await rebuildTree({ store, hashing }, tree as TreeRow, SIGNAL), null);
    assert.deepEqual(await readEverything(store), before);
  });

  test('a walk finds damaged pages, wrong nodes, wrong leaves, lost pages and a wrong root', { skip }, async (t) => {
    const store = await engine.store(t);
    const trees = (await indexed(store, 'batched_tree_transactions')).sort((a, b) => b.next_index - a.next_index);
    const { tree, id, bytes } = await firstPage(store, trees);
    const faults = async (row = tree) => (await walkTree(store.read as CompressionDb, hashing, row)).faults.join('; ');
    assert.equal(await faults(), '');
    const damaged = Buffer.from(bytes);
    damaged.writeUInt8((damaged[100] ?? 0) ^ 1, 100);
    await writePage(store, id, damaged);
    assert.match(await faults(), /is not what was written/);
    for (const [depth, fault] of [
      [0, /leaf 1 is not that of the rows; .*is not the hash of those below it/],
      [1, /is not the hash of those below it/],
      [5, /is not the hash of those below it; .*is not the top of the page below it/],
    ] as const) {
      const nodes = Buffer.from(openPage(bytes) as Uint8Array);
      nodes[nodeOffset(depth, 1) + 31]! ^= 1;
      await writePage(store, id, sealPage(nodes));
      assert.match(await faults(), fault);
    }
    await store.write((tx) => (tx.db as CompressionDb).deleteFrom('compression_pages').where('id', '=', id).execute());
    assert.match(await faults(), /is in no page/);
    await store.write((tx) => (tx.db as CompressionDb).insertInto('compression_pages').values({ id, bytes }).execute());
    assert.equal(await faults(), '');
    assert.match(await faults({ ...tree, root: new Uint8Array(32) }), /another root/);
  });
});
