/** What is not as it should be: unknown and foreign trees, events that make no sense, layouts of other deployments. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DecodedBlock } from '../../../plugins/compression/indexing/decode-block.ts';
import { createCompressionIndexer } from '../../../plugins/compression/indexing/processor.ts';
import type { CompressionDb } from '../../../plugins/compression/store/tables.ts';
import { createHashing } from '../../../plugins/compression/trees/hashing.ts';
import { seedTrees } from '../../../plugins/compression/trees/tree-book.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { Store } from '../../../src/ports/store.ts';
import type { CompressionEvent } from '../../../src/solana/compression/events.ts';
import { blocksOf, createIndexingBed, loadRecording, readEverything } from '../../helpers/compression.ts';
import { createCompressionTables } from '../../helpers/compression-rows.ts';
import { worldTrees } from '../../helpers/compression-world.ts';
import { skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { sqliteStore } from '../../helpers/store.ts';

const skip = skipWithoutFixtures;
const V2 = 'HLKs5NJ8FXkJg8BrzJt56adFYYuwg5etzDtBbQYTsixu';

test('a tree that is neither declared nor can be read stops the block and is named', { skip }, async (t) => {
  const store = await sqliteStore(t);
  const bed = await createIndexingBed(store);
  const [block] = blocksOf(loadRecording('four_cpi_events'));
  const queueOrTree = new RegExp(`${V2}|6L7SzhYB3anwEQ9cphpJ1U7Scwj57bx2xueReg7R9cKU`);
  await assert.rejects(bed.apply(block!), (error) => {
    assert.ok(error instanceof CodedError);
    assert.equal(error.code, 'COMPRESSION_TREE_UNDECLARED');
    assert.match(error.message, queueOrTree);
    assert.match(error.message, /compression\.trees/);
    return true;
  });
});

test('accounts of a foreign tree are left out, and it is asked about once', { skip }, async (t) => {
  const store = await sqliteStore(t);
  let asked = 0;
  const source = {
    async lookUp() {
      asked += 1;
      return { foreign: 'a test says so' };
    },
  };
  const bed = await createIndexingBed(store, { source });
  const [block] = blocksOf(loadRecording('four_cpi_events'));
  await bed.apply(block!);
  await bed.apply({ ...block!, slot: block!.slot + 1 });
  assert.equal(asked, 1);
  const rows = await readEverything(store);
  assert.deepEqual([rows['compression_accounts']?.length, rows['compression_foreign']?.length], [0, 1]);
  assert.equal(bed.lines.filter(({ level }) => level === 'warn').length, 1);
});

test('another deployment of the programs means nothing', { skip }, async (t) => {
  const store = await sqliteStore(t);
  const bed = await createIndexingBed(store, { programId: '5QPEJ5zDsVou9FQS3KCauKswM3VwBEBu4dpL9xTqkWwN' });
  for (const name of ['lamport_transfers', 'address_with_nullifiers'])
    await bed.applyAll(blocksOf(loadRecording(name)));
  const rows = await readEverything(store);
  assert.deepEqual([rows['compression_accounts'], rows['compression_transactions']], [[], []]);
});

const ONES = new Uint8Array(32).fill(1);
const batch = { oldNextIndex: 0, newNextIndex: 2, newRoot: ONES, rootIndex: 1, seq: 1n, outputQueue: null };
const [STATE_V1, ADDRESS_V1, STATE_V2] = worldTrees.map(({ key }) => key) as [Uint8Array, Uint8Array, Uint8Array];
const SENSELESS: Readonly<Record<string, CompressionEvent>> = {
  'a batch of a tree without batches': { kind: 'append', tree: STATE_V1, ...batch },
  'a batch that ends before it begins': { kind: 'append', tree: STATE_V2, ...batch, oldNextIndex: 9 },
  'a batch beyond the tree': { kind: 'append', tree: STATE_V2, ...batch, oldNextIndex: 63, newNextIndex: 65 },
  'a leaf beyond the tree': { kind: 'nullify', tree: STATE_V1, leafIndexes: [64], seq: 1n },
  'a number beyond all numbers': { kind: 'nullify', tree: STATE_V1, leafIndexes: [0], seq: 2n ** 63n },
  'an address leaf that is not the hash of its values': {
    kind: 'indexed',
    tree: ADDRESS_V1,
    seq: 4n,
    updates: [
      {
        low: { value: ONES, nextIndex: 2, nextValue: ONES, index: 0 },
        lowHash: ONES,
        high: { value: ONES, nextIndex: 1, nextValue: ONES, index: 2 },
        highHash: ONES,
      },
    ],
  },
};

for (const [name, event] of Object.entries(SENSELESS)) {
  test(`${name}: its tree is no longer trusted, and nothing else happens`, async (t) => {
    const store = await sqliteStore(t);
    const { apply, trees } = await openTrees(store);
    const before = await trees();
    const signature = new Uint8Array(64);
    await apply(10, [{ signature, events: [event], faults: [] }]);
    const key = event.kind === 'transaction' ? ONES : event.tree;
    const wanted = before.map((tree) =>
      Buffer.compare(tree.key, key) === 0 ? { ...tree, status: 'diverged', reason: 'decode' } : tree,
    );
    assert.deepEqual(await trees(), wanted);
  });
}

test('an instruction that cannot be read casts doubt on the trees that it names, and on no other', async (t) => {
  const store = await sqliteStore(t);
  const { apply, trees, lines } = await openTrees(store);
  await apply(10, [{ signature: new Uint8Array(64), events: [], faults: [{ reason: 'x', trees: [STATE_V2, ONES] }] }]);
  assert.deepEqual(
    (await trees()).map(({ status }) => status),
    ['unverified', 'unverified', 'diverged', 'unverified'],
  );
  assert.ok(lines.some(({ message }) => message === 'an instruction of a compression program cannot be read'));
});

async function openTrees(store: Store) {
  await createCompressionTables(store);
  const hashing = createHashing({ add: () => undefined });
  await store.write((tx) => seedTrees(tx, hashing, worldTrees));
  const log = createMemoryLog();
  const counter = { add: () => undefined, with: () => counter };
  const config = { programId: '', verifyChain: true };
  const indexer = createCompressionIndexer({ log, metrics: { counter: () => counter }, config, hashing });
  return {
    lines: log.lines,
    trees: () => (store.read as CompressionDb).selectFrom('compression_trees').selectAll().orderBy('id').execute(),
    async apply(slot: number, transactions: DecodedBlock['transactions']) {
      const block = { slot, blockTime: null, transactions, others: [], newTrees: [], foreign: [] };
      await store.write((tx) => indexer.apply(tx, block, { isFinal: false }));
    },
  };
}
