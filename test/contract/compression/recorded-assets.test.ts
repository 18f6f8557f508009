/** Recorded compressed assets on both engines: in every order of their transactions the answer is that of the reference. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAssetIndex } from '../../../plugins/compression/rpc/asset-index.ts';
import type { Db } from '../../../plugins/compression/store/tables.ts';
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

const scenarios = dasScenarios('compressed');

eachStore('recorded compressed assets', (engine) => {
  for (const scenario of scenarios) {
    const requests = scenario.requests.filter(({ method }) => method === 'getAsset');
    if (requests.length === 0) continue;
    test(scenario.name, { skip: skipWithoutFixtures }, async (t) => {
      const store = await engine.store(t);
      const bed = await createCnftBed(store);
      const all = [...orders(scenario.transactions)];
      for (const order of engine.dialect === 'sqlite' ? all : all.slice(-1)) {
        await clear(store);
        for (const { getTransaction } of order) await bed.apply(getTransaction.slot, [getTransaction]);
        for (const { params, expected } of requests) assert.deepEqual(await ask(store, scenario, params), expected);
      }
    });
  }
});

async function ask(store: Store, scenario: DasScenario, params: Record<string, unknown>): Promise<unknown> {
  const { options } = readQuestion(params, 'metaplex');
  const id = params['id'] as string;
  const parts = { documents: undefined, prices: undefined, documentWaitMs: 0, source: recordedSource(scenario) };
  const found = await readAssets(
    [id],
    { ...parts, compressed: createAssetIndex(store, true) },
    {
      ...{ dialect: 'metaplex', showFungible: false, showCollectionMetadata: false },
      showUnverifiedCollections: options['showUnverifiedCollections'] === true,
    },
  );
  return plainAnswer(found.get(id) ?? null);
}
