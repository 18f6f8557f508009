import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { createSystemClock } from '../../src/adapters/clock.ts';
import { migrate } from '../../src/store/migrate.ts';
import { dasScenarios, plainAnswer, recordedSource, withOwner } from '../../test/helpers/das-recorded.ts';
import { skipWithoutFixtures } from '../../test/helpers/fixtures.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { sqliteStore } from '../../test/helpers/store.ts';
import { type DasConfig, dasConfig } from './config.ts';
import { createFillJobs, fill } from './indexing/fill.ts';
import { type AssetIndex, createAssetIndex } from './indexing/stored.ts';
import { type FollowKind, migrations } from './indexing/tables.ts';
import { assetsByAuthority, assetsByGroup, assetsByOwner, searchAssets } from './lists.ts';
import { readQuestion } from './params.ts';
import { readAssets } from './read-assets.ts';
import type { AccountSource } from './source.ts';
import { readTokenAccounts } from './token-accounts.ts';

const config = { ...(Value.Default(dasConfig, {}) as DasConfig), dialect: 'metaplex' } as const;

const LISTS: Readonly<Record<string, typeof searchAssets>> = {
  getAssetsByOwner: assetsByOwner,
  getAssetsByAuthority: assetsByAuthority,
  getAssetsByGroup: assetsByGroup,
  searchAssets,
};

/** Lists that cannot be complete without an index: what has to be followed for them. */
const NEEDS_INDEX: Readonly<Record<string, readonly [RegExp, FollowKind, (params: Params) => unknown]>> = {
  later_search_assets_by_creator: [/das.follow.creators/, 'creator', (params) => params['creatorAddress']],
  later_search_assets_by_grouping: [
    /das.follow.collections/,
    'collection',
    (params) => (params['grouping'] as readonly string[])[1],
  ],
  mpl_core_get_assets_by_authority: [/is not indexed/, 'authority', (params) => params['authorityAddress']],
};

type Params = Readonly<Record<string, unknown>>;

/** The index of a scenario's accounts, of which one thing is followed. */
async function recordedIndex(t: TestContext, source: AccountSource, kind: FollowKind, key: string) {
  const store = await sqliteStore(t);
  await migrate(store, [{ scope: 'das', migrations }]);
  const parts = { store, clock: createSystemClock(), log: createMemoryLog(), isFinal: true, source: () => source };
  const jobs = createFillJobs(parts, { requeue: async () => 0 }, async () => 0);
  await jobs.follow({ [kind]: [key] });
  await store.write(async ({ db }) => void (await db.updateTable('das_state').set({ slot: NEWEST_SLOT }).execute()));
  assert.equal(await fill(parts, { kind, key }, new AbortController().signal), 'done');
  return createAssetIndex(store, 1_000_000);
}

/** At or above that of every recorded account. */
const NEWEST_SLOT = 1_000_000_000;

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
          const needed = NEEDS_INDEX[scenario.name];
          let index: AssetIndex | null = null;
          if (needed !== undefined) {
            await assert.rejects(list(question, { ...parts, index }), needed[0]);
            index = await recordedIndex(t, source, needed[1], needed[2](params) as string);
          }
          const answer = await list(question, { ...parts, index, source: index?.source(source) ?? source });
          const { items, ...page } = plainAnswer(answer) as { readonly items: readonly object[] };
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
          { source, index: null, compressed: undefined, documents: undefined, prices: undefined, documentWaitMs: 0 },
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
