import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CompiledQuery, type KyselyPlugin, type RootOperationNode } from 'kysely';
import { CONCURRENT_TREE } from '../../../plugins/compression/indexing/cnft.ts';
import { createCompressedAssets } from '../../../plugins/compression/rpc/asset-index.ts';
import type { CompressionDb } from '../../../plugins/compression/store/tables.ts';
import { encode, encode32 } from '../../../src/lib/base58.ts';
import type { CompressedAssets } from '../../../src/ports/compressed-assets.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createMethodBed } from '../../helpers/compression-methods.ts';
import { createCompressionTables, keyOf, setHead } from '../../helpers/compression-rows.ts';
import { sqliteStore } from '../../helpers/store.ts';

const KEY = encode32(keyOf(10));
const cursor = (bytes: number) => encode(Buffer.alloc(bytes));
const filters = [{ memcmp: { offset: 0, bytes: 'a' } }];

/** Methods whose tables grow without an end. */
const CALLS: readonly (readonly [string, object])[] = [
  ['getCompressedAccount', { hash: KEY }],
  ['getCompressedAccount', { address: KEY }],
  ['getMultipleCompressedAccounts', { hashes: [KEY, encode32(keyOf(11))] }],
  ['getMultipleCompressedAccounts', { addresses: [KEY, encode32(keyOf(11))] }],
  ['getCompressedAccountsByOwner', { owner: KEY }],
  ['getCompressedAccountsByOwnerV2', { owner: KEY }],
  ['getCompressedAccountsByOwner', { owner: KEY, filters }],
  ['getCompressedBalance', { address: KEY }],
  ['getCompressedBalanceByOwner', { owner: KEY }],
  ['getCompressedTokenAccountsByOwner', { owner: KEY, cursor: cursor(64) }],
  ['getCompressedTokenAccountsByOwner', { owner: KEY, cursor: cursor(64), mint: KEY }],
  ['getCompressedTokenAccountsByDelegate', { delegate: KEY, cursor: cursor(64) }],
  ['getCompressedTokenAccountBalance', { hash: KEY }],
  ['getCompressedTokenAccountBalance', { address: KEY }],
  ['getCompressedTokenBalancesByOwner', { owner: KEY, cursor: cursor(32) }],
  ['getCompressedMintTokenHolders', { mint: KEY, cursor: cursor(40) }],
  ['getCompressionSignaturesForOwner', { owner: KEY, cursor: cursor(72) }],
  ['getLatestCompressionSignatures', { cursor: cursor(72) }],
];

type Noted = Pick<CompiledQuery, 'sql' | 'parameters'>;

/** The same store, whose queries are noted: those that are built, and prebuilt ones. */
function noted(store: Store, queries: Noted[]): Store {
  const compile = (node: RootOperationNode) => store.read.getExecutor().compileQuery(node, { queryId: 'plan' });
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => {
      queries.push(compile(node));
      return node;
    },
    transformResult: async ({ result }) => result,
  };
  const read = new Proxy(store.read.withPlugin(plugin), {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (name === 'executeQuery')
        return (query: CompiledQuery) => {
          queries.push(query);
          return target.executeQuery(query);
        };
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
  return { ...store, dialect: store.dialect, read };
}

test('no query walks through a table, or sorts what an index has in order', async (t) => {
  const store = await sqliteStore(t);
  await createCompressionTables(store);
  await setHead(store, 5);
  for (const [name, params] of CALLS) {
    const queries: Noted[] = [];
    await createMethodBed(noted(store, queries)).text(name, params);
    await checkPlans(store, name, queries);
  }
});

test('assets and their changes are found by indexes', async (t) => {
  const store = await sqliteStore(t);
  await createCompressionTables(store);
  await setHead(store, 5);
  const db = store.read as CompressionDb;
  await store.write(async (tx) => {
    const [id, leaf] = [keyOf(1), new Uint8Array(32)];
    const asset = { id, tree: 70, leaf_index: 1, leaf, seq: 1, slot: 1, state: 0, leaf_seq: 0 };
    await tx.insertMany('compression_assets', Object.keys(asset), [Object.values(asset)]);
    const tree = { id: 70, key: keyOf(2), type: CONCURRENT_TREE, height: 3, seq: 1, root: leaf, next_index: 0 };
    await tx.insertMany('compression_trees', [...Object.keys(tree), 'status'], [[...Object.values(tree), 'ok']]);
  });
  assert.equal((await db.selectFrom('compression_assets').selectAll().execute()).length, 1);
  const page = { ascending: false, limit: 10, skip: 0, cursor: 7, after: new Uint8Array(64), before: null };
  for (const [name, ask] of [
    ['find', (index: CompressedAssets) => index.find([keyOf(1), keyOf(3)])],
    ['owner', (index: CompressedAssets) => index.list({ owner: keyOf(4) }, { most: 10 })],
    ['all', (index: CompressedAssets) => index.list('all', { most: 10 })],
    ['tree', (index: CompressedAssets) => index.list({ tree: keyOf(2) }, { most: 10, isDescending: true })],
    ['burnt', (index: CompressedAssets) => index.list('all', { most: 10, isBurnt: true })],
    ['changes', (index: CompressedAssets) => index.changes({ id: keyOf(1) }, { ...page, after: null })],
    ['changes of a leaf', (index: CompressedAssets) => index.changes({ tree: keyOf(2), leafIndex: 1 }, page)],
  ] as const) {
    const queries: Noted[] = [];
    await ask(createCompressedAssets({ store: noted(store, queries), trees: 'all', missingTo: async () => 5 }));
    await checkPlans(store, name, queries);
  }
});

async function checkPlans(store: Store, name: string, queries: readonly Noted[]): Promise<void> {
  const own = queries.filter(({ sql }) => !sql.includes('from "compression_head"'));
  assert.ok(own.length > 0, name);
  for (const { sql, parameters } of own) {
    const explain = CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]);
    const { rows } = await store.read.executeQuery<{ detail: string }>(explain);
    const steps = rows.map(({ detail }) => detail);
    // The rows of a subquery that is bounded itself, the one row of the head; the trees, of which there are few; all assets, in their order.
    const few =
      name === 'all' || name === 'burnt'
        ? /^SCAN (?!compression_trees|t$|a$|a USING INDEX compression_assets_burnt$)|TEMP B-TREE/
        : /^SCAN (?!looked_at|page$|h$|compression_trees|t$)|TEMP B-TREE/;
    const slow = steps.filter((step) => few.test(step));
    assert.deepEqual(slow, [], `${name}: ${sql}`);
  }
}
