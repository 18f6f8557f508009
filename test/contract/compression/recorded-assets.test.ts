/** Recorded compressed assets on both engines: in every order of their transactions the answer is that of the reference. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { createAssetIndex } from '../../../plugins/compression/rpc/asset-index.ts';
import type { Db } from '../../../plugins/compression/store/tables.ts';
import { type DasConfig, dasConfig } from '../../../plugins/das/config.ts';
import { searchAssets } from '../../../plugins/das/lists.ts';
import { readQuestion } from '../../../plugins/das/params.ts';
import { readAssets } from '../../../plugins/das/read-assets.ts';
import type { Store } from '../../../src/ports/store.ts';
import { createCnftBed } from '../../helpers/cnft-bed.ts';
import { type DasScenario, dasScenarios, plainAnswer, recordedSource } from '../../helpers/das-recorded.ts';
import { skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { eachStore } from '../../helpers/store.ts';

function* orders<T>(list: readonly T[]): Generator<readonly T[]> {
  if (list.length <= 1) yield list;
  for (const [at, first] of list.entries())
    for (const rest of list.length > 1 ? orders(list.filter((_, i) => i !== at)) : []) yield [first, ...rest];
}

async function clear(store: Store): Promise<void> {
  await store.write(async (tx) => {
    for (const table of ['trees', 'pages', 'assets', 'metadata', 'changes', 'pending', 'head'] as const)
      await (tx.db as Db).deleteFrom(`compression_${table}`).execute();
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

async function ask(
  store: Store,
  scenario: DasScenario,
  method: string,
  params: Record<string, unknown>,
): Promise<unknown> {
  const question = readQuestion(params, 'metaplex');
  const parts = {
    ...{ source: recordedSource(scenario), compressed: createAssetIndex(store, true), documents: undefined },
    ...{ prices: undefined, documentWaitMs: 0, config: { ...config, dialect: 'metaplex' as const } },
    options: {
      ...{ dialect: 'metaplex' as const, showFungible: false, showCollectionMetadata: false },
      showUnverifiedCollections: question.options['showUnverifiedCollections'] === true,
    },
  };
  if (method === 'searchAssets') return plainAnswer(await searchAssets(question, parts));
  const id = params['id'] as string;
  return plainAnswer((await readAssets([id], parts, parts.options)).get(id) ?? null);
}
