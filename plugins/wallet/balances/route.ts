import { Type } from '@sinclair/typebox';
import { defineRoute, type PluginContext, type Route } from '../../../src/plugin/plugin.ts';
import { compressedAssets } from '../../../src/ports/compressed-assets.ts';
import { type MintFacts, type TokenFacts, tokenFacts, tokenPrices } from '../../../src/ports/tokens.ts';
import { plainAmount } from '../../../src/solana/accounts/amounts.ts';
import { WRAPPED_SOL_MINT } from '../../../src/solana/addresses.ts';
import { address, count, flag, mint, oneOf, orNull, text } from '../../../src/solana/schemas.ts';
import type { WalletConfig } from '../config.ts';
import { createChainCall, WALLET_REFUSALS, WALLET_ROUTE, walletKey, walletParams } from '../wallet-route.ts';
import {
  createFactsLookUp,
  createTables,
  type HoldingTable,
  type LookUpFacts,
  type PricedHolding,
  type Tables,
  type TokenProgramName,
} from './holdings.ts';
import { assetApi, coreAssets, createNftReader, followedTrees, type NftReader } from './nfts.ts';

const ASSET_CONNECTIONS = 4;

/** Current balances of a wallet. */
export function balancesRoutes(ctx: PluginContext<WalletConfig>, { balances, commitment }: WalletConfig) {
  const { clock, log, metrics } = ctx;
  const chain = createChainCall(ctx.chain('main'));
  const facts = ctx.use(tokenFacts) ?? null;
  const lookUp = createFactsLookUp(facts);
  const prices = ctx.use(tokenPrices) ?? null;
  const tables = createTables({ chain, lookUp, prices, clock, log, metrics, commitment, config: balances });
  const assets = balances.dasUrl === null ? null : openAssets(ctx, balances.dasUrl);
  const trees = ctx.use(compressedAssets)?.index ?? null;
  const sources = [
    ...(balances.core ? [coreAssets(chain, commitment)] : []),
    ...(trees === null ? [] : [followedTrees(trees)]),
    ...(assets === null ? [] : [assets.source]),
  ];
  const images: TokenFacts['images'] = async (uris) => (await facts?.images(uris)) ?? new Map();
  const nfts = createNftReader({ chain, lookUp, images, sources, commitment, log, metrics });
  return {
    routes: [balancesRoute({ tables, lookUp, nfts, factsRevision: () => facts?.revision() ?? 0 })],
    stop: async () => assets?.close(),
  };
}

/** The operator configured the address: any network is allowed. */
function openAssets({ outbound, id }: PluginContext<WalletConfig>, url: string) {
  const client = outbound.open({
    ...{ allowCidrs: ['0.0.0.0/0', '::/0'], allowHttp: true, allowPorts: null, caFile: null },
    ...{ maxConnections: ASSET_CONNECTIONS, section: `${id}.balances` },
  });
  return { source: assetApi(client, url), close: () => client.close() };
}

interface BalancesContext {
  readonly tables: Tables;
  readonly lookUp: LookUpFacts;
  readonly nfts: NftReader;
  /** Changes whenever facts of mints may have changed. */
  readonly factsRevision: () => number;
}

/** The last response made of a table. */
interface Finished {
  readonly question: string;
  readonly revision: number;
  readonly bytes: Uint8Array;
}

/** GET balances: SOL, tokens by value, and NFTs on request. */
function balancesRoute({ tables, lookUp, nfts, factsRevision }: BalancesContext): Route {
  const finished = new WeakMap<HoldingTable, Finished>();
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'GET',
    path: '/v1/wallet/:wallet/balances',
    summary: 'Current balances of a wallet, with values in US dollars',
    params: walletParams,
    query: balancesQuery,
    replies: { 200: balancesReply, ...WALLET_REFUSALS },
    async handler({ params: { wallet }, query }) {
      walletKey(wallet);
      const { page, limit, showZeroBalance: withZeros, showNfts } = query;
      const table = await tables.read(wallet, { page, withZeros });
      const question = `${page} ${limit} ${query.showNative}`;
      const known = finished.get(table);
      const revision = factsRevision();
      if (!showNfts && known?.question === question && known.revision === revision)
        return { status: 200, jsonBytes: known.bytes };
      const cut = cutPage(table, query);
      const mints = new Set([...(cut.withSol ? [WRAPPED_SOL_MINT] : []), ...cut.rows.map(({ mint }) => mint)]);
      const [facts, shownNfts] = await Promise.all([
        lookUp([...mints], { wantLogos: true }),
        showNfts && page === 1 ? nfts.read(wallet, table.nfts) : null,
      ]);
      const balances = [
        ...(cut.withSol ? [solRow(table, facts.get(WRAPPED_SOL_MINT) ?? null)] : []),
        ...cut.rows.map((row) => tokenRow(row, facts.get(row.mint) ?? null)),
      ];
      const answer = {
        balances,
        ...(shownNfts === null ? {} : { nfts: shownNfts }),
        totalUsdValue: totalValue(balances),
        pagination: { page, limit, hasMore: cut.hasMore },
      };
      const bytes = Buffer.from(JSON.stringify(answer));
      if (!showNfts) finished.set(table, { question, revision, bytes });
      return { status: 200, jsonBytes: bytes };
    },
  });
}

const balancesQuery = Type.Object({
  page: Type.Integer({ minimum: 1, maximum: 1_000_000, default: 1, description: 'Number of the page' }),
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 100, description: 'Tokens of a page' }),
  showZeroBalance: Type.Boolean({ default: false, description: 'Also tokens without a balance' }),
  showNative: Type.Boolean({ default: true, description: 'SOL as the first row of the first page' }),
  showNfts: Type.Boolean({ default: false, description: 'Up to 100 NFTs with the first page' }),
});

const balanceRow = Type.Object(
  {
    mint: mint(),
    symbol: orNull(text('Symbol', 'USDC')),
    name: orNull(text('Name', 'USD Coin')),
    balance: Type.Number({ description: 'Whole tokens', examples: [12.5] }),
    decimals: count('Decimals of the mint', 6),
    pricePerToken: orNull(Type.Number({ description: 'US dollars', examples: [1] })),
    usdValue: orNull(Type.Number({ description: 'US dollars', examples: [12.5] })),
    logoUri: orNull(text('Image', 'https://example.org/usdc.png')),
    tokenProgram: oneOf(['spl-token', 'token-2022'], 'Program of the token'),
  },
  { title: 'TokenBalance', description: 'Balance of SOL or a token' },
);

const nftRow = Type.Object(
  {
    mint: address('The NFT'),
    name: orNull(text('Name', 'Mad Lads #8420')),
    imageUri: orNull(text('Image', 'https://example.org/8420.png')),
    collectionName: orNull(text('Name of the collection', 'Mad Lads')),
    collectionAddress: orNull(address('Address of the collection')),
    compressed: flag('Whether it is a compressed NFT'),
  },
  { title: 'Nft', description: 'An NFT of the wallet' },
);

const balancesReply = Type.Object(
  {
    balances: Type.Array(balanceRow, { description: 'SOL first, then tokens by value' }),
    nfts: Type.Optional(Type.Array(nftRow, { description: 'Only with showNfts' })),
    totalUsdValue: Type.Number({ description: 'Of this page, in US dollars', examples: [12.5] }),
    pagination: Type.Object(
      {
        page: count('Number of the page'),
        limit: count('Tokens of a page', 100),
        hasMore: flag('Whether there is another page'),
      },
      { description: 'Where the list continues' },
    ),
  },
  { description: 'A page of balances' },
);

/** A row of an answer. */
export interface TokenBalance {
  readonly mint: string;
  readonly symbol: string | null;
  readonly name: string | null;
  readonly balance: number;
  readonly decimals: number;
  readonly pricePerToken: number | null;
  readonly usdValue: number | null;
  readonly logoUri: string | null;
  readonly tokenProgram: TokenProgramName;
}

export interface PageQuery {
  /** From 1. */
  readonly page: number;
  readonly limit: number;
  readonly showNative: boolean;
}

const SOL_DECIMALS = 9;

/** Rows of a page: SOL comes before all rows and counts as one. */
export function cutPage({ rows }: HoldingTable, { page, limit, showNative }: PageQuery) {
  const before = showNative ? 1 : 0;
  const start = (page - 1) * limit;
  const end = start + limit;
  return {
    withSol: showNative && page === 1,
    rows: rows.slice(Math.max(0, start - before), Math.max(0, end - before)),
    hasMore: rows.length + before > end,
  };
}

/** The row of SOL itself, also with a balance of zero. */
export function solRow({ lamports, solPrice }: HoldingTable, facts: MintFacts | null): TokenBalance {
  const balance = Number(plainAmount(lamports, SOL_DECIMALS));
  return {
    ...{ mint: WRAPPED_SOL_MINT, symbol: 'SOL', name: 'Solana', balance, decimals: SOL_DECIMALS },
    ...{ pricePerToken: solPrice, usdValue: solPrice === null ? null : balance * solPrice },
    ...{ logoUri: facts?.logoUri ?? null, tokenProgram: 'spl-token' },
  };
}

/** The row of a token. Wrapped SOL has its own name, to distinguish it from SOL. */
export function tokenRow(row: PricedHolding, facts: MintFacts | null): TokenBalance {
  const { mint, decimals, balance } = row;
  const isWrapped = mint === WRAPPED_SOL_MINT;
  return {
    mint,
    symbol: isWrapped ? 'WSOL' : (facts?.symbol ?? null),
    name: isWrapped ? 'Wrapped SOL' : (facts?.name ?? null),
    ...{ balance, decimals, pricePerToken: row.price, usdValue: row.value },
    ...{ logoUri: facts?.logoUri ?? null, tokenProgram: row.program },
  };
}

/** Total value of the rows in US dollars, without unpriced ones. */
export function totalValue(rows: readonly TokenBalance[]): number {
  return rows.reduce((sum, { usdValue }) => sum + (usdValue ?? 0), 0);
}
