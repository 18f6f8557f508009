import { type Static, Type } from '@sinclair/typebox';
import { decode32, encode, encode32 } from '../../../src/lib/base58.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import { isPlainObject } from '../../../src/lib/json.ts';
import { rpcReplyOf, rpcRequest } from '../../../src/lib/json-rpc.ts';
import {
  codeOf,
  defineRoute,
  type Log,
  type Metrics,
  type PluginContext,
  type Route,
} from '../../../src/plugin/plugin.ts';
import type { Tenant } from '../../../src/ports/access.ts';
import { type CompressedAssets, compressedAssets } from '../../../src/ports/compressed-assets.ts';
import type { OutboundClient } from '../../../src/ports/outbound.ts';
import { type MintFacts, type TokenFacts, tokenFacts, tokenPrices } from '../../../src/ports/tokens.ts';
import { plainAmount } from '../../../src/solana/accounts/amounts.ts';
import { CORE_KEY, CORE_OWNER_AT, decodeCoreAsset, decodeCoreCollection } from '../../../src/solana/accounts/core.ts';
import { metadataOfLeaf } from '../../../src/solana/concurrent/leaf-metadata.ts';
import { CORE_PROGRAM, WRAPPED_SOL_MINT } from '../../../src/solana/programs.ts';
import { address, count, flag, mint, oneOf, orNull, text } from '../../../src/solana/schemas.ts';
import { WALLET_ERRORS, type WalletConfig } from '../config.ts';
import {
  type ChainCall,
  createChainCall,
  WALLET_REFUSALS,
  WALLET_ROUTE,
  walletKey,
  walletParams,
} from '../wallet-route.ts';
import {
  createFactsLookUp,
  createHoldingTables,
  type HoldingTable,
  type HoldingTables,
  type LookUpFacts,
  type PricedHolding,
} from './holdings.ts';

const ASSET_CONNECTIONS = 4;

/** Current balances of a wallet. */
export function balancesRoutes(ctx: PluginContext<WalletConfig>, { balances, commitment }: WalletConfig) {
  const { clock, log, metrics } = ctx;
  const chain = createChainCall(ctx.chain('main'));
  const facts = ctx.use(tokenFacts) ?? null;
  const lookUp = createFactsLookUp(facts);
  const prices = ctx.use(tokenPrices) ?? null;
  const tables = createHoldingTables({ chain, lookUp, prices, clock, log, metrics, commitment, config: balances });
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
    allowCidrs: ['0.0.0.0/0', '::/0'],
    allowHttp: true,
    allowPorts: null,
    caFile: null,
    maxConnections: ASSET_CONNECTIONS,
    section: `${id}.balances`,
  });
  return { source: assetApi(client, url), close: () => client.close() };
}

interface BalancesContext {
  readonly tables: HoldingTables;
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
    async handler({ params: { wallet }, query, tenant }) {
      walletKey(wallet);
      const { page, limit, showZeroBalance: withZeros, showNfts } = query;
      const table = await tables.read(wallet, { page, withZeros, tenant });
      const question = `${page} ${limit} ${query.showNative}`;
      const known = finished.get(table);
      const revision = factsRevision();
      if (!showNfts && known?.question === question && known.revision === revision)
        return { status: 200, jsonBytes: known.bytes };
      const cut = cutHoldings(table, query);
      const mints = new Set([...(cut.withSol ? [WRAPPED_SOL_MINT] : []), ...cut.rows.map(({ mint }) => mint)]);
      const [facts, shownNfts] = await Promise.all([
        lookUp([...mints], { tenant, wantLogos: true }),
        showNfts && page === 1 ? nfts.read(wallet, table.nfts, tenant) : null,
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

export const balancesReply = Type.Object(
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

/** A row of an answer: its fields are those of the schema. */
export type TokenBalanceRow = Readonly<Static<typeof balanceRow>>;

export interface PageQuery {
  /** From 1. */
  readonly page: number;
  readonly limit: number;
  readonly showNative: boolean;
}

const SOL_DECIMALS = 9;

/** Rows of a page: SOL comes before all rows and counts as one. */
export function cutHoldings({ rows }: HoldingTable, { page, limit, showNative }: PageQuery) {
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
export function solRow({ lamports, solPrice }: HoldingTable, facts: MintFacts | null): TokenBalanceRow {
  const balance = Number(plainAmount(lamports, SOL_DECIMALS));
  return {
    mint: WRAPPED_SOL_MINT,
    symbol: 'SOL',
    name: 'Solana',
    balance,
    decimals: SOL_DECIMALS,
    pricePerToken: solPrice,
    usdValue: solPrice === null ? null : balance * solPrice,
    logoUri: facts?.logoUri ?? null,
    tokenProgram: 'spl-token',
  };
}

/** The row of a token. Wrapped SOL has its own name, to distinguish it from SOL. */
export function tokenRow(row: PricedHolding, facts: MintFacts | null): TokenBalanceRow {
  const { mint, decimals, balance } = row;
  const isWrapped = mint === WRAPPED_SOL_MINT;
  return {
    mint,
    symbol: isWrapped ? 'WSOL' : (facts?.symbol ?? null),
    name: isWrapped ? 'Wrapped SOL' : (facts?.name ?? null),
    balance,
    decimals,
    pricePerToken: row.price,
    usdValue: row.value,
    logoUri: facts?.logoUri ?? null,
    tokenProgram: row.program,
  };
}

/** Total value of the rows in US dollars, without unpriced ones. */
export function totalValue(rows: readonly TokenBalanceRow[]): number {
  return rows.reduce((sum, { usdValue }) => sum + (usdValue ?? 0), 0);
}

export interface NftReader {
  /** The first hundred NFTs of a wallet by mint: tokens (`mints`), and those of the sources. */
  read(wallet: string, mints: readonly string[], tenant: Tenant): Promise<readonly Nft[]>;
}

export interface NftParts {
  readonly chain: ChainCall;
  readonly lookUp: LookUpFacts;
  readonly images: TokenFacts['images'];
  readonly sources: readonly NftSource[];
  readonly commitment: string;
  readonly log: Log;
  readonly metrics: Metrics;
}

function createNftReader({ chain, lookUp, images, sources, commitment, log, metrics }: NftParts): NftReader {
  const failures = metrics.counter('nft_failures_total', 'refused look-ups of NFTs', ['source']);

  async function readSource(source: NftSource, wallet: string, tenant: Tenant): Promise<readonly FoundNft[]> {
    try {
      return await source.read(wallet, tenant);
    } catch (error) {
      failures.with(source.name).add();
      log.warn({ source: source.name, code: codeOf(error) }, 'NFTs of a wallet cannot be read');
      return [];
    }
  }

  /** Names of collections, of tokens or of Core. */
  async function namesOf(addresses: readonly string[], tenant: Tenant): Promise<ReadonlyMap<string, string>> {
    const facts = await lookUp(addresses, { tenant });
    const core = await coreNames(
      chain,
      commitment,
      addresses.filter((address) => facts.get(address) == null),
      tenant,
    );
    return new Map(addresses.map((address) => [address, facts.get(address)?.name ?? core.get(address) ?? '']));
  }

  return {
    async read(wallet, mints, tenant) {
      const lists = await Promise.all(sources.map((source) => readSource(source, wallet, tenant)));
      const found = new Map(lists.flat().map((nft) => [nft.mint, nft]));
      const shown = [...new Set([...mints, ...found.keys()])].sort().slice(0, MAX_NFTS);
      const tokens = shown.filter((mint) => !found.has(mint));
      const others = shown.flatMap((mint) => found.get(mint) ?? []);
      const [facts, pictures] = await Promise.all([
        lookUp(tokens, { tenant, wantLogos: true }),
        images(others.flatMap(({ uri, imageUri }) => (imageUri === null && uri !== null ? [uri] : []))),
      ]);
      const rows = shown.map((mint) => dressed(found.get(mint) ?? tokenNft(mint, facts.get(mint) ?? null), pictures));
      const unnamed = rows.flatMap(({ collectionName, collectionAddress }) =>
        collectionName === null && collectionAddress !== null ? [collectionAddress] : [],
      );
      const names = await namesOf([...new Set(unnamed)], tenant);
      return rows.map((row) => ({
        ...row,
        collectionName: row.collectionName ?? (names.get(row.collectionAddress ?? '') || null),
      }));
    },
  };
}

const dressed = ({ uri, ...nft }: FoundNft, pictures: ReadonlyMap<string, string>): Nft => ({
  ...nft,
  imageUri: nft.imageUri ?? pictures.get(uri ?? '') ?? null,
});

function tokenNft(mint: string, facts: MintFacts | null): FoundNft {
  return {
    mint,
    name: facts?.name ?? null,
    imageUri: facts?.logoUri ?? null,
    uri: null,
    collectionName: null,
    // Metadata can name any collection; only a verified one is trusted.
    collectionAddress: facts?.collection?.verified === true ? facts.collection.key : null,
    compressed: false,
  };
}

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 4_194_304;

/** Compressed NFTs of the trees that the plugin `compression` follows. */
export function followedTrees(index: CompressedAssets): NftSource {
  return {
    name: 'trees',
    async read(wallet) {
      const found = await index.list({ owner: decode32(wallet) as Uint8Array }, { most: MAX_NFTS });
      if (found === null) return [];
      if ('withheld' in found)
        throw new CodedError('WALLET_ASSETS_WITHHELD', WALLET_ERRORS.WALLET_ASSETS_WITHHELD, {
          facts: { reason: found.withheld },
        });
      return found.assets.flatMap((asset) => {
        const metadata = 'withheld' in asset ? null : metadataOfLeaf(asset.metadata, asset);
        if ('withheld' in asset || metadata === null) return [];
        const { collection, name, uri } = metadata;
        return {
          mint: encode32(asset.id),
          name: name || null,
          imageUri: null,
          uri: uri || null,
          collectionName: null,
          collectionAddress: collection?.verified === true ? encode32(collection.key) : null,
          compressed: true,
        };
      });
    },
  };
}

/** Compressed NFTs of any tree, from an asset API (`searchAssets`) that the operator named. */
function assetApi(client: OutboundClient, url: string): NftSource {
  return {
    name: 'compressed',
    async read(wallet) {
      const params = {
        ownerAddress: wallet,
        compressed: true,
        burnt: false,
        page: 1,
        limit: MAX_NFTS,
        sortBy: { sortBy: 'id', sortDirection: 'asc' },
      };
      const response = await client.request({
        method: 'POST',
        url,
        headers: { 'content-type': 'application/json', accept: 'application/json' },
        body: Buffer.from(rpcRequest('searchAssets', params)),
        timeoutMs: TIMEOUT_MS,
        keepBytes: MAX_BYTES,
        maxBytes: MAX_BYTES,
      });
      if (response.status !== 200) throw badAnswer(`status ${response.status}`);
      return itemsOf(response.body.toString('utf8')).flatMap((item) => nftOf(item) ?? []);
    },
  };
}

function itemsOf(text: string): readonly unknown[] {
  const answer = rpcReplyOf(parse(text));
  if (answer !== null && 'error' in answer) throw badAnswer('an error');
  const items = part(answer?.result, 'items');
  if (Array.isArray(items)) return items;
  throw badAnswer('no list of assets');
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw badAnswer('no JSON');
  }
}

const badAnswer = (reason: string) =>
  new CodedError('WALLET_ASSETS_BAD_ANSWER', WALLET_ERRORS.WALLET_ASSETS_BAD_ANSWER, { facts: { reason } });

const part = (value: unknown, name: string): unknown => (isPlainObject(value) ? value[name] : undefined);
const textOrNull = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

/** Null for anything that is not an existing compressed asset. */
function nftOf(item: unknown): FoundNft | null {
  const mint = textOrNull(part(item, 'id'));
  const isThere = part(part(item, 'compression'), 'compressed') === true && part(item, 'burnt') !== true;
  if (mint === null || decode32(mint) === null || !isThere) return null;
  const content = part(item, 'content');
  const groups = part(item, 'grouping');
  const collection = (Array.isArray(groups) ? groups : []).find(
    (group) => part(group, 'group_key') === 'collection' && part(group, 'verified') !== false,
  );
  const address = textOrNull(part(collection, 'group_value'));
  return {
    mint,
    name: textOrNull(part(part(content, 'metadata'), 'name')),
    compressed: true,
    imageUri: textOrNull(part(part(content, 'links'), 'image')),
    uri: textOrNull(part(content, 'json_uri')),
    collectionName: textOrNull(part(part(collection, 'collection_metadata'), 'name')),
    collectionAddress: address !== null && decode32(address) !== null ? address : null,
  };
}

interface RpcAccount {
  readonly owner: string;
  readonly data: readonly [base64: string, encoding: string];
}

/** Assets of Metaplex Core, found by searching the accounts of their program. */
function coreAssets(chain: ChainCall, commitment: string): NftSource {
  return {
    name: 'core',
    async read(wallet, tenant) {
      const filters = [
        { memcmp: { offset: 0, bytes: encode(Uint8Array.of(CORE_KEY.asset)) } },
        { memcmp: { offset: CORE_OWNER_AT, bytes: wallet } },
      ];
      const found = await chain.call<readonly { readonly pubkey: string; readonly account: RpcAccount }[]>(
        'getProgramAccounts',
        [CORE_PROGRAM, { encoding: 'base64', commitment, filters }],
        tenant,
      );
      return found.flatMap(({ pubkey, account }) => coreNftOf(pubkey, account) ?? []);
    },
  };
}

/** Names of Core collections by address, empty without a name. Errors: 503 when the upstream refuses. */
async function coreNames(
  chain: ChainCall,
  commitment: string,
  addresses: readonly string[],
  tenant: Tenant,
): Promise<ReadonlyMap<string, string>> {
  if (addresses.length === 0) return new Map();
  const { value } = await chain.call<{ value: readonly (RpcAccount | null)[] }>(
    'getMultipleAccounts',
    [addresses, { encoding: 'base64', commitment }],
    tenant,
  );
  const names = addresses.map((address, at): [string, string] => {
    const account = value[at] ?? null;
    return [address, account === null ? '' : (decodeCoreCollection(rawOf(account)).value?.name ?? '')];
  });
  return new Map(names);
}

function coreNftOf(mint: string, account: RpcAccount): FoundNft | null {
  const asset = decodeCoreAsset(rawOf(account)).value;
  if (asset === null || decode32(mint) === null) return null;
  const { updateAuthority } = asset;
  return {
    mint,
    name: asset.name || null,
    imageUri: null,
    uri: asset.uri || null,
    collectionName: null,
    collectionAddress: updateAuthority.kind === 'collection' ? updateAuthority.address : null,
    compressed: false,
  };
}

function rawOf({ owner, data }: RpcAccount) {
  // An existing account has lamports; the amount does not matter.
  return { owner, lamports: 1n, data: Buffer.from(data[0], 'base64') };
}

/** An NFT row of a wallet. */
export interface Nft {
  /** The mint, or the address of a Core asset or of a leaf. */
  readonly mint: string;
  readonly name: string | null;
  readonly imageUri: string | null;
  readonly collectionName: string | null;
  readonly collectionAddress: string | null;
  readonly compressed: boolean;
}

/** NFTs of a wallet that are not tokens, with references to their image and collection name. */
export interface FoundNft extends Nft {
  /** URI of the off-chain JSON. */
  readonly uri: string | null;
}

/** A source of such NFTs. When it refuses, only its own rows are missing. */
export interface NftSource {
  readonly name: 'core' | 'compressed' | 'trees';
  /** The compressed NFTs of a wallet (base58). Errors: those of its upstream. */
  read(wallet: string, tenant: Tenant): Promise<readonly FoundNft[]>;
}

/** NFT rows of a response. */
const MAX_NFTS = 100;
