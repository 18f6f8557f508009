import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import type { RawAccount } from '../../src/solana/accounts/decoded.ts';
import { decodeTokenAccount } from '../../src/solana/accounts/token.ts';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../test/helpers/fixtures.ts';
import { type DasConfig, dasConfig } from './config.ts';
import { readQuestion } from './params.ts';
import { readAssets } from './read-assets.ts';
import type { AccountSource } from './source.ts';
import { readTokenAccounts } from './token-accounts.ts';

interface Scenario {
  readonly name: string;
  readonly accounts: readonly {
    readonly pubkey: string;
    readonly slot: number;
    readonly owner: string;
    readonly lamports: number;
    readonly dataBase64: string;
  }[];
  readonly transactions: readonly unknown[];
  readonly requests: readonly {
    readonly method: string;
    readonly params: Record<string, unknown>;
    readonly expected: unknown;
  }[];
}

const config = { ...(Value.Default(dasConfig, {}) as DasConfig), dialect: 'metaplex' } as const;

/** The chain as the scenario leaves it. */
function sourceOf({ accounts }: Scenario): AccountSource {
  const newest = new Map<string, Scenario['accounts'][number]>();
  for (const one of accounts) if ((newest.get(one.pubkey)?.slot ?? -1) <= one.slot) newest.set(one.pubkey, one);
  const chain = new Map<string, RawAccount>(
    Array.from(newest, ([key, { owner, lamports, dataBase64 }]) => [
      key,
      { owner, lamports: BigInt(lamports), data: Buffer.from(dataBase64, 'base64') },
    ]),
  );
  const held = Array.from(chain, ([address, account]) => ({
    address,
    account,
    held: decodeTokenAccount(account).value,
  }));
  return {
    slot: 1,
    accounts: async (keys) => new Map(keys.map((key) => [key, chain.get(key) ?? null])),
    largest: async (mint) => held.find((one) => one.held?.mint === mint && one.held.amount > 0n)?.address ?? null,
    ofOwner: async (owner) => held.filter((one) => one.held?.owner === owner),
    ofMint: async (mint) => held.filter((one) => one.held?.mint === mint),
    asset: async () => null,
  };
}

/** As a client reads the answer. */
const plain = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_, member) => (typeof member === 'bigint' ? Number(member) : member)));

/** The later branch of the reference leaves an absent owner out. */
function withOwner(expected: unknown): unknown {
  const copy = structuredClone(expected) as { ownership?: { owner?: string } };
  if (copy?.ownership !== undefined) copy.ownership.owner ??= '';
  return copy;
}

suite('recorded assets, from accounts', { skip: skipWithoutFixtures }, () => {
  const files =
    skipWithoutFixtures === false ? listFixtures('das').filter((file) => !file.endsWith('manifest.json')) : [];
  for (const scenario of files.flatMap((file) => readJsonFixture<Scenario[]>(file))) {
    if (scenario.transactions.length > 0) continue;
    for (const [at, { method, params, expected }] of scenario.requests.entries()) {
      const question = readQuestion(params, 'metaplex');
      const source = sourceOf(scenario);
      if (method === 'getTokenAccounts') {
        test(`${scenario.name} ${at}`, async () => {
          assert.deepEqual(plain(await readTokenAccounts(question, source, config)), expected);
        });
      }
      if (method !== 'getAsset' && method !== 'getAssetBatch') continue;
      test(`${scenario.name} ${at}`, async () => {
        const ids = (params['ids'] ?? [params['id']]) as string[];
        const found = await readAssets(
          ids,
          { source, documents: undefined, prices: undefined, documentWaitMs: 0 },
          {
            dialect: 'metaplex',
            // The later branch of the reference shows `token_info` always, as the hosted API does.
            showFungible: question.options['showFungible'] === true || scenario.name.startsWith('later_'),
            showUnverifiedCollections: question.options['showUnverifiedCollections'] === true,
            showCollectionMetadata: false,
          },
        );
        const wanted = (Array.isArray(expected) ? expected : [expected]) as unknown[];
        assert.deepEqual(plain(ids.map((id) => found.get(id) ?? null)), wanted.map(withOwner));
      });
    }
  }
});
