import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CompiledQuery, type KyselyPlugin, type RootOperationNode } from 'kysely';
import { encode, encode32 } from '../../../src/lib/base58.ts';
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

/** The same store, whose queries are noted. */
function noted(store: Store, nodes: RootOperationNode[]): Store {
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => {
      nodes.push(node);
      return node;
    },
    transformResult: async ({ result }) => result,
  };
  const read = store.read.withPlugin(plugin);
  return { ...store, dialect: store.dialect, read };
}

test('no query walks through a table, or sorts what an index has in order', async (t) => {
  const store = await sqliteStore(t);
  await createCompressionTables(store);
  await setHead(store, 5);
  for (const [name, params] of CALLS) {
    const nodes: RootOperationNode[] = [];
    await createMethodBed(noted(store, nodes)).text(name, params);
    const queries = nodes.map((node) => store.read.getExecutor().compileQuery(node, { queryId: 'plan' }));
    const own = queries.filter(({ sql }) => !sql.includes('"compression_head"'));
    assert.ok(own.length > 0, name);
    for (const { sql, parameters } of own) {
      const explain = CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]);
      const { rows } = await store.read.executeQuery<{ detail: string }>(explain);
      const steps = rows.map(({ detail }) => detail);
      // The rows of a subquery that is bounded itself.
      const slow = steps.filter((step) => /^SCAN (?!looked_at)|TEMP B-TREE/.test(step));
      assert.deepEqual(slow, [], `${name}: ${sql}`);
    }
  }
});
