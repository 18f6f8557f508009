import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { dasScenarios, plainAnswer, recordedSource, withOwner } from '../../test/helpers/das-recorded.ts';
import { skipWithoutFixtures } from '../../test/helpers/fixtures.ts';
import { type DasConfig, dasConfig } from './config.ts';
import { assetsByAuthority, assetsByGroup, assetsByOwner, searchAssets } from './lists.ts';
import { readQuestion } from './params.ts';
import { readAssets } from './read-assets.ts';
import { readTokenAccounts } from './token-accounts.ts';

const config = { ...(Value.Default(dasConfig, {}) as DasConfig), dialect: 'metaplex' } as const;

const LISTS: Readonly<Record<string, typeof searchAssets>> = {
  getAssetsByOwner: assetsByOwner,
  getAssetsByAuthority: assetsByAuthority,
  getAssetsByGroup: assetsByGroup,
  searchAssets,
};

/** Lists that cannot be complete without an index. */
const REFUSED: Readonly<Record<string, RegExp>> = {
  later_search_assets_by_creator: /needs ownerAddress, authorityAddress, grouping, tree or compressed/,
  later_search_assets_by_grouping: /is no Core collection/,
  mpl_core_get_assets_by_authority: /sortBy updated is not supported/,
};

const same = <T>(item: T): T => item;

const without = ({ items: _, ...page }: { readonly items: unknown }): object => page;

/** The earlier branch of the reference shows in a list what it shows of a single asset. */
function withoutHolding(item: object): object {
  const { token_info: _, ...asset } = item as { token_info?: unknown; ownership: { ownership_model: string } };
  const { ownership } = asset;
  return ownership.ownership_model === 'token' ? { ...asset, ownership: { ...ownership, owner: '' } } : asset;
}

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
      const list = LISTS[method];
      if (list !== undefined) {
        test(`${scenario.name} ${at}`, async (t) => {
          const isLater = scenario.name.startsWith('later_');
          const parts = {
            ...{ source, compressed: undefined, documents: undefined, prices: undefined, documentWaitMs: 0, config },
            options: {
              ...({ dialect: 'metaplex' } as const),
              ...{ showUnverifiedCollections: false, showCollectionMetadata: false },
              showFungible: question.options['showFungible'] === true || isLater,
            } as const,
          };
          const reason = REFUSED[scenario.name];
          if (reason !== undefined) {
            await assert.rejects(list(question, parts), reason);
            return t.skip('refused: an index would have to be complete');
          }
          const { items, ...page } = plainAnswer(await list(question, parts)) as { readonly items: readonly object[] };
          const wanted = expected as { readonly items: readonly object[] };
          assert.deepEqual(page, without(wanted));
          assert.deepEqual(items.map(isLater ? same : withoutHolding), wanted.items.map(isLater ? same : withOwner));
        });
      }
      if (method !== 'getAsset' && method !== 'getAssetBatch') continue;
      test(`${scenario.name} ${at}`, async () => {
        const ids = (params['ids'] ?? [params['id']]) as string[];
        const { assets: found } = await readAssets(
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
