import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createSystemClock } from '../../src/adapters/clock.ts';
import { encode32 } from '../../src/lib/base58.ts';
import { OWN_WORK } from '../../src/ports/access.ts';
import type { Store } from '../../src/ports/store.ts';
import { metadataAddress } from '../../src/solana/addresses.ts';
import { METADATA_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../src/solana/programs.ts';
import { migrate } from '../../src/store/migrate.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { sqliteStore } from '../../test/helpers/store.ts';
import { writeMetadata } from '../../test/helpers/write-metadata.ts';
import { writeMint } from '../../test/helpers/write-mint.ts';
import type { Documents } from './documents.ts';
import { createFacts, createTokenNames } from './facts.ts';
import { createAccountSource, createRecordLoader, type ReadAccounts } from './records.ts';
import { createMintStore, migrations, type OffChainAnswer } from './store.ts';
import type { ListedToken } from './token-list.ts';
import { createChangedSlots } from './watch.ts';

const key = (byte: number): string => encode32(new Uint8Array(32).fill(byte));

interface Given {
  readonly owner: string;
  readonly data: Uint8Array;
}

/** The service as one process has it: memory of its own, a store that others may share. */
function makeService(store: Store, accounts: ReadonlyMap<string, Given>) {
  const clock = createSystemClock();
  const log = createMemoryLog();
  const calls: (readonly string[])[] = [];
  const state = { slot: 100, fails: false };
  const read = async (keys: readonly string[]): Promise<ReadAccounts> => {
    calls.push(keys);
    if (state.fails) throw new Error('no node');
    const account = (name: string) => {
      const given = accounts.get(name);
      return given === undefined ? null : { ...given, lamports: 1n, executable: false, rentEpoch: 0n };
    };
    return { slot: state.slot, accounts: keys.map(account) };
  };
  const config = { upstreamTimeoutMs: 30_000 };
  const limits = { ttlMs: 1, config, concurrency: 4, maxWaiting: 1_000, cacheBytes: 100_000 };
  const load = createRecordLoader(createAccountSource({ read, clock, ...limits }));
  const mints = createMintStore({ store, clock, log, maxMints: 100 });
  const documents = new Map<string, OffChainAnswer>();
  const later: string[] = [];
  const fake = {
    known: async (uris: readonly string[]) =>
      new Map(uris.flatMap((uri) => (documents.has(uri) ? [[uri, documents.get(uri)!] as const] : []))),
    later: (uris: readonly string[]) => void later.push(...uris),
  } as unknown as Documents;
  const listed = new Map<string, Partial<ListedToken>>();
  const list = { entries: async () => (mint: string) => (listed.get(mint) as ListedToken | undefined) ?? null };
  const changed = createChangedSlots();
  const facts = createFacts({
    load,
    store: mints,
    documents: fake,
    list,
    clock,
    changed,
    isWatched: true,
    ttlMs: 600_000,
    config,
    maxMints: 50,
  });
  return { facts, calls, mints, state, documents, later, listed, changed, names: createTokenNames({ facts, clock }) };
}

async function prepare(t: TestContext) {
  const store = await sqliteStore(t);
  await migrate(store, [{ scope: 'token-metadata', migrations }]);
  const accounts = new Map<string, Given>();
  const put = (byte: number, name: string, changes: object = {}, mintChanges: object = {}) => {
    const mint = key(byte);
    const fields = {
      updateAuthority: mint,
      mint,
      name,
      symbol: '',
      uri: `uri ${byte}`,
      sellerFeeBasisPoints: 0,
      creators: null,
      primarySaleHappened: false,
      isMutable: true,
      editionNonce: null,
      tokenStandard: null,
      collection: null,
      uses: null,
      collectionDetails: null,
      programmableConfig: null,
      ...changes,
    };
    accounts.set(mint, { owner: TOKEN_PROGRAM, data: writeMint({ decimals: 6, supply: 5n, ...mintChanges }) });
    accounts.set(metadataAddress(mint), { owner: METADATA_PROGRAM, data: writeMetadata(fields, true).data });
    return mint;
  };
  return { store, accounts, put };
}

test('facts are read once, stored for all processes, and null for an account that is no mint', async (t) => {
  const { store, accounts, put } = await prepare(t);
  const collection = { key: key(60), verified: true };
  const token = put(1, 'Token');
  const nft = put(2, 'Thing', { tokenStandard: 'NonFungible', collection }, { decimals: 0, supply: 1n });
  const one = makeService(store, accounts);
  const found = await one.facts.lookUp([token, nft, key(3), 'no key', token], { tenant: OWN_WORK });
  const common = { program: TOKEN_PROGRAM, symbol: null, logoUri: null, scale: null, transferFee: null };
  assert.deepEqual(Object.fromEntries(found), {
    [token]: {
      ...common,
      mint: token,
      decimals: 6,
      supply: 5n,
      name: 'Token',
      uri: 'uri 1',
      tokenStandard: null,
      collection: null,
      isNft: false,
    },
    [nft]: {
      ...common,
      mint: nft,
      decimals: 0,
      supply: 1n,
      name: 'Thing',
      uri: 'uri 2',
      tokenStandard: 'NonFungible',
      collection,
      isNft: true,
    },
    [key(3)]: null,
    'no key': null,
  });
  assert.equal(one.calls.length, 1);
  await one.facts.lookUp([token, nft, key(3), 'no key'], { tenant: OWN_WORK });
  assert.equal(one.calls.length, 1);
  await one.mints.flush();
  const two = makeService(store, accounts);
  assert.equal(two.facts.peek(token), undefined);
  assert.deepEqual((await two.facts.lookUp([token, nft], { tenant: OWN_WORK })).get(nft), found.get(nft));
  assert.deepEqual([two.calls.length, two.facts.peek(nft)?.name], [0, 'Thing']);
});

test('interest, multipliers and fees of Token-2022 are facts', async (t) => {
  const { store, accounts } = await prepare(t);
  const interest = Buffer.alloc(52);
  interest.writeBigInt64LE(1_000n, 32);
  interest.writeInt16LE(-5, 40);
  interest.writeBigInt64LE(2_000n, 42);
  interest.writeInt16LE(7, 50);
  const fee = Buffer.alloc(108);
  fee.writeBigUInt64LE(3n, 72);
  fee.writeBigUInt64LE(9n, 80);
  fee.writeUInt16LE(25, 88);
  const scaled = Buffer.alloc(56);
  scaled.writeDoubleLE(2, 32);
  scaled.writeBigInt64LE(50n, 40);
  scaled.writeDoubleLE(3, 48);
  const put = (byte: number, extensions: { type: number; value: Buffer }[]) =>
    accounts.set(key(byte), { owner: TOKEN_2022_PROGRAM, data: writeMint({ extensions }) });
  put(1, [
    { type: 10, value: interest },
    { type: 1, value: fee },
  ]);
  put(2, [{ type: 25, value: scaled }]);
  const { facts, mints } = makeService(store, accounts);
  const check = async (service: typeof facts) => {
    const found = await service.lookUp([key(1), key(2)], { tenant: OWN_WORK });
    assert.deepEqual(found.get(key(1))?.scale, {
      kind: 'interest',
      initialized: 1_000,
      averageRate: -5,
      lastUpdate: 2_000,
      rate: 7,
    });
    const older = { epoch: 3n, maximum: 9n, basisPoints: 25 };
    assert.deepEqual(found.get(key(1))?.transferFee, { older, newer: { epoch: 0n, maximum: 0n, basisPoints: 0 } });
    assert.deepEqual(found.get(key(2))?.scale, { kind: 'multiplier', multiplier: 2, newMultiplier: 3, newFrom: 50 });
  };
  await check(facts);
  await mints.flush();
  await check(makeService(store, accounts).facts);
});

test('a change is seen at once, and what a node behind it says is not kept', async (t) => {
  const { store, accounts, put } = await prepare(t);
  const token = put(1, 'Before');
  const { facts, changed, state, mints } = makeService(store, accounts);
  const nameNow = async () => (await facts.lookUp([token], { tenant: OWN_WORK })).get(token)?.name;
  assert.equal(await nameNow(), 'Before');
  await mints.flush();
  put(1, 'After');
  assert.equal(await nameNow(), 'Before');
  // The same steps as the block processor.
  await store.write(async (tx) => void (await tx.db.deleteFrom('token_metadata_mints').execute()));
  changed.note(token, 105);
  facts.drop([token]);
  assert.equal(facts.peek(token)?.name, 'Before', 'good enough for a name');
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(await nameNow(), 'After');
  put(1, 'Later');
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(await nameNow(), 'Later', 'slot 100 is before the change');
  state.slot = 105;
  await new Promise((resolve) => setTimeout(resolve, 5));
  await nameNow();
  put(1, 'Last');
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(await nameNow(), 'Later');
});

test('names and pictures: from the list, else from documents that are known; others are fetched when wanted', async (t) => {
  const { store, accounts, put } = await prepare(t);
  const [listed, pictured, bare] = [put(1, ''), put(2, 'Two'), put(3, 'Three')];
  const service = makeService(store, accounts);
  service.listed.set(listed, { name: 'List', symbol: 'L', logoURI: 'logo' });
  const document = {
    name: '',
    symbol: '',
    description: '',
    image: 'picture',
    original: {},
    attributes: null,
    sellerFeeBasisPoints: 0,
    properties: { category: null, creators: null, files: null },
  };
  service.documents.set('uri 2', { document, error: '' });
  const ask = async (wantLogos: boolean) => {
    const found = await service.facts.lookUp([listed, pictured, bare], { tenant: OWN_WORK, wantLogos });
    return [...found.values()].map((facts) => [facts?.name, facts?.symbol, facts?.logoUri]);
  };
  const expected = [
    ['List', 'L', 'logo'],
    ['Two', null, 'picture'],
    ['Three', null, null],
  ];
  assert.deepEqual(await ask(false), expected);
  assert.deepEqual(service.later, []);
  assert.deepEqual(await ask(true), expected);
  assert.deepEqual(service.later, ['uri 3']);
});

test('unreadable data is an error, not an absence; too much is refused; a caller that leaves is forgotten', async (t) => {
  const { store, accounts, put } = await prepare(t);
  const token = put(1, 'One');
  const { facts, state } = makeService(store, accounts);
  state.fails = true;
  await assert.rejects(facts.lookUp([token], { tenant: OWN_WORK }), /no node/);
  state.fails = false;
  assert.equal((await facts.lookUp([token], { tenant: OWN_WORK })).get(token)?.name, 'One');
  await assert.rejects(
    facts.lookUp(
      Array.from({ length: 51 }, () => 'x'),
      { tenant: OWN_WORK },
    ),
    { code: 'TOKEN_METADATA_TOO_MANY_MINTS' },
  );
  await assert.rejects(
    facts.lookUp([key(9)], { tenant: OWN_WORK, signal: AbortSignal.abort(new Error('gone')) }),
    /gone/,
  );
});

test('a name that nobody knows yet is there a little later', async (t) => {
  const { store, accounts, put } = await prepare(t);
  const nft = put(1, 'One', {}, { decimals: 0, supply: 1n });
  const { names, calls } = makeService(store, accounts);
  assert.equal(names.peek(nft), null);
  assert.equal(names.peek(key(2)), null);
  for (const untilMs = performance.now() + 60_000; names.peek(nft) === null && performance.now() < untilMs; )
    await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(names.peek(nft), { name: 'One', symbol: null, decimals: 0, tokenStandard: 'NonFungible' });
  assert.equal(names.peek(key(2)), null);
  assert.equal(calls.length, 1);
  names.stop();
});
