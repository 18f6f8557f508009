import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { encode32 } from '../../../src/lib/base58.ts';
import { knownKey } from '../../../src/solana/addresses.ts';
import { CORE_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, WRAPPED_SOL_MINT } from '../../../src/solana/programs.ts';
import {
  type AccountUpstream,
  mintData,
  startAccountUpstream,
  tokenAccountData,
} from '../../helpers/account-upstream.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { loadPackage } from '../../helpers/packages.ts';

const sdk = await loadPackage('helius-sdk', () => import('helius-sdk'));

interface Row {
  readonly mint: string;
  readonly symbol: string | null;
  readonly name: string | null;
  readonly balance: number;
  readonly decimals: number;
  readonly pricePerToken: number | null;
  readonly usdValue: number | null;
  readonly logoUri: string | null;
  readonly tokenProgram: string;
}
interface Balances {
  readonly balances: readonly Row[];
  readonly nfts?: readonly { readonly mint: string; readonly [field: string]: unknown }[];
  readonly totalUsdValue: number;
  readonly pagination: { readonly page: number; readonly limit: number; readonly hasMore: boolean };
}

let upstream: AccountUpstream;
let daemon: DaemonInProcess;

before(async () => {
  upstream = await startAccountUpstream();
  daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: {
      plugins: ['access', 'token-metadata', 'wallet'],
      follow: { enabled: false },
      wallet: { balances: { cacheMs: 0, pagesMs: 0 } },
    },
  });
});
after(async () => {
  await daemon.stop();
  await upstream.stop();
});

async function ask(wallet: string, query = '', key = daemon.key) {
  const response = await fetch(`${daemon.apiUrl}/v1/wallet/${wallet}/balances?${query}`, {
    headers: { 'X-Api-Key': key },
  });
  return { status: response.status, body: (await response.json()) as Balances };
}
async function read(wallet: string, query = ''): Promise<Balances> {
  const { status, body } = await ask(wallet, query);
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}

const newKey = () => new Uint8Array(randomBytes(32));
const textOf = (key: Uint8Array) => encode32(key);

interface Holding {
  readonly mint: Uint8Array;
  readonly amounts: readonly bigint[];
  readonly decimals: number;
  readonly program: string;
  readonly supply?: bigint;
}

/** Sets mints and token accounts of a wallet. */
function setHoldings(wallet: Uint8Array, lamports: bigint, holdings: readonly Holding[]): void {
  upstream.accounts.set(textOf(wallet), { owner: '1'.repeat(32), data: new Uint8Array(0), lamports });
  for (const { mint, amounts, decimals, program, supply = 1_000_000n } of holdings) {
    upstream.accounts.set(textOf(mint), { owner: program, data: mintData(decimals, supply), lamports: 1_461_600n });
    for (const amount of amounts)
      upstream.accounts.set(textOf(newKey()), { owner: program, data: tokenAccountData(mint, wallet, amount) });
  }
}

test('a recorded wallet', { skip: skipWithoutFixtures }, async () => {
  const wallet = '7pFGok3zuvacRP797Ke3bUZqbq24PbVQNLvwopfErvih';
  setRecorded();
  const lamports = 564_503_502n;
  upstream.accounts.set(wallet, { owner: '1'.repeat(32), data: new Uint8Array(0), lamports });
  const { balances, totalUsdValue, pagination, ...rest } = await read(wallet);
  assert.deepEqual([totalUsdValue, pagination, rest], [0, { page: 1, limit: 100, hasMore: false }, {}]);
  const [sol, ...tokens] = balances;
  assert.deepEqual(sol, {
    mint: WRAPPED_SOL_MINT,
    symbol: 'SOL',
    name: 'Solana',
    balance: 0.564503502,
    decimals: 9,
    pricePerToken: null,
    usdValue: null,
    logoUri: null,
    tokenProgram: 'spl-token',
  });
  // What cannot be read, has no units, or is a single thing is no balance; a FungibleAsset is one.
  const plain = { pricePerToken: null, usdValue: null, logoUri: null, tokenProgram: 'spl-token' };
  const expected = [
    {
      mint: '7KUZ5CoUZfcxYbjLzXT6sgAqo3CZbHxMvzwKGcUtpump',
      symbol: 'GAMER',
      name: 'GamerCoin',
      balance: 55689.635733,
      decimals: 6,
    },
    {
      mint: '7atgF8KQo4wJrD5ATGX7t1V2zVvykPJbFfNeVf1icFv1',
      symbol: null,
      name: null,
      balance: 0.11,
      decimals: 2,
      tokenProgram: 'token-2022',
    },
    {
      mint: 'BdGkLBshPBxVwgpxdNdUFtj2GQms845n7pWHTevrvPJw',
      symbol: null,
      name: '$PONKE AIRDROP',
      balance: 1,
      decimals: 0,
    },
    { mint: 'Hv69wUkD225TYq111eAar9CtjhNpzBTRFpHkpY3pbonk', name: 'Company', balance: 233884.967632, decimals: 6 },
    {
      mint: 'HvJwbNCSRMkH21y36pD8yqtPZ9mwL93BzRk9cdP636zj',
      name: 'jupfinally.com 🎁 Airdrop',
      balance: 82000009,
      decimals: 0,
    },
  ];
  assert.deepEqual(
    tokens.map(({ mint, balance, decimals, name, tokenProgram }) => ({ mint, balance, decimals, name, tokenProgram })),
    expected.map(({ symbol: _symbol, ...row }) => ({ tokenProgram: plain.tokenProgram, ...row })),
  );
  assert.deepEqual(tokens[0], { ...expected[0], ...plain });
  for (const row of balances) assert.equal(Object.keys(row).length, 9);
  const withNfts = await read(wallet, 'showNfts=true');
  assert.deepEqual(
    withNfts.nfts?.map(({ mint }) => mint),
    [
      'DNLsYi5VuEJRT3CKhwpYxd6kAXJyFfq9w8UApBAxEx4b',
      'EBQv6STuaWWvND4GMGWCynSfi4u2tLszfH3nKnaGrGxz',
      'EgDmhYHi3PdWtxctXTUbMwAhp9v9LQLP8pdmB3KKzuuE',
      'GQqWmmdLGSwDRbN5fRdDfx17ZM55icmHtNyBSKcnLhNm',
      'GnXZ6zk9vQucYympYgmkuBkFD3q8xgouhDAuDEcWx58u',
    ],
  );
  assert.equal(withNfts.nfts?.[2]?.['name'], 'Pudgy ');
  for (const nft of withNfts.nfts ?? [])
    assert.deepEqual(Object.keys(nft), [
      'mint',
      'name',
      'imageUri',
      'collectionName',
      'collectionAddress',
      'compressed',
    ]);
});

interface RecordedCall {
  readonly method: string;
  readonly result: { readonly value: readonly { readonly pubkey: string; readonly account: RecordedAccount }[] };
}
interface RecordedAccount {
  readonly data: readonly [string, string];
  readonly owner: string;
}

function setRecorded(): void {
  const calls = readJsonFixture<RecordedCall[]>('chain/wallets/7pFGok3zuvac-token-accounts.json');
  for (const { method, result } of calls) {
    if (method !== 'getTokenAccountsByOwner') continue;
    for (const { pubkey, account } of result.value)
      upstream.accounts.set(pubkey, { owner: account.owner, data: Buffer.from(account.data[0], 'base64') });
  }
  type Known = { readonly pubkey: string; readonly owner: string; readonly dataBase64: string };
  for (const { pubkey, owner, dataBase64 } of readJsonFixture<Known[]>('chain/accounts/accounts-open.json'))
    upstream.accounts.set(pubkey, { owner, data: Buffer.from(dataBase64, 'base64') });
}

test('several accounts of a mint are one row, zeros are included on request', async () => {
  const [wallet, twice, empty, wrapped] = [newKey(), newKey(), newKey(), knownKey(WRAPPED_SOL_MINT)];
  setHoldings(wallet, 0n, [
    { mint: twice, amounts: [1_500_000n, 2n, 0n], decimals: 6, program: TOKEN_PROGRAM },
    { mint: empty, amounts: [0n], decimals: 2, program: TOKEN_2022_PROGRAM },
    { mint: wrapped, amounts: [5n], decimals: 9, program: TOKEN_PROGRAM, supply: 0n },
  ]);
  const { balances } = await read(textOf(wallet));
  assert.deepEqual(
    balances.map(({ symbol, balance }) => [symbol, balance]).slice(0, 1),
    [['SOL', 0]],
    'SOL comes first, also without any',
  );
  assert.equal(balances.find(({ mint }) => mint === textOf(twice))?.balance, 1.500002);
  const wsol = balances.filter(({ mint }) => mint === WRAPPED_SOL_MINT);
  assert.deepEqual(
    wsol.map(({ name, symbol, balance }) => ({ name, symbol, balance })),
    [
      { name: 'Solana', symbol: 'SOL', balance: 0 },
      { name: 'Wrapped SOL', symbol: 'WSOL', balance: 5e-9 },
    ],
  );
  const all = await read(textOf(wallet), 'showZeroBalance=true&showNative=false');
  assert.equal(all.balances.length, 3);
  assert.equal(all.balances.find(({ mint }) => mint === textOf(empty))?.tokenProgram, 'token-2022');
  assert.ok(!('nfts' in all));
});

test('an empty wallet has SOL, and an empty list of NFTs on the first page alone', async () => {
  const wallet = textOf(newKey());
  const first = await read(wallet, 'showNfts=true');
  assert.deepEqual([first.balances.length, first.nfts, first.totalUsdValue], [1, [], 0]);
  const second = await read(wallet, 'showNfts=true&page=2');
  assert.deepEqual(second, { balances: [], totalUsdValue: 0, pagination: { page: 2, limit: 100, hasMore: false } });
});

test('pages of every size concatenate to the whole', async () => {
  const wallet = newKey();
  const holdings = Array.from({ length: 23 }, (_value, at) => ({
    mint: newKey(),
    amounts: [BigInt(at + 1)],
    decimals: at % 7,
    program: at % 2 ? TOKEN_PROGRAM : TOKEN_2022_PROGRAM,
  }));
  setHoldings(wallet, 7n, holdings);
  const whole = await read(textOf(wallet));
  assert.equal(whole.balances.length, 24);
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 30 }), fc.boolean(), async (limit, showNative) => {
      const rows: Row[] = [];
      for (let page = 1, hasMore = true; hasMore; page += 1) {
        const part = await read(textOf(wallet), `limit=${limit}&page=${page}&showNative=${showNative}`);
        rows.push(...part.balances);
        hasMore = part.pagination.hasMore;
        assert.equal(hasMore, rows.length < whole.balances.length - (showNative ? 0 : 1));
      }
      assert.deepEqual(rows, whole.balances.slice(showNative ? 0 : 1));
    }),
    { numRuns: 12 },
  );
});

test('NFTs: single tokens and Core assets, a hundred at most', async () => {
  const wallet = newKey();
  const singles = Array.from({ length: 101 }, () => newKey());
  setHoldings(
    wallet,
    1n,
    singles.map((mint) => ({ mint, amounts: [1n], decimals: 0, program: TOKEN_PROGRAM, supply: 1n })),
  );
  const collection = newKey();
  upstream.accounts.set(textOf(collection), { owner: CORE_PROGRAM, data: coreCollection('Sundogs') });
  const asset = new Uint8Array(32).fill(1);
  upstream.accounts.set(textOf(asset), { owner: CORE_PROGRAM, data: coreAsset(wallet, 'Sundog #1', collection) });
  const { balances, nfts = [] } = await read(textOf(wallet), 'showNfts=true');
  assert.equal(balances.length, 1, 'NFTs are no balances');
  assert.equal(nfts.length, 100);
  const mints = nfts.map(({ mint }) => mint);
  assert.deepEqual(mints, [...singles.map(textOf), textOf(asset)].sort().slice(0, 100));
  assert.deepEqual(nfts[mints.indexOf(textOf(asset))], {
    mint: textOf(asset),
    name: 'Sundog #1',
    imageUri: null,
    collectionName: 'Sundogs',
    collectionAddress: textOf(collection),
    compressed: false,
  });
  // A node that does not search costs the Core assets only.
  upstream.refuse('getProgramAccounts', { code: -32010, message: 'excluded from account secondary indexes' });
  const without = await read(textOf(wallet), 'showNfts=true');
  assert.ok(without.nfts?.every(({ mint }) => mint !== textOf(asset)) && without.nfts.length === 100);
  upstream.refuse('getProgramAccounts', null);
});

const borsh = (value: string) => {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(Buffer.byteLength(value));
  return Buffer.concat([length, Buffer.from(value)]);
};
const coreAsset = (owner: Uint8Array, name: string, collection: Uint8Array) =>
  Buffer.concat([
    Uint8Array.of(1),
    owner,
    Uint8Array.of(2),
    collection,
    borsh(name),
    borsh('https://a.example'),
    Uint8Array.of(0),
  ]);
const coreCollection = (name: string) =>
  Buffer.concat([Uint8Array.of(5), newKey(), borsh(name), borsh('https://c.example'), Buffer.alloc(8)]);

test('invalid requests', async () => {
  const wallet = textOf(newKey());
  for (const query of [
    'page=0',
    'page=1000001',
    'page=x',
    'limit=0',
    'limit=101',
    'limit=-1',
    'showNative=yes',
    'page=1&page=2',
  ]) {
    const { status, body } = await ask(wallet, query);
    assert.equal(status, 400, query);
    assert.equal((body as unknown as { code: number }).code, 400);
  }
  const name = await ask('toly.sol');
  assert.deepEqual(name, {
    status: 400,
    body: { error: 'Invalid wallet address', code: 400, details: "'toly.sol' is not a valid Solana address" },
  });
  assert.equal((await ask(wallet, 'unknown=1&limit=')).status, 200);
  assert.equal((await ask(wallet, '', 'wrong')).status, 401);
});

test('a node that refuses or fails is a 503, never an empty wallet', async () => {
  const wallet = newKey();
  setHoldings(wallet, 5n, [{ mint: newKey(), amounts: [5n], decimals: 0, program: TOKEN_PROGRAM }]);
  for (const method of ['getBalance', 'getTokenAccountsByOwner', 'getMultipleAccounts']) {
    upstream.refuse(method, { code: -32010, message: 'no' });
    const { status, body } = await ask(textOf(wallet));
    assert.equal(status, 503, method);
    assert.equal((body as unknown as { error: string }).error, 'Service unavailable');
    upstream.refuse(method, null);
  }
  assert.equal((await ask(textOf(wallet))).status, 200);
});

test('a wallet with more tokens than are read is refused, not cut', async (t) => {
  const wallet = newKey();
  const holdings = Array.from({ length: 4 }, () => ({
    mint: newKey(),
    amounts: [1n],
    decimals: 1,
    program: TOKEN_PROGRAM,
  }));
  setHoldings(wallet, 5n, holdings);
  const own = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: {
      plugins: ['access', 'token-metadata', 'wallet'],
      follow: { enabled: false },
      wallet: { balances: { maxMints: 3 } },
    },
  });
  t.after(() => own.stop());
  const url = `${own.apiUrl}/v1/wallet/${textOf(wallet)}/balances`;
  const response = await fetch(url, { headers: { 'X-Api-Key': own.key } });
  const details = 'The wallet holds 4 different tokens; at most 3 are read';
  assert.deepEqual(
    [response.status, await response.json()],
    [503, { error: 'Service unavailable', code: 503, details }],
  );
});

test('requests at the same time share the calls', async () => {
  const wallet = newKey();
  setHoldings(wallet, 5n, [{ mint: newKey(), amounts: [5n], decimals: 0, program: TOKEN_PROGRAM }]);
  const before = upstream.callsOf('getTokenAccountsByOwner').length;
  const answers = await Promise.all(Array.from({ length: 20 }, () => read(textOf(wallet))));
  for (const answer of answers) assert.deepEqual(answer, answers[0]);
  const calls = upstream.callsOf('getTokenAccountsByOwner').length - before;
  assert.ok(calls >= 2 && calls < 40, `${calls} calls`);
});

test('values: the dearest first, what has no price last, each page with its own sum', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-prices-'));
  const file = join(folder, 'prices.json');
  const [wallet, dear, cheap, worthless, unpriced, unpriced2] = Array.from({ length: 6 }, newKey) as Uint8Array[];
  const prices = [
    [WRAPPED_SOL_MINT, 150],
    [textOf(dear!), 1000.5],
    [textOf(cheap!), 0.25],
    [textOf(worthless!), 0],
  ];
  writeFileSync(file, JSON.stringify(Object.fromEntries(prices)));
  const program = TOKEN_PROGRAM;
  setHoldings(wallet!, 2_000_000_000n, [
    { mint: cheap!, amounts: [400n], decimals: 2, program },
    { mint: unpriced!, amounts: [10n ** 12n], decimals: 0, program },
    { mint: dear!, amounts: [3n], decimals: 0, program },
    { mint: unpriced2!, amounts: [1n], decimals: 0, program },
    { mint: worthless!, amounts: [5n], decimals: 0, program },
    { mint: knownKey(WRAPPED_SOL_MINT), amounts: [1_000_000_000n], decimals: 9, program },
  ]);
  const own = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: {
      plugins: ['access', 'prices', 'token-metadata', 'wallet'],
      follow: { enabled: false },
      prices: { source: 'static', file },
    },
  });
  t.after(async () => {
    await own.stop();
    await rm(folder, { recursive: true });
  });
  const page = async (query: string) => {
    const url = `${own.apiUrl}/v1/wallet/${textOf(wallet!)}/balances?${query}`;
    return (await (await fetch(url, { headers: { 'X-Api-Key': own.key } })).json()) as Balances;
  };
  const { balances, totalUsdValue } = await page('');
  const rows = balances.map(({ mint, symbol, usdValue }) => [symbol === 'WSOL' ? symbol : mint, usdValue]);
  assert.deepEqual(rows, [
    [WRAPPED_SOL_MINT, 300],
    [textOf(dear!), 3001.5],
    ['WSOL', 150],
    [textOf(cheap!), 1],
    [textOf(worthless!), 0],
    ...[unpriced!, unpriced2!]
      .map(textOf)
      .sort()
      .map((mint) => [mint, null]),
  ]);
  assert.equal(totalUsdValue, 300 + 3001.5 + 150 + 1);
  assert.deepEqual(
    [
      (await page('limit=2')).totalUsdValue,
      (await page('limit=2&page=2')).totalUsdValue,
      (await page('limit=2&page=4')).totalUsdValue,
    ],
    [3301.5, 151, 0],
  );
  assert.equal((await page('showNative=false')).totalUsdValue, 3152.5);
});

test('an unmodified client', { skip: sdk.skip }, async () => {
  const restore = redirectHostedClients(daemon.apiUrl);
  try {
    const wallet = newKey();
    setHoldings(wallet, 1_500_000_000n, [{ mint: newKey(), amounts: [7n], decimals: 1, program: TOKEN_PROGRAM }]);
    const client = sdk.module.createHelius({ apiKey: daemon.key }).wallet;
    const { balances, nfts, pagination } = await client.getBalances({
      wallet: textOf(wallet),
      showNfts: true,
      limit: 50,
    });
    assert.deepEqual([balances[0]?.balance, balances[1]?.balance, nfts], [1.5, 0.7, []]);
    assert.deepEqual(pagination, { page: 1, limit: 50, hasMore: false });
  } finally {
    restore();
  }
});
