import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import { createSystemClock } from '../../src/adapters/clock.ts';
import { encode32 } from '../../src/lib/base58.ts';
import { editionAddress } from '../../src/solana/addresses.ts';
import { CORE_PROGRAM, METADATA_PROGRAM } from '../../src/solana/programs.ts';
import { migrate } from '../../src/store/migrate.ts';
import {
  type DasScenario,
  dasScenarios,
  plainAnswer,
  recordedDocuments,
  recordedSource,
  withOwner,
} from '../../test/helpers/das-recorded.ts';
import { skipWithoutFixtures } from '../../test/helpers/fixtures.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { createSfc32, type Sfc32 } from '../../test/helpers/sfc32.ts';
import { sqliteStore } from '../../test/helpers/store.ts';
import { type DasConfig, dasConfig } from './config.ts';
import { createAssetIndex } from './indexing/asset-index.ts';
import { createFillJobs, fillFollowed } from './indexing/fill.ts';
import { type FollowKind, migrations } from './indexing/tables.ts';
import {
  assetsByAuthority,
  assetsByCreator,
  assetsByGroup,
  assetsByOwner,
  grouping,
  IncompleteList,
  nftEditions,
  searchAssets,
} from './lists.ts';
import { type DasRequest, readQuestion } from './params.ts';
import { type AssetReadOptions, type ReadParts, readAssets, readOptionsOf } from './read-assets.ts';
import type { AccountSource } from './source.ts';
import { readTokenAccounts } from './token-accounts.ts';

const config = { ...(Value.Default(dasConfig, {}) as DasConfig), dialect: 'metaplex' } as const;

const LISTS: Readonly<Record<string, typeof searchAssets>> = {
  getAssetsByOwner: assetsByOwner,
  getAssetsByAuthority: assetsByAuthority,
  getAssetsByGroup: assetsByGroup,
  getAssetsByCreator: assetsByCreator,
  searchAssets,
};

/** Why a list cannot be complete, or be in order, without an index; null for all others, which are answered without one. */
function needsIndex({ params, expected }: DasScenario['requests'][number], { accounts }: DasScenario): RegExp | null {
  if (params['creatorAddress'] !== undefined) return /das.follow.creators/;
  const group = params['groupValue'] ?? (params['grouping'] as readonly string[] | undefined)?.[1];
  const isCore = accounts.some(({ pubkey, owner }) => pubkey === group && owner === CORE_PROGRAM);
  if (group !== undefined && !isCore) return /das.follow.collections/;
  const { sortBy = 'none' } = (params['sortBy'] ?? {}) as { readonly sortBy?: string };
  const { items } = expected as { readonly items: readonly unknown[] };
  return sortBy === 'id' || sortBy === 'none' || items.length < 2 ? null : /is not indexed/;
}

/** What has to be followed for a list, by the member that says what it is of. */
const FOLLOWED: readonly (readonly [name: string, kind: FollowKind])[] = [
  ['ownerAddress', 'owner'],
  ['authorityAddress', 'authority'],
  ['creatorAddress', 'creator'],
  ['groupValue', 'collection'],
  ['grouping', 'collection'],
];

/** The index of a scenario's accounts, of which some things are followed. */
async function recordedIndex(
  t: TestContext,
  source: AccountSource,
  follow: Readonly<Partial<Record<FollowKind, string[]>>>,
) {
  const store = await sqliteStore(t);
  await migrate(store, [{ scope: 'das', migrations }]);
  const parts = { store, clock: createSystemClock(), log: createMemoryLog(), isFinal: true, source: () => source };
  const jobs = createFillJobs(parts, { requeue: async () => 0 }, async () => 0);
  await jobs.follow(follow);
  await store.write(async ({ db }) => void (await db.updateTable('das_state').set({ slot: NEWEST_SLOT }).execute()));
  for (const [kind, keys] of Object.entries(follow) as [FollowKind, string[]][])
    for (const key of keys)
      assert.equal(await fillFollowed(parts, { kind, key }, new AbortController().signal), 'done');
  return createAssetIndex(store, 1_000_000);
}

/** At or above that of every recorded account. */
const NEWEST_SLOT = 1_000_000_000;

const without = ({ items: _, ...page }: { readonly items: unknown }): object => page;

/**
 * The answers of the later branch as the released reference gives them: a token without a token standard is a `FungibleToken`, and a list
 * shows the same of an asset as `getAsset`, without whose it is.
 */
function asReleased(item: object): object {
  const { supply, ...asset } = item as {
    interface: string;
    supply?: unknown;
    token_info?: object;
    ownership: { ownership_model: string };
  };
  const { ownership, token_info: given } = asset;
  const { balance: _, associated_token_address: __, ...token_info } = (given ?? {}) as Record<string, unknown>;
  const isToken = ownership.ownership_model === 'token';
  const isOld = isToken && asset.interface === 'Custom';
  return {
    ...asset,
    ...(isOld ? { interface: 'FungibleToken' } : {}),
    ...(isOld || supply === undefined ? {} : { supply }),
    ...(given === undefined ? {} : { token_info }),
    ...(isToken ? { ownership: { ...ownership, owner: '' } } : {}),
  };
}

/** The later branch of the reference shows `token_info` always, as the hosted API does. */
function optionsOf(question: DasRequest, { name }: DasScenario): AssetReadOptions {
  const options = readOptionsOf(question, 'metaplex');
  return { ...options, showFungible: options.showFungible || name.startsWith('later_') };
}

test('the prints of a master edition come with their page in the dialect of the reference only when it was asked for', async () => {
  const mint = encode32(new Uint8Array(32).fill(7));
  const count = Buffer.from(BigUint64Array.of(0n).buffer);
  const master = {
    pubkey: editionAddress(mint),
    slot: 1,
    owner: METADATA_PROGRAM,
    lamports: 1,
    dataBase64: Buffer.concat([Buffer.of(6), count, Buffer.of(0)]).toString('base64'),
  };
  const source = recordedSource({ name: 'master', accounts: [master], transactions: [], requests: [] });
  const pageOf = async (dialect: 'metaplex' | 'hosted', params: object): Promise<unknown> => {
    const question = readQuestion({ mintAddress: mint, ...params }, dialect);
    const parts = { source, index: null, compressed: undefined, documents: undefined, prices: undefined };
    const options = readOptionsOf(question, dialect);
    const more = { documentWaitMs: 0, group: '', config: { ...config, dialect }, options };
    return ((await nftEditions(question, { ...parts, ...more })) as { readonly page?: number }).page;
  };
  assert.deepEqual(
    [await pageOf('metaplex', {}), await pageOf('metaplex', { page: 1 }), await pageOf('metaplex', { page: 3 })],
    [undefined, 1, 3],
  );
  assert.equal(await pageOf('hosted', {}), 1);
});

suite('recorded assets, from accounts', { skip: skipWithoutFixtures }, () => {
  test('getGrouping repeats the value as the name in the dialect of the reference, and names the collection in the other', async () => {
    const scenario = dasScenarios('core-collections')[0]!;
    const { pubkey: groupValue } = scenario.accounts[0]!;
    const names = await Promise.all(
      (['metaplex', 'hosted'] as const).map(async (dialect) => {
        const question = readQuestion({ groupKey: 'collection', groupValue }, dialect);
        const parts = {
          source: recordedSource(scenario),
          index: null,
          compressed: undefined,
          documents: undefined,
          prices: undefined,
          documentWaitMs: 0,
          group: '',
          config,
          options: readOptionsOf(question, dialect),
        };
        return ((await grouping(question, parts)) as { readonly group_name: string }).group_name;
      }),
    );
    assert.equal(names[0], groupValue);
    assert.notEqual(names[1], groupValue);
  });

  for (const scenario of dasScenarios()) {
    if (scenario.transactions.length > 0) continue;
    for (const [at, request] of scenario.requests.entries()) {
      const { method, params, expected } = request;
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
            source,
            compressed: undefined,
            documents: recordedDocuments(scenario),
            prices: undefined,
            documentWaitMs: 0,
            group: '',
            config,
            options: optionsOf(question, scenario),
          };
          const why = needsIndex(request, scenario);
          let isRefused = false;
          const answer = await list(question, { ...parts, index: null }).catch(async (error: unknown) => {
            if (!(error instanceof IncompleteList)) throw error;
            isRefused = true;
            assert.match(error.message, why ?? /^$/);
            const [name, kind] = FOLLOWED.find(([member]) => params[member] !== undefined)!;
            const key = [params[name]].flat().at(-1) as string;
            const index = await recordedIndex(t, source, { [kind]: [key] });
            return await list(question, { ...parts, index, source: index.source(source) });
          });
          assert.equal(isRefused, why !== null);
          const { items, ...page } = plainAnswer(answer) as { readonly items: readonly object[] };
          const wanted = expected as { readonly items: readonly object[] };
          const given = wanted.items.map(isLater ? asReleased : withOwner);
          // The later branch lists ascending ids where nothing else is asked for.
          const shown = isLater && params['sortBy'] === undefined ? given.toReversed() : given;
          assert.deepEqual(items, shown);
          const { cursor } = without(wanted) as { readonly cursor?: string };
          const last = (shown.at(-1) as { readonly id?: string } | undefined)?.id;
          assert.deepEqual(page, { ...without(wanted), ...(cursor === undefined ? {} : { cursor: last }) });
        });
      }
      if (method !== 'getAsset' && method !== 'getAssetBatch') continue;
      test(`${scenario.name} ${at}`, async () => {
        const ids = (params['ids'] ?? [params['id']]) as string[];
        const parts = { source, index: null, compressed: undefined, documents: recordedDocuments(scenario) };
        const { assets: found } = await readAssets(
          ids,
          { ...parts, prices: undefined, documentWaitMs: 0, group: '' },
          optionsOf(question, scenario),
        );
        const wanted = (Array.isArray(expected) ? expected : [expected]) as unknown[];
        assert.deepEqual(plainAnswer(ids.map((id) => found.get(id) ?? null)), wanted.map(withOwner));
      });
    }
  }
});

/** A wrong byte, a number as large as can be, a cut, more bytes, or a stretch of zeros. */
function damage(random: Sfc32, data: Buffer): Buffer {
  const at = random.below(data.length);
  switch (random.below(6)) {
    case 0:
      return Buffer.from(data).fill(random.below(256), at, at + 1);
    case 1:
      return Buffer.from(data).fill(random.below(8), at, at + 1);
    case 2:
      return Buffer.from(data).fill(255, at, Math.min(at + 8, data.length));
    case 3:
      return data.subarray(0, at);
    case 4:
      return Buffer.concat([data, random.fill(new Uint8Array(1 + random.below(200)))]);
    default:
      return Buffer.from(data).fill(0, at, Math.min(at + 40, data.length));
  }
}

/** At least one account is damaged, and about a quarter of the others. */
function withDamage(scenario: DasScenario, random: Sfc32): DasScenario {
  const hit = random.below(scenario.accounts.length);
  const accounts = scenario.accounts.map((account, index) => {
    if (index !== hit && random.below(4) > 0) return account;
    let data: Buffer = Buffer.from(account.dataBase64, 'base64');
    for (let times = 1 + random.below(3); times > 0 && data.length > 0; times--) data = damage(random, data);
    return { ...account, dataBase64: data.toString('base64') };
  });
  return { ...scenario, accounts };
}

const ALL_OPTIONS = {
  showFungible: true,
  showUnverifiedCollections: true,
  showCollectionMetadata: true,
  showInscription: true,
} as const;
const DAMAGE_ROUNDS = Number(process.env['PARHELION_DAMAGE_ROUNDS'] ?? 2);

suite('recorded assets, from damaged accounts', { skip: skipWithoutFixtures }, () => {
  for (const scenario of dasScenarios()) {
    if (scenario.transactions.length > 0) continue;
    test(`${scenario.name}: lists are answered or refused by name, and the index has what the accounts say`, async (t) => {
      const asked = scenario.requests.flatMap(({ params }) => [params['ids'] ?? params['id'] ?? []].flat() as string[]);
      const ids = asked.length > 0 ? [...new Set(asked)] : scenario.accounts.slice(0, 40).map(({ pubkey }) => pubkey);
      const accounts = new Set(scenario.accounts.map(({ pubkey }) => pubkey));
      for (let round = 0; round < DAMAGE_ROUNDS; round += 1) {
        const source = recordedSource(withDamage(scenario, createSfc32(1_000 * round + 7)));
        const options = readOptionsOf({ options: ALL_OPTIONS }, 'hosted');
        const common = { compressed: undefined, documents: undefined, prices: undefined, documentWaitMs: 0, group: '' };
        const shown = async (parts: Pick<ReadParts, 'source' | 'index'>) => {
          const { assets } = await readAssets(ids, { ...common, ...parts }, options);
          return plainAnswer(ids.map((id) => assets.get(id) ?? null)) as readonly ({ readonly id: string } | null)[];
        };
        const read = await shown({ source, index: null });
        for (const [at, asset] of read.entries()) assert.ok(asset === null || asset.id === ids[at]);
        const index = await recordedIndex(t, source, { program: [CORE_PROGRAM], mint: ids });
        assert.deepEqual(await shown({ source: index.source(source), index }), read, `round ${round}`);
        for (const { method, params } of scenario.requests) {
          const question = readQuestion(params, 'metaplex');
          const list = LISTS[method];
          if (list === undefined) continue;
          const answer = await list(question, { ...common, source, index: null, config, options }).catch(
            (error: unknown) => {
              if (!(error instanceof IncompleteList)) throw error;
              return null;
            },
          );
          if (answer === null) continue;
          const { items } = plainAnswer(answer) as { readonly items: readonly { readonly id: string }[] };
          const listed = new Set(items.map(({ id }) => id));
          assert.equal(listed.size, items.length, 'an asset is listed twice');
          for (const id of listed) assert.ok(accounts.has(id), `${id} is no account of the scenario`);
        }
      }
    });
  }
});
