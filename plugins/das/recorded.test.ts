import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { dasScenarios, plainAnswer, recordedSource, withOwner } from '../../test/helpers/das-recorded.ts';
import { skipWithoutFixtures } from '../../test/helpers/fixtures.ts';
import { type DasConfig, dasConfig } from './config.ts';
import { readQuestion } from './params.ts';
import { readAssets } from './read-assets.ts';
import { readTokenAccounts } from './token-accounts.ts';

const config = { ...(Value.Default(dasConfig, {}) as DasConfig), dialect: 'metaplex' } as const;

suite('recorded assets, from accounts', { skip: skipWithoutFixtures }, () => {
  for (const scenario of dasScenarios()) {
    if (scenario.transactions.length > 0) continue;
    for (const [at, { method, params, expected }] of scenario.requests.entries()) {
      const question = readQuestion(params, 'metaplex');
      const source = recordedSource(scenario);
      if (method === 'getTokenAccounts') {
        test(`${scenario.name} ${at}`, async () => {
          assert.deepEqual(plainAnswer(await readTokenAccounts(question, source, config)), expected);
        });
      }
      if (method !== 'getAsset' && method !== 'getAssetBatch') continue;
      test(`${scenario.name} ${at}`, async () => {
        const ids = (params['ids'] ?? [params['id']]) as string[];
        const found = await readAssets(
          ids,
          { source, compressed: undefined, documents: undefined, prices: undefined, documentWaitMs: 0 },
          {
            dialect: 'metaplex',
            // The later branch of the reference shows `token_info` always, as the hosted API does.
            showFungible: question.options['showFungible'] === true || scenario.name.startsWith('later_'),
            showUnverifiedCollections: question.options['showUnverifiedCollections'] === true,
            showCollectionMetadata: false,
          },
        );
        const wanted = (Array.isArray(expected) ? expected : [expected]) as unknown[];
        assert.deepEqual(plainAnswer(ids.map((id) => found.get(id) ?? null)), wanted.map(withOwner));
      });
    }
  }
});
