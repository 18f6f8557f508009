/** Two daemons on one local chain: clients call the first, which compares its answers with those of the second. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { LAMPORTS_PER_SOL } from '@solana/web3.js';
import type { ShadowReport } from '../../src/ports/shadow-report.ts';
import { startChain, type TestChain } from './chain.ts';
import { type DaemonInProcess, startDaemon } from './daemon.ts';
import { until } from './until.ts';
import { createEconomy, type Economy } from './wallet-economy.ts';

export interface Asked {
  /** JSON-RPC method, or HTTP method and route pattern. */
  readonly name: string;
  readonly path: string;
  readonly body?: unknown;
}

export interface Reached {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export interface ShadowBed {
  readonly chain: TestChain;
  readonly economy: Economy;
  readonly daemon: DaemonInProcess;
  readonly other: DaemonInProcess;
  /** What arrived at the reference. */
  readonly reached: Reached[];
  /** Changes what the reference answers from now on; null: nothing. */
  spoil(change: ((status: number, text: string) => { readonly status?: number; readonly text: string }) | null): void;
  ask(question: Asked, url?: string, key?: string): Promise<{ readonly status: number; readonly text: string }>;
  /** Calls of all products, which both daemons answer. */
  readonly questions: readonly Asked[];
  report(): Promise<ShadowReport>;
  /** Resolves when so many answers were compared, or not, since the start. */
  compared(count: number): Promise<ShadowReport>;
  stop(): Promise<void>;
}

const PLUGINS = [
  'access',
  'accounts',
  'compression',
  'das',
  'enhanced',
  'fees',
  'history',
  'parsed',
  'prices',
  'proxy',
  'token-metadata',
  'wallet',
];

export async function startShadowBed(
  shadow: Readonly<Record<string, unknown>> = {},
  more: Readonly<Record<string, unknown>> = {},
): Promise<ShadowBed> {
  const chain = await startChain();
  const economy = await createEconomy(chain, 49);
  await economy.run(12);
  const common = { compression: { verifyChain: false }, ...more };
  const other = await startDaemon({ chain, config: { ...common, plugins: PLUGINS } });
  const reached: Reached[] = [];
  let change: Parameters<ShadowBed['spoil']>[0] = null;
  const reference = createServer(async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts);
    const { method = '', url = '', headers } = request;
    reached.push({ method, url, headers, body: body.toString() });
    const given = await fetch(other.apiUrl + url, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(method === 'POST' ? { body } : {}),
    });
    const text = await given.text();
    const said = change?.(given.status, text) ?? { text };
    response.writeHead(said.status ?? given.status, { 'content-type': 'application/json' }).end(said.text);
  });
  await new Promise<void>((resolve) => reference.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(reference.address() as AddressInfo).port}`;
  const daemon = await startDaemon({
    chain,
    config: {
      ...common,
      plugins: [...PLUGINS, 'shadow'],
      shadow: {
        share: 1,
        recheckMs: 0,
        reference: { url: `${url}/`, restUrl: url, apiKey: other.key },
        ...shadow,
      },
    },
  });
  const ask: ShadowBed['ask'] = async ({ path, body }, at = daemon.apiUrl, key = daemon.key) => {
    const sign = path.includes('?') ? '&' : '?';
    const response = await fetch(`${at}${path}${sign}api-key=${key}`, {
      ...(body === undefined
        ? {}
        : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text() };
  };
  const report = async (): Promise<ShadowReport> =>
    (await (await fetch(`${daemon.adminUrl}/v0/admin/shadow`)).json()) as ShadowReport;
  await chain.seal(40);
  const questions = await questionsOf(chain, economy);
  for (const question of questions)
    for (const [at, key] of [
      [other.apiUrl, other.key],
      [daemon.apiUrl, daemon.key],
    ] as const)
      await until(async () => {
        const { status, text } = await ask(question, at, key);
        const isLater = status === 503 || text.includes('"code":-32002');
        if (!isLater && (status >= 400 || text.includes('"error":{')))
          throw new Error(`${question.name}: ${status} ${text}`);
        return !isLater;
      }, `${question.name} is answered`);
  return {
    chain,
    economy,
    daemon,
    other,
    reached,
    spoil: (next) => {
      change = next;
    },
    ask,
    questions,
    report,
    compared: (count) =>
      until(async () => {
        const now = await report();
        return now.compared + now.unanswered >= count && now;
      }, `${count} answers were compared`),
    async stop() {
      await daemon.stop();
      await other.stop();
      await new Promise<void>((resolve) => {
        reference.close(() => resolve());
        reference.closeAllConnections();
      });
      await chain.stop();
    },
  };
}

/** One call per method and route, for what is on the chain. */
async function questionsOf(chain: TestChain, { wallets, mints }: Economy): Promise<readonly Asked[]> {
  const [wallet = '', payee = ''] = wallets;
  const { mint } = mints[0]!;
  await chain.fund(wallet, LAMPORTS_PER_SOL);
  await chain.seal(40);
  const list = await chain.connection.getSignaturesForAddress(await keyOf(wallet), { limit: 20 }, 'finalized');
  const signature = list.at(-1)!.signature;
  const { slot } = list.at(-1)!;
  const call = (name: string, params: unknown = []): Asked => ({
    name,
    path: '/',
    body: { jsonrpc: '2.0', id: 1, method: name, params },
  });
  const rest = (name: string, path: string, body?: unknown): Asked =>
    body === undefined ? { name, path } : { name, path, body };
  return [
    call('getSlot'),
    call('getBlockHeight'),
    call('getHealth'),
    call('getGenesisHash'),
    call('getEpochInfo'),
    call('getLatestBlockhash'),
    call('getBalance', [wallet]),
    call('getAccountInfo', [wallet, { encoding: 'base64' }]),
    call('getAccountInfo', [mint, { encoding: 'jsonParsed' }]),
    call('getMultipleAccounts', [[wallet, payee, mint], { encoding: 'base64' }]),
    call('getTokenAccountsByOwner', [wallet, { mint }, { encoding: 'jsonParsed' }]),
    call('getTokenSupply', [mint]),
    call('getSignaturesForAddress', [wallet, { limit: 10 }]),
    call('getTransaction', [signature, { maxSupportedTransactionVersion: 0 }]),
    call('getBlock', [slot, { maxSupportedTransactionVersion: 0, transactionDetails: 'full' }]),
    call('getBlocks', [slot, slot + 5]),
    call('getMinimumBalanceForRentExemption', [165]),
    call('getPriorityFeeEstimate', [{ accountKeys: [wallet], options: { includeAllPriorityFeeLevels: true } }]),
    call('getProgramAccountsV2', [
      'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
      { encoding: 'base64', filters: [{ dataSize: 165 }], limit: 100 },
    ]),
    call('getTransactionsForAddress', [wallet, { transactionDetails: 'signatures', limit: 10 }]),
    call('getTransfersByAddress', [wallet]),
    call('getAsset', { id: mint }),
    call('getTokenAccounts', { owner: wallet }),
    call('getCompressedAccountsByOwner', { owner: wallet }),
    rest('GET /v1/wallet/:wallet/history', `/v1/wallet/${wallet}/history?limit=10`),
    rest('GET /v1/wallet/:wallet/transfers', `/v1/wallet/${wallet}/transfers?limit=10`),
    rest('GET /v1/wallet/:wallet/balances', `/v1/wallet/${wallet}/balances`),
    rest('POST /v0/transactions', '/v0/transactions', { transactions: [signature] }),
    rest('GET /v0/addresses/:address/transactions', `/v0/addresses/${wallet}/transactions?limit=5`),
    rest('POST /v0/token-metadata', '/v0/token-metadata', { mintAccounts: [mint] }),
    rest('POST /v1/parsed-events/transactions', '/v1/parsed-events/transactions', { transactions: [signature] }),
  ];
}

async function keyOf(address: string) {
  const { PublicKey } = await import('@solana/web3.js');
  return new PublicKey(address);
}
