import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  AuthorityType,
  closeAccount,
  createAccount,
  createMint,
  mintTo,
  setAuthority,
  TOKEN_PROGRAM_ID,
  transfer,
} from '@solana/spl-token';
import { Keypair, LAMPORTS_PER_SOL } from '@solana/web3.js';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const missing = await chainMissing();
const PROGRAM = TOKEN_PROGRAM_ID.toBase58();

interface Shown {
  readonly pubkey: string;
  readonly account: Record<string, unknown>;
}

async function bed(t: TestContext, config: Readonly<Record<string, unknown>> = {}) {
  const chain = await startChain();
  const daemon = await startDaemon({
    chain,
    config: { plugins: ['access', 'proxy', 'accounts'], follow: { enabled: false }, ...config },
  });
  t.after(async () => {
    await daemon.stop();
    await chain.stop();
  });
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at as the assertions go.
  type Answer = { result?: any; error?: { code: number; data?: { details: string } } };
  const ask = async (method: string, params: unknown) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
    return (await response.json()) as Answer;
  };
  return { chain, ask };
}

/** An owner with `count` token accounts of one mint, 10 × (n + 1) tokens in the nth. */
async function tokens({ connection, fund }: TestChain, count: number) {
  const payer = Keypair.generate();
  await fund(payer.publicKey.toBase58(), 100 * LAMPORTS_PER_SOL);
  const mint = await createMint(connection, payer, payer.publicKey, null, 6);
  const accounts = [];
  for (let n = 0; n < count; n++) {
    const account = await createAccount(connection, payer, mint, payer.publicKey, Keypair.generate());
    await mintTo(connection, payer, mint, account, payer, 10 * (n + 1));
    accounts.push(account);
  }
  return { payer, mint, accounts };
}

const byKey = (list: readonly Shown[]) => [...list].sort((a, b) => (a.pubkey < b.pubkey ? -1 : 1));

/** Of `[data, encoding]`, each once. */
const encodingsOf = (list: readonly Shown[]) => [
  ...new Set(list.map(({ account }) => (account['data'] as readonly string[])[1])),
];

test('pages together are what the node gives at once, in every encoding', { skip: missing ?? false }, async (t) => {
  const { chain, ask } = await bed(t);
  const { payer, mint } = await tokens(chain, 5);
  const owner = payer.publicKey.toBase58();
  const filters = [{ dataSize: 165 }, { memcmp: { offset: 32, bytes: owner } }];
  for (const how of [
    { encoding: 'base64' },
    { encoding: 'jsonParsed' },
    { encoding: 'base64', dataSlice: { offset: 64, length: 8 } },
    { encoding: 'base58', dataSlice: { offset: 0, length: 32 } },
    { encoding: 'jsonParsed', commitment: 'confirmed' },
    { encoding: 'base64+zstd' },
    { encoding: 'base64+zstd', dataSlice: { offset: 64, length: 8 } },
  ]) {
    const options = { commitment: 'confirmed', ...how };
    const whole = await ask('getProgramAccounts', [PROGRAM, { ...options, filters }]);
    assert.equal(whole.result.length, 5);
    const paged: Shown[] = [];
    for (let paginationKey: string | null = null; ; ) {
      const { result } = await ask('getProgramAccountsV2', [PROGRAM, { ...options, filters, limit: 2, paginationKey }]);
      assert.ok(result.accounts.length <= 2);
      assert.equal(result.totalResults, 5);
      paged.push(...result.accounts);
      paginationKey = result.paginationKey;
      if (paginationKey === null) break;
    }
    assert.deepEqual(byKey(paged), byKey(whole.result), JSON.stringify(how));
    if (how.encoding !== 'jsonParsed') assert.deepEqual(encodingsOf(paged), [how.encoding]);
  }
  for (const [which, encoding] of [
    [{ mint: mint.toBase58() }, 'jsonParsed'],
    [{ programId: PROGRAM }, 'jsonParsed'],
    [{ mint: mint.toBase58() }, 'base64+zstd'],
    [{ programId: PROGRAM }, 'base64+zstd'],
  ] as const) {
    const options = { encoding, commitment: 'confirmed' };
    const whole = await ask('getTokenAccountsByOwner', [owner, which, options]);
    const first = await ask('getTokenAccountsByOwnerV2', [owner, which, { ...options, limit: 3 }]);
    const { context, value } = first.result;
    assert.ok(Number.isInteger(context.slot));
    assert.deepEqual([value.accounts.length, value.count, typeof value.paginationKey], [3, 3, 'string']);
    const { paginationKey } = value;
    const second = await ask('getTokenAccountsByOwnerV2', [owner, which, { ...options, limit: 3, paginationKey }]);
    assert.deepEqual([second.result.value.count, second.result.value.paginationKey], [2, null]);
    const paged = [...value.accounts, ...second.result.value.accounts];
    assert.deepEqual(byKey(paged), byKey(whole.result.value));
    if (encoding !== 'jsonParsed') assert.deepEqual(encodingsOf(paged), [encoding]);
  }
  const nobody = await ask('getTokenAccountsByOwnerV2', [
    Keypair.generate().publicKey.toBase58(),
    { programId: PROGRAM },
  ]);
  assert.deepEqual(nobody.result.value, { accounts: [], paginationKey: null, count: 0, totalResults: 0 });
});

test('an account that changed since the list and is no answer any more is not shown', {
  skip: missing ?? false,
}, async (t) => {
  for (const encoding of ['base64', 'jsonParsed']) {
    const { chain, ask } = await bed(t);
    const { payer, accounts } = await tokens(chain, 6);
    const owner = payer.publicKey.toBase58();
    const sorted = [...accounts].sort((a, b) => Buffer.compare(a.toBuffer(), b.toBuffer()));
    const options = { encoding, commitment: 'confirmed', limit: 2 };
    const programOptions = { ...options, filters: [{ dataSize: 165 }, { memcmp: { offset: 32, bytes: owner } }] };
    const first = (await ask('getProgramAccountsV2', [PROGRAM, programOptions])).result;
    const firstOwned = (await ask('getTokenAccountsByOwnerV2', [owner, { programId: PROGRAM }, options])).result.value;
    const shown = (list: readonly Shown[]) => list.map(({ pubkey }) => pubkey);
    assert.deepEqual(shown(first.accounts), shown(firstOwned.accounts));
    const other = Keypair.generate().publicKey;
    await setAuthority(chain.connection, payer, sorted[2]!, payer, AuthorityType.AccountOwner, other);
    await transfer(chain.connection, payer, sorted[4]!, sorted[5]!, payer, 10 * (accounts.indexOf(sorted[4]!) + 1));
    await closeAccount(chain.connection, payer, sorted[4]!, payer.publicKey, payer);
    const left: string[] = [];
    for (let { paginationKey } = first; paginationKey !== null; ) {
      const { result } = await ask('getProgramAccountsV2', [PROGRAM, { ...programOptions, paginationKey }]);
      left.push(...shown(result.accounts));
      paginationKey = result.paginationKey;
    }
    assert.deepEqual(left, [sorted[3]!, sorted[5]!].map(String), encoding);
    const { value } = (
      await ask('getTokenAccountsByOwnerV2', [
        owner,
        { programId: PROGRAM },
        { ...options, paginationKey: firstOwned.paginationKey },
      ])
    ).result;
    assert.deepEqual([shown(value.accounts), value.count], [[String(sorted[3])], 1]);
  }
});

test('invalid params are refused with a reason', { skip: missing ?? false }, async (t) => {
  const { chain, ask } = await bed(t);
  const { payer } = await tokens(chain, 2);
  const owner = payer.publicKey.toBase58();
  const filters = [{ memcmp: { offset: 32, bytes: owner } }];
  const { paginationKey } = (
    await ask('getProgramAccountsV2', [PROGRAM, { commitment: 'confirmed', filters, limit: 1 }])
  ).result;
  for (const [method, params, reason] of [
    ['getProgramAccountsV2', [], /params\[0\]/],
    ['getProgramAccountsV2', ['x'], /params\[0\]/],
    ['getProgramAccountsV2', [PROGRAM, 5], /params\[1\]/],
    ['getProgramAccountsV2', [PROGRAM, { limit: 0 }], /limit/],
    ['getProgramAccountsV2', [PROGRAM, { limit: 10_001 }], /limit/],
    ['getProgramAccountsV2', [PROGRAM, { limit: '5' }], /limit/],
    ['getProgramAccountsV2', [PROGRAM, { encoding: 'hex' }], /encoding/],
    ['getProgramAccountsV2', [PROGRAM, { commitment: 'later' }], /commitment/],
    ['getProgramAccountsV2', [PROGRAM, { changedSinceSlot: 5 }], /changedSinceSlot needs an index/],
    ['getProgramAccountsV2', [PROGRAM, { paginationKey: 'abc' }], /paginationKey is not one/],
    ['getProgramAccountsV2', [PROGRAM, { paginationKey }], /paginationKey belongs to/],
    ['getProgramAccountsV2', [PROGRAM, { filters: [{}] }], /filters\[0\]/],
    ['getProgramAccountsV2', [PROGRAM, { filters: [{ memcmp: { offset: -1, bytes: '1' } }] }], /offset/],
    ['getProgramAccountsV2', [PROGRAM, { dataSlice: { offset: 1 } }], /dataSlice.length/],
    ['getTokenAccountsByOwnerV2', [owner], /either mint or programId/],
    ['getTokenAccountsByOwnerV2', [owner, { mint: PROGRAM, programId: PROGRAM }], /either mint or programId/],
    ['getTokenAccountsByOwnerV2', [owner, { mint: 'x' }], /mint/],
    ['getTokenAccountsByOwnerV2', [owner, { programId: PROGRAM }, { changedSinceSlot: 1 }], /changedSinceSlot/],
  ] as const) {
    const { error } = await ask(method, params);
    assert.equal(error?.code, -32602, JSON.stringify([method, params]));
    assert.match(error?.data?.details ?? '', reason);
  }
});

test('where the upstreams have the methods they may be asked', async (t) => {
  const upstream = await startUpstream();
  upstream.on('getProgramAccountsV2', { result: '{"accounts":[],"paginationKey":null}' });
  const daemon = await startDaemon({
    chain: { rpcUrl: upstream.url },
    config: { plugins: ['access', 'proxy', 'accounts'], follow: { enabled: false }, accounts: { passOn: true } },
  });
  t.after(async () => {
    await daemon.stop();
    await upstream.stop();
  });
  const body = '{"jsonrpc":"2.0","id":1,"method":"getProgramAccountsV2","params":["x",{"changedSinceSlot":5}]}';
  const answer = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
  assert.deepEqual(await answer.json(), { jsonrpc: '2.0', result: { accounts: [], paginationKey: null }, id: 1 });
});
