/**
 * Every product and every refusal of a node: a refusal that is about the node moves the read to the next upstream; without another one the
 * client gets a refusal with its reason, and the only upstream is asked again at once.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Keypair, SystemProgram, Transaction } from '@solana/web3.js';
import { encode } from '../../../src/lib/base58.ts';
import { isFinalAnswer, meaningOfNodeError, NODE_ERRORS } from '../../../src/solana/node-errors.ts';
import { TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const SLOT = 1_000;
const context = `"context":{"slot":${SLOT}}`;

/** A message that a row of the table takes by its text alone. */
const TEXTS: Readonly<Record<string, string>> = {
  'no-index': 'x excluded from account secondary indexes; this RPC method unavailable for key',
  exhausted: 'max usage reached',
  limited: '50/second request limit reached',
  unhealthy: 'Node is behind by 213 slots',
  fault: 'request timed out',
  'not-offered': 'Method is not available on your plan',
  'no-history': 'Transaction history is not available from this node',
};

/** Of each row that is about the node, a refusal by each of its codes. */
const REFUSALS = NODE_ERRORS.flatMap(({ meaning, codes, text, methods }) => {
  if (isFinalAnswer(meaning) || meaning === 'unknown' || methods !== undefined) return [];
  const message = text === null ? 'refused' : (TEXTS[meaning] ?? '');
  return (codes ?? [-32_000]).map((code) => ({ meaning, code, message }));
});

/** A mint of the Token program: no authority, supply 7, 2 decimals. */
function mintData(): string {
  const data = Buffer.alloc(82);
  data.writeBigUInt64LE(7n, 36);
  data[44] = 2;
  data[45] = 1;
  return data.toString('base64');
}
const account = `{"lamports":1461600,"owner":"${TOKEN_PROGRAM}","executable":false,"rentEpoch":0,"space":82,"data":["${mintData()}","base64"]}`;

/** A transfer of 5 lamports in the form of getTransaction. */
function transfer() {
  const [from, to] = [Keypair.generate(), Keypair.generate().publicKey];
  const transaction = new Transaction({
    feePayer: from.publicKey,
    blockhash: encode(new Uint8Array(32).fill(7)),
    lastValidBlockHeight: 9,
  }).add(SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to, lamports: 5 }));
  transaction.sign(from);
  const signature = encode(transaction.signature!);
  const meta =
    '{"err":null,"status":{"Ok":null},"fee":5000,"preBalances":[10000,0,1],"postBalances":[4995,5,1],"innerInstructions":[],"logMessages":[],"preTokenBalances":[],"postTokenBalances":[],"rewards":[],"loadedAddresses":{"readonly":[],"writable":[]},"computeUnitsConsumed":150}';
  const wire = transaction.serialize().toString('base64');
  const json = `{"slot":${SLOT},"blockTime":1700000000,"transactionIndex":0,"meta":${meta},"transaction":["${wire}","base64"],"version":"legacy"}`;
  return { signature, json };
}

/** What a node answers, by method; the one that refuses has none of them. */
function answerAll(upstream: TestUpstream): void {
  const transactions = new Map<string, string>();
  known.set(upstream, transactions);
  upstream.on('getMultipleAccounts', ({ params }) => {
    const [keys] = params as [readonly string[]];
    const values = keys.map((key) => (mints.has(key) ? account : 'null'));
    return { result: `{${context},"value":[${values.join()}]}` };
  });
  upstream.on('getBalance', { result: `{${context},"value":123456789}` });
  upstream.on('getTokenAccountsByOwner', { result: `{${context},"value":[]}` });
  upstream.on('getTokenLargestAccounts', { result: `{${context},"value":[]}` });
  upstream.on('getProgramAccounts', ({ params }) => {
    const [, config] = params as [string, { readonly withContext?: boolean }];
    return { result: config.withContext === true ? `{${context},"value":[]}` : '[]' };
  });
  upstream.on('getTransaction', ({ params }) => {
    const [signature] = params as [string];
    return { result: transactions.get(signature) ?? 'null' };
  });
  upstream.on('getSignaturesForAddress', { result: '[]' });
}
const mints = new Set<string>();
const known = new Map<TestUpstream, Map<string, string>>();

interface Product {
  readonly name: string;
  /** Method of the node that the product reads with. */
  readonly reads: string;
  /** A request about something that was never asked before, and what its answer has to contain. */
  request(node: TestUpstream): { readonly path: string; readonly body?: unknown; readonly contains: RegExp };
}

const newKey = () => Keypair.generate().publicKey.toBase58();
function newMint(): string {
  const mint = newKey();
  mints.add(mint);
  return mint;
}
function newTransaction(node: TestUpstream): string {
  const { signature, json } = transfer();
  known.get(node)!.set(signature, json);
  return signature;
}
const rpc = (method: string, params: unknown) => ({ jsonrpc: '2.0', id: 1, method, params });

const PRODUCTS: readonly Product[] = [
  {
    name: 'wallet: balances',
    reads: 'getTokenAccountsByOwner',
    request: () => ({ path: `/v1/wallet/${newKey()}/balances`, contains: /0\.123456789/ }),
  },
  {
    name: 'token-metadata',
    reads: 'getMultipleAccounts',
    request: () => {
      const mint = newMint();
      return {
        path: '/v0/token-metadata',
        body: { mintAccounts: [mint] },
        contains: new RegExp(`"${mint}".*"decimals":2`, 's'),
      };
    },
  },
  {
    name: 'DAS: an asset',
    reads: 'getMultipleAccounts',
    request: () => {
      const mint = newMint();
      return { path: '/', body: rpc('getAsset', { id: mint }), contains: new RegExp(`"result":.*"id":"${mint}"`, 's') };
    },
  },
  {
    name: 'enhanced',
    reads: 'getTransaction',
    request: (node) => {
      const signature = newTransaction(node);
      return { path: '/v0/transactions', body: { transactions: [signature] }, contains: /"amount":5\b/ };
    },
  },
  {
    name: 'parsed',
    reads: 'getTransaction',
    request: (node) => {
      const signature = newTransaction(node);
      return {
        path: '/v1/parsed-events/transactions',
        body: { transactions: [signature] },
        contains: new RegExp(signature),
      };
    },
  },
  {
    name: 'accounts',
    reads: 'getProgramAccounts',
    request: () => ({ path: '/', body: rpc('getProgramAccountsV2', [newKey(), {}]), contains: /"accounts":\[\]/ }),
  },
];

async function startBed(t: TestContext, count: number) {
  const upstreams: TestUpstream[] = [];
  for (let at = 0; at < count; at += 1) upstreams.push(await startUpstream({ slot: SLOT }));
  for (const upstream of upstreams) answerAll(upstream);
  const daemon = await startDaemon({
    config: {
      plugins: ['access', 'accounts', 'das', 'enhanced', 'parsed', 'proxy', 'token-metadata', 'wallet'],
      upstream: { urls: upstreams.map(({ url }) => ({ url })), healthIntervalMs: 3_600_000, coolDownMs: 1 },
      follow: { enabled: false },
      // A list waits for a node that has not come to its slot yet.
      accounts: { listTimeoutMs: 1_000 },
    },
  });
  t.after(async () => {
    await daemon.stop();
    for (const upstream of upstreams) await upstream.stop();
  });
  return { daemon, upstreams };
}

async function ask({ apiUrl, key }: DaemonInProcess, path: string, body: unknown) {
  const init =
    body === undefined
      ? {}
      : { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
  const response = await fetch(`${apiUrl}${path}?api-key=${key}`, init);
  return { status: response.status, text: await response.text() };
}

const refusal = (code: number, message: string) => ({
  chunks: [`{"jsonrpc":"2.0","error":{"code":${code},"message":${JSON.stringify(message)}},"id":1}`],
});

test('the table of refusals has an example of each meaning that is about the node', () => {
  assert.ok(REFUSALS.length > 30);
  for (const { meaning, code, message } of REFUSALS)
    assert.equal(
      isFinalAnswer(meaningOfNodeError({ code, message }, 'getBalance')),
      false,
      `${meaning} ${code} ${message}`,
    );
});

test('two upstreams: whatever the first one refuses with, the second answers, for every product', async (t) => {
  const { daemon, upstreams } = await startBed(t, 2);
  const [first, second] = upstreams as [TestUpstream, TestUpstream];
  for (const product of PRODUCTS)
    for (const { code, message } of REFUSALS) {
      for (const method of [
        'getMultipleAccounts',
        'getBalance',
        'getTokenAccountsByOwner',
        'getTokenLargestAccounts',
        'getProgramAccounts',
        'getTransaction',
      ])
        first.on(method, refusal(code, message));
      const before = second.callsOf(product.reads).length;
      const { path, body, contains } = product.request(second);
      const { status, text } = await ask(daemon, path, body);
      assert.equal(status, 200, `${product.name} ${code} ${message}: ${text}`);
      assert.match(text, contains, `${product.name} ${code} ${message}`);
      assert.ok(second.callsOf(product.reads).length > before, `${product.name} ${code}`);
    }
});

test('one upstream: a refusal is answered as one, and the next call reaches the node again', async (t) => {
  const { daemon, upstreams } = await startBed(t, 1);
  const [only] = upstreams as [TestUpstream];
  for (const product of PRODUCTS)
    for (const { meaning, code, message } of REFUSALS) {
      // However long it asks to be left alone.
      const headers = meaning === 'limited' ? { headers: { 'retry-after': '600' } } : {};
      only.on(product.reads, { ...refusal(code, message), ...headers });
      const refused = product.request(only);
      const { status, text } = await ask(daemon, refused.path, refused.body);
      assert.ok(status < 500 || status === 503, `${product.name} ${code}: ${status} ${text}`);
      assert.doesNotMatch(text, refused.contains, `${product.name} ${code}`);
      answerAll(only);
      const { path, body, contains } = product.request(only);
      const after = await ask(daemon, path, body);
      assert.equal(after.status, 200, `${product.name} after ${meaning} ${code} ${message}: ${after.text}`);
      assert.match(after.text, contains, product.name);
    }
});
