/** Recorded compressed assets on both engines: in every order of their transactions the answer is that of the reference. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { createCompressedAssets } from '../../../plugins/compression/rpc/asset-index.ts';
import type { CompressionDb } from '../../../plugins/compression/store/tables.ts';
import { type DasConfig, dasConfig } from '../../../plugins/das/config.ts';
import { searchAssets } from '../../../plugins/das/lists.ts';
import { readQuestion } from '../../../plugins/das/params.ts';
import { readAssets, readOptionsOf } from '../../../plugins/das/read-assets.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Store } from '../../../src/ports/store.ts';
import { hashLeaf } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { createModelTree, mintOf, type TreeCall, treeTransaction } from '../../helpers/bubblegum.ts';
import { createCnftBed } from '../../helpers/cnft-harness.ts';
import {
  type DasScenario,
  dasScenarios,
  plainAnswer,
  recordedDocuments,
  recordedSource,
} from '../../helpers/das-recorded.ts';
import { skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { eachStore, sqliteStore } from '../../helpers/store.ts';

function* orders<T>(list: readonly T[]): Generator<readonly T[]> {
  if (list.length <= 1) yield list;
  for (const [at, first] of list.entries())
    for (const rest of list.length > 1 ? orders(list.filter((_, i) => i !== at)) : []) yield [first, ...rest];
}

async function clear(store: Store): Promise<void> {
  await store.write(async (tx) => {
    for (const table of ['trees', 'pages', 'assets', 'metadata', 'changes', 'pending', 'head'] as const)
      await (tx.db as CompressionDb).deleteFrom(`compression_${table}`).execute();
  });
}

const config = Value.Default(dasConfig, {}) as DasConfig;
const scenarios = dasScenarios('compressed');

eachStore('recorded compressed assets', (engine) => {
  for (const scenario of scenarios) {
    test(scenario.name, { skip: skipWithoutFixtures }, async (t) => {
      const store = await engine.store(t);
      const bed = await createCnftBed(store);
      const all = [...orders(scenario.transactions)];
      for (const order of engine.dialect === 'sqlite' ? all : all.slice(-1)) {
        await clear(store);
        for (const { getTransaction } of order) await bed.apply(getTransaction.slot, [getTransaction]);
        for (const { method, params, expected } of scenario.requests)
          assert.deepEqual(await ask(store, scenario, method, params), expected);
      }
    });
  }
});

interface Shown {
  readonly burnt: boolean;
  readonly compression: { readonly asset_hash: string; readonly seq: number };
}

test('a burnt asset keeps its last leaf; what does not fit a leaf, or is not of Bubblegum, is no asset', async (t) => {
  const store = await sqliteStore(t);
  const bed = await createCnftBed(store);
  const tree = createModelTree(new Uint8Array(32).fill(77), 4);
  let slot = 1;
  const apply = (...calls: readonly TreeCall[]) => bed.apply(++slot, [treeTransaction(slot, slot, calls)]);
  const call = { call: 'replace', tree: tree.key } as const;
  await apply({ ...call, call: 'start', told: tree.started() });
  const ids: string[] = [];
  const mint = async (leaf: number, data: Uint8Array | null, authority?: Uint8Array) => {
    const made = mintOf(tree.key, leaf, 40 + leaf, `Leaf ${leaf}`);
    const by = authority === undefined ? {} : { authority };
    const told = tree.set(leaf, hashLeaf(made.schema));
    await apply({ ...call, told, schema: made.schema, data: data ?? made.data, ...by });
    ids.push(encode32(made.schema.id));
    return encode32(hashLeaf(made.schema));
  };
  const leaf = await mint(0, null);
  await mint(1, mintOf(tree.key, 1, 41, 'Another name').data);
  await mint(2, null, new Uint8Array(32).fill(78));
  await apply({ ...call, told: tree.set(0, new Uint8Array(32)), data: Buffer.from('73d222f0e88fb710', 'hex') });
  const scenario = { name: '', accounts: [], transactions: [], requests: [] };
  const show = (id: string) => ask(store, scenario, 'getAsset', { id }) as Promise<Shown | null>;
  const burnt = await show(ids[0]!);
  assert.deepEqual([burnt?.burnt, burnt?.compression.asset_hash, burnt?.compression.seq], [true, leaf, 4]);
  await assert.rejects(show(ids[1]!), /no indexed instruction has the metadata/);
  assert.equal(await show(ids[2]!), null);
  const proofs = await bed.call<Record<string, unknown>>('getAssetProofBatch', { ids });
  assert.deepEqual(
    ids.map((id) => proofs[id] !== null),
    [false, true, false],
  );
});

async function ask(
  store: Store,
  scenario: DasScenario,
  method: string,
  params: Record<string, unknown>,
): Promise<unknown> {
  const question = readQuestion(params, 'metaplex');
  const parts = {
    source: recordedSource(scenario),
    compressed: createCompressedAssets({ store, trees: 'all', missingTo: async () => null }),
    documents: recordedDocuments(scenario),
    index: null,
    prices: undefined,
    documentWaitMs: 0,
    group: '',
    config: { ...config, dialect: 'metaplex' as const },
    options: readOptionsOf(question, 'metaplex'),
  };
  if (method === 'searchAssets') return plainAnswer(await searchAssets(question, parts));
  const id = params['id'] as string;
  return plainAnswer((await readAssets([id], parts, parts.options)).assets.get(id) ?? null);
}
