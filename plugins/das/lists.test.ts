import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import fc from 'fast-check';
import { encode32 } from '../../src/lib/base58.ts';
import { TOKEN_PROGRAM } from '../../src/solana/programs.ts';
import { plainAnswer, recordedSource } from '../../test/helpers/das-recorded.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { type DasConfig, dasConfig } from './config.ts';
import type { AssetIndex } from './indexing/asset-index.ts';
import type { KeptPage, ShownAsset } from './indexing/kept.ts';
import { assetsByOwner } from './lists.ts';
import { readQuestion } from './params.ts';
import { keptText, keptTexts } from './read-assets.ts';
import type { AccountSource } from './source.ts';

const TOKENS = 400;

test('an owner of many tokens: a page reads no more mints than it needs, and all pages are the whole list', async () => {
  const random = createSfc32(23);
  const key = () => random.fill(new Uint8Array(32));
  const owner = key();
  const mints = Array.from({ length: TOKENS }, key).sort(Buffer.compare);
  // One token of these first ones is a part of many: they are no NFTs, which only their mints say.
  const isFungible = (at: number) => at < 130 || at % 7 === 0;
  const accounts = mints.flatMap((mint, at) => {
    const [mintBytes, held] = [Buffer.alloc(82), Buffer.alloc(165)];
    mintBytes.writeBigUInt64LE(isFungible(at) ? 1_000n : 1n, 36);
    mintBytes.set([isFungible(at) ? 6 : 0, 1], 44);
    held.set([...mint, ...owner, 1]);
    held[108] = 1;
    const of = (pubkey: Uint8Array, data: Buffer) => ({
      pubkey: encode32(pubkey),
      slot: 1,
      owner: TOKEN_PROGRAM,
      lamports: 1,
      dataBase64: data.toString('base64'),
    });
    return [of(mint, mintBytes), of(key(), held)];
  });
  const chain = recordedSource({ name: '', accounts, transactions: [], requests: [] });
  const nfts = mints.flatMap((mint, at) => (isFungible(at) ? [] : [encode32(mint)]));
  let asked = 0;
  const parts = {
    source: {
      ...chain,
      slot: 1,
      accounts: (keys: readonly string[]) => {
        asked += keys.length;
        return chain.accounts(keys);
      },
    },
    compressed: undefined,
    documents: undefined,
    prices: undefined,
    documentWaitMs: 0,
    group: '',
    index: null,
    config: { ...(Value.Default(dasConfig, {}) as DasConfig), listCore: false },
    options: {
      dialect: 'hosted' as const,
      showFungible: false,
      showCollectionMetadata: false,
      showUnverifiedCollections: false,
    },
  };
  const page = async (members: object) => {
    asked = 0;
    const question = readQuestion({ ownerAddress: encode32(owner), ...members }, 'hosted');
    const { items, cursor } = (await assetsByOwner(question, parts)) as { items: { id: string }[]; cursor?: string };
    return { ids: items.map(({ id }) => id), cursor };
  };
  assert.deepEqual((await page({})).ids, nfts);
  for (const sortDirection of ['asc', 'desc']) {
    const seen: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const sortBy = { sortBy: 'id', sortDirection };
      const next = await page({ limit: 50, sortBy, ...(cursor === undefined ? {} : { cursor }) });
      seen.push(...next.ids);
      cursor = next.cursor;
      if (cursor === undefined) break;
    }
    assert.deepEqual(seen, sortDirection === 'asc' ? nfts : nfts.toReversed());
  }
  assert.deepEqual((await page({ page: 3, limit: 50 })).ids, nfts.slice(100, 150));
  const last = { sortBy: { sortBy: 'id', sortDirection: 'desc' }, limit: 10 };
  assert.deepEqual((await page(last)).ids, nfts.toReversed().slice(0, 10));
  // A mint, its metadata and its edition each.
  assert.equal(asked, 100 * 3);

  // A page is kept with the mints that were passed over: they may become NFTs.
  const pages: KeptPage[] = [];
  const view = {
    slot: 1,
    from: 0,
    find: () => undefined,
    findPage: () => undefined,
    keep: (how: string, shown: ShownAsset) => ({ ...shown, name: how }),
    keepPage: (_: string, kept: KeptPage) => pages.push(kept),
  };
  const index = {
    kept: { view: async () => view },
    stateOf: async () => 'ready',
    listsOf: async () => [],
    slot: async () => 1,
  } as unknown as AssetIndex;
  const stored: AccountSource = Object.assign(Object.create(parts.source) as AccountSource, {
    isStored: () => true,
    isOfIndex: true,
  });
  const question = readQuestion({ ownerAddress: encode32(owner), limit: 50 }, 'hosted');
  await assetsByOwner(question, { ...parts, index, source: stored });
  const [{ assets, others }] = pages as [KeptPage];
  assert.deepEqual(
    assets.map(({ id }) => id),
    nfts.slice(0, 50),
  );
  const last50 = mints.findIndex((mint) => encode32(mint) === nfts[49]);
  const looked = new Set([...assets.map(({ id }) => id), ...others]);
  for (const mint of mints.slice(0, last50)) assert.ok(looked.has(encode32(mint)));
});

test('tokens in several accounts of an owner are summed, and shown with the account that holds most, in whatever order a node lists them', async () => {
  const [owner, mint] = [new Uint8Array(32).fill(1), new Uint8Array(32).fill(2)];
  const mintBytes = Buffer.alloc(82);
  mintBytes.writeBigUInt64LE(1_000n, 36);
  mintBytes.set([6, 1], 44);
  const of = (pubkey: Uint8Array, data: Buffer) => ({
    pubkey: encode32(pubkey),
    slot: 1,
    owner: TOKEN_PROGRAM,
    lamports: 1,
    dataBase64: data.toString('base64'),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.integer({ min: 3, max: 255 }), { minLength: 1, maxLength: 6 }),
      fc.nat(3),
      async (names, spread) => {
        const amounts = names.map((name) => 1 + (name % (spread + 1)));
        const held = names.map((name, at) => {
          const data = Buffer.alloc(165);
          data.set([...mint, ...owner, amounts[at] as number]);
          data[108] = 1;
          return of(new Uint8Array(32).fill(name), data);
        });
        const accounts = [of(mint, mintBytes), ...held];
        const parts = {
          source: { ...recordedSource({ name: '', accounts, transactions: [], requests: [] }), slot: 1 },
          compressed: undefined,
          documents: undefined,
          prices: undefined,
          documentWaitMs: 0,
          group: '',
          index: null,
          config: { ...(Value.Default(dasConfig, {}) as DasConfig), listCore: false },
          options: {
            dialect: 'hosted' as const,
            showFungible: false,
            showCollectionMetadata: false,
            showUnverifiedCollections: false,
          },
        };
        const question = readQuestion({ ownerAddress: encode32(owner), tokenType: 'fungible' }, 'hosted');
        const { items } = plainAnswer(await assetsByOwner(question, parts)) as {
          items: { token_info: { balance: number; associated_token_address: string } }[];
        };
        const most = Math.max(...amounts);
        const shown = Math.max(...names.filter((_, at) => amounts[at] === most));
        assert.deepEqual(
          items.map(({ token_info: { balance, associated_token_address } }) => [balance, associated_token_address]),
          [[amounts.reduce((a, b) => a + b), encode32(new Uint8Array(32).fill(shown))]],
        );
      },
    ),
  );
});

test('an owner of very many accounts: other requests have their turns while a page is made', async () => {
  const random = createSfc32(5);
  const key = () => random.fill(new Uint8Array(32));
  const [owner, count] = [key(), 20_000];
  const held = Array.from({ length: count }, () => {
    const data = Buffer.alloc(165);
    data.set([...key(), ...owner, 1]);
    data[108] = 1;
    return { address: encode32(key()), account: { owner: TOKEN_PROGRAM, lamports: 1n, data } };
  });
  const parts = {
    source: {
      ...recordedSource({ name: '', accounts: [], transactions: [], requests: [] }),
      ofOwner: async () => held,
    },
    compressed: undefined,
    documents: undefined,
    prices: undefined,
    documentWaitMs: 0,
    group: '',
    index: null,
    config: { ...(Value.Default(dasConfig, {}) as DasConfig), listCore: false },
    options: {
      dialect: 'hosted' as const,
      showFungible: false,
      showCollectionMetadata: false,
      showUnverifiedCollections: false,
    },
  };
  let [turns, isDone] = [0, false];
  const turn = (): void => {
    turns += 1;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  const question = readQuestion({ ownerAddress: encode32(owner), limit: 1 }, 'hosted');
  assert.deepEqual(((await assetsByOwner(question, parts)) as { items: unknown[] }).items, []);
  isDone = true;
  // One for each thousand accounts, and for each thousand ids.
  assert.ok(turns >= (2 * count) / 1_000, `${turns} turns`);
});

test('a kept text, alone or on a page, is shown at once only while its document is the one in memory, and never with a price', () => {
  const document = { description: 'A picture' };
  const kept = {
    id: 'a',
    name: 'a',
    body: Buffer.from('{"id":"a"'),
    isFungible: false,
    uri: 'https://pictures.example/1.json',
    document,
    dollars: null,
    group: null,
  };
  const prices = { prices: async () => new Map() };
  const options = {
    dialect: 'hosted' as const,
    showFungible: false,
    showCollectionMetadata: false,
    showUnverifiedCollections: false,
  };
  const textOf = (asset: typeof kept, inMemory: unknown, how: object = {}) => {
    const view = {
      slot: 7,
      from: 0,
      find: () => asset,
      keep: () => asset,
      findPage: () => undefined,
      keepPage: () => undefined,
    };
    const index = { kept: { view: async () => view, viewNow: () => view } };
    const documents = { read: async () => new Map(), peek: () => inMemory };
    const alone = keptText('a', { index, documents, prices }, { ...options, ...how })?.text ?? null;
    if (Object.keys(how).some((name) => name.startsWith('show'))) return alone;
    const page = keptTexts([{ ...kept, id: 'b', uri: '' }, asset], view, { documents, prices }, { ...options, ...how });
    assert.equal(page?.[1]?.text ?? null, alone);
    return alone;
  };
  const text = '{"id":"a","last_indexed_slot":7}';
  assert.equal(textOf(kept, document), text);
  assert.equal(textOf(kept, document, { dialect: 'metaplex' }), '{"id":"a"}');
  // Read again, not read, and not in memory.
  for (const other of [{ ...document }, null, undefined]) assert.equal(textOf(kept, other), null);
  assert.equal(textOf({ ...kept, uri: '' }, undefined), text);
  assert.equal(textOf({ ...kept, isFungible: true }, document), null);
  for (const how of [{ showCollectionMetadata: true }, { showInscription: true }])
    assert.equal(textOf(kept, document, how), null);
});
