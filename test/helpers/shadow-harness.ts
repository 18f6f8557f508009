/** Two daemons on one chain: clients call the first, which compares its answers with those of the second. */
import type { IncomingMessage } from 'node:http';
import { PublicKey } from '@solana/web3.js';
import type { ShadowReport } from '../../src/ports/shadow-report.ts';
import { type DaemonInProcess, startDaemon } from './daemon.ts';
import { startHttpServer } from './http-server.ts';
import { fillShadowChain, type ShadowChain, type ShadowFacts } from './shadow-chain.ts';
import { until } from './until.ts';

/** What people call the parts of the service. */
export const FAMILIES = ['rpc', 'wallet', 'metadata', 'das', 'enhanced', 'parsed', 'history', 'compression'] as const;
export type Family = (typeof FAMILIES)[number];

export interface Asked {
  readonly family: Family;
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
  readonly chain: ShadowChain;
  readonly daemon: DaemonInProcess;
  readonly other: DaemonInProcess;
  /** What arrived at the reference. */
  readonly reached: Reached[];
  /** Changes what the reference answers from now on; null: nothing. */
  spoil(change: ((status: number, text: string) => { readonly status?: number; readonly text: string }) | null): void;
  ask(
    question: Pick<Asked, 'path' | 'body'>,
    url?: string,
    key?: string,
  ): Promise<{ readonly status: number; readonly text: string }>;
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
/** Requests of the reference that are kept. */
const MAX_REACHED = 20_000;

/** The chain ends with the bed. */
export async function startShadowBed(
  chain: ShadowChain,
  shadow: Readonly<Record<string, unknown>> = {},
  more: Readonly<Record<string, unknown>> = {},
): Promise<ShadowBed> {
  const { family, group, owner, tokens } = chain.assets;
  const common = {
    compression: { verifyChain: false },
    das: { follow: { collections: [family, group], owners: [owner], mints: tokens } },
    ...more,
  };
  const other = await startDaemon({ chain, config: { ...common, plugins: PLUGINS } });
  const reached: Reached[] = [];
  let change: Parameters<ShadowBed['spoil']>[0] = null;
  const reference = await startHttpServer(async (body, request, response) => {
    const { method = '', url = '', headers } = request;
    if (reached.length < MAX_REACHED) reached.push({ method, url, headers, body: body.toString() });
    const given = await fetch(other.apiUrl + url, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(method === 'POST' ? { body } : {}),
    });
    const text = await given.text();
    const said = change?.(given.status, text) ?? { text };
    response.writeHead(said.status ?? given.status, { 'content-type': 'application/json' }).end(said.text);
  });
  const { url } = reference;
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
  const stop = async () => {
    await daemon.stop();
    await other.stop();
    await reference.close();
    await chain.stop();
  };
  const prepare = async () => {
    const facts = await fillShadowChain(chain, `${other.apiUrl}/?api-key=${other.key}`);
    await chain.settle();
    const questions = await questionsOf(chain, facts, (question) => ask(question, other.apiUrl, other.key));
    for (const question of questions)
      for (const [at, key] of [
        [other.apiUrl, other.key],
        [daemon.apiUrl, daemon.key],
      ] as const)
        await until(async () => {
          const { status, text } = await ask(question, at, key);
          const isLater = status === 503 || text.includes('"code":-32002');
          if (!isLater && (status >= 400 || /^\{"jsonrpc":"2\.0",(?:"id":\d+,)?"error"/.test(text)))
            throw new Error(`${JSON.stringify(question)}: ${status} ${text}`);
          return !isLater;
        }, `${question.name} is answered`);
    return questions;
  };
  const questions = await prepare().catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return {
    chain,
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
    stop,
  };
}

/** At least one call per method and route, for what is on the chain. */
async function questionsOf(
  chain: ShadowChain,
  { economy: { wallets, mints }, compressed, compressedMint, provedTree }: ShadowFacts,
  ask: (question: Pick<Asked, 'path' | 'body'>) => Promise<{ readonly text: string }>,
): Promise<readonly Asked[]> {
  const [wallet = '', payee = ''] = wallets;
  const { mint } = mints[0]!;
  const list = await chain.connection.getSignaturesForAddress(new PublicKey(wallet), { limit: 20 }, 'finalized');
  const { signature, slot } = list.at(-1)!;
  const signatures = list.slice(0, 5).map((row) => row.signature);
  const call = (name: string, params: unknown): Pick<Asked, 'name' | 'path' | 'body'> => ({
    name,
    path: '/',
    body: { jsonrpc: '2.0', id: 1, method: name, params },
  });
  const rpcOf =
    (family: Family) =>
    (name: string, params: unknown = []): Asked => ({ family, ...call(name, params) });
  const restOf =
    (family: Family) =>
    (name: string, path: string, body?: unknown): Asked =>
      body === undefined ? { family, name, path } : { family, name, path, body };
  /** What the reference says now. */
  const learn = async <T>(name: string, params: unknown): Promise<T> =>
    await until(async () => {
      const { result } = JSON.parse((await ask(call(name, params))).text) as { readonly result?: T };
      return result;
    }, `${name} is answered`);
  const [owner = ''] = compressed;
  type Held = { readonly items: readonly { readonly hash: string; readonly tree: string }[] };
  const held = (await learn<{ value: Held }>('getCompressedAccountsByOwner', { owner })).value.items;
  const hashes = held.filter(({ tree }) => tree === provedTree).map((item) => item.hash);
  const [hash] = hashes;
  const [rpc, das, history, compression] = (['rpc', 'das', 'history', 'compression'] as const).map(rpcOf) as [
    ReturnType<typeof rpcOf>,
    ReturnType<typeof rpcOf>,
    ReturnType<typeof rpcOf>,
    ReturnType<typeof rpcOf>,
  ];
  const [ofWallet, metadata, enhanced, parsed] = (['wallet', 'metadata', 'enhanced', 'parsed'] as const).map(
    restOf,
  ) as [ReturnType<typeof restOf>, ReturnType<typeof restOf>, ReturnType<typeof restOf>, ReturnType<typeof restOf>];
  const { assets } = chain;
  const nft = assets.ids[1]!;
  const page = { page: 1, limit: 50 };
  return [
    rpc('getSlot'),
    rpc('getBlockHeight'),
    rpc('getHealth'),
    rpc('getGenesisHash'),
    rpc('getEpochInfo'),
    rpc('getEpochSchedule'),
    rpc('getLatestBlockhash'),
    rpc('getBalance', [wallet]),
    rpc('getAccountInfo', [wallet, { encoding: 'base64' }]),
    rpc('getAccountInfo', [mint, { encoding: 'jsonParsed' }]),
    rpc('getMultipleAccounts', [[wallet, payee, mint], { encoding: 'base64' }]),
    rpc('getTokenAccountsByOwner', [wallet, { mint }, { encoding: 'jsonParsed' }]),
    rpc('getTokenSupply', [mint]),
    rpc('getSignaturesForAddress', [wallet, { limit: 10 }]),
    rpc('getSignatureStatuses', [signatures, { searchTransactionHistory: true }]),
    rpc('getTransaction', [signature, { maxSupportedTransactionVersion: 0 }]),
    rpc('getTransaction', [signatures[0], { maxSupportedTransactionVersion: 0, encoding: 'jsonParsed' }]),
    rpc('getBlock', [slot, { maxSupportedTransactionVersion: 0, transactionDetails: 'full' }]),
    rpc('getBlocks', [slot, slot + 5]),
    rpc('getBlockTime', [slot]),
    rpc('getMinimumBalanceForRentExemption', [165]),
    rpc('getPriorityFeeEstimate', [{ accountKeys: [wallet], options: { includeAllPriorityFeeLevels: true } }]),
    rpc('getProgramAccounts', [
      'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
      { encoding: 'base64', filters: [{ dataSize: 165 }] },
    ]),
    rpc('getProgramAccountsV2', [
      'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
      { encoding: 'base64', filters: [{ dataSize: 165 }], limit: 100 },
    ]),
    rpc('getTokenAccountsByOwnerV2', [wallet, { mint }, { encoding: 'base64', limit: 100 }]),
    history('getTransactionsForAddress', [wallet, { transactionDetails: 'signatures', limit: 10 }]),
    history('getTransactionsForAddress', [payee, { transactionDetails: 'full', limit: 5, sortOrder: 'asc' }]),
    history('getTransfersByAddress', [wallet]),
    das('getAsset', { id: mint }),
    das('getAsset', { id: nft }),
    das('getAssetBatch', { ids: [mint, ...assets.ids.slice(0, 3)] }),
    das('getAssetsByOwner', { ownerAddress: assets.owner, ...page }),
    das('getAssetsByGroup', { groupKey: 'collection', groupValue: assets.family, ...page }),
    das('getAssetsByGroup', { groupKey: 'collection', groupValue: assets.group, ...page }),
    das('searchAssets', { ownerAddress: assets.owner, tokenType: 'all', ...page }),
    das('getTokenAccounts', { owner: wallet }),
    das('getTokenAccounts', { mint: assets.tokens[0] }),
    compression('getCompressedAccount', { hash }),
    compression('getCompressedAccountV2', { hash }),
    compression('getMultipleCompressedAccounts', { hashes }),
    compression('getCompressedAccountsByOwner', { owner }),
    compression('getCompressedAccountsByOwnerV2', { owner }),
    compression('getCompressedBalanceByOwner', { owner }),
    compression('getCompressedTokenAccountsByOwner', { owner }),
    compression('getCompressedTokenAccountsByOwnerV2', { owner }),
    compression('getCompressedTokenBalancesByOwner', { owner }),
    compression('getCompressedMintTokenHolders', { mint: compressedMint }),
    compression('getCompressedAccountProof', { hash }),
    compression('getMultipleCompressedAccountProofs', hashes),
    compression('getCompressionSignaturesForOwner', { owner }),
    compression('getCompressionSignaturesForTokenOwner', { owner }),
    compression('getLatestCompressionSignatures', { limit: 5 }),
    compression('getIndexerHealth', {}),
    compression('getIndexerSlot', {}),
    ofWallet('GET /v1/wallet/:wallet/history', `/v1/wallet/${wallet}/history?limit=10`),
    ofWallet('GET /v1/wallet/:wallet/transfers', `/v1/wallet/${wallet}/transfers?limit=10`),
    ofWallet('GET /v1/wallet/:wallet/balances', `/v1/wallet/${wallet}/balances`),
    ofWallet('GET /v1/wallet/:wallet/balance-at', `/v1/wallet/${wallet}/balance-at?mint=${mint}&slot=${slot}`),
    ofWallet('GET /v1/wallet/:wallet/funded-by', `/v1/wallet/${wallet}/funded-by`),
    ofWallet('POST /v1/wallet/batch-identity', '/v1/wallet/batch-identity', {
      addresses: [wallet, '11111111111111111111111111111111'],
    }),
    metadata('POST /v0/token-metadata', '/v0/token-metadata', {
      mintAccounts: [mint, nft, assets.tokens[0]],
      includeOffChain: false,
    }),
    enhanced('POST /v0/transactions', '/v0/transactions', { transactions: signatures }),
    enhanced('GET /v0/addresses/:address/transactions', `/v0/addresses/${wallet}/transactions?limit=5`),
    parsed('POST /v1/parsed-events/transactions', '/v1/parsed-events/transactions', { transactions: signatures }),
    parsed('POST /v1/parsed-events/transaction-history', '/v1/parsed-events/transaction-history', {
      address: wallet,
      limit: 5,
    }),
    parsed('POST /v1/parsed-events/scan', '/v1/parsed-events/scan', {
      address: wallet,
      limit: 5,
      match: { programs: [{ programId: '11111111111111111111111111111111', instructions: ['transfer'] }] },
    }),
  ];
}
