import { decode32, encode, encode32 } from '../../../src/lib/base58.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import { isPlainObject } from '../../../src/lib/json.ts';
import { rpcReplyOf, rpcRequest } from '../../../src/lib/json-rpc.ts';
import { codeOf, type Log, type Metrics } from '../../../src/plugin/plugin.ts';
import type { CompressedAssets } from '../../../src/ports/compressed-assets.ts';
import type { OutboundClient } from '../../../src/ports/outbound.ts';
import type { MintFacts, TokenFacts } from '../../../src/ports/tokens.ts';
import { CORE_KEY, decodeCoreAsset, decodeCoreCollection } from '../../../src/solana/accounts/core.ts';
import { CORE_PROGRAM } from '../../../src/solana/addresses.ts';
import { metadataOfLeaf } from '../../../src/solana/concurrent/leaf-metadata.ts';
import { WALLET_ERRORS } from '../errors.ts';
import type { ChainCall } from '../wallet-route.ts';
import type { LookUpFacts } from './holdings.ts';

export interface NftReader {
  /** The first hundred NFTs of a wallet by mint: tokens (`mints`), and those of the sources. */
  read(wallet: string, mints: readonly string[]): Promise<readonly Nft[]>;
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

export function createNftReader({ chain, lookUp, images, sources, commitment, log, metrics }: NftParts): NftReader {
  const failures = metrics.counter('nft_failures_total', 'refused look-ups of NFTs', ['source']);

  async function readSource(source: NftSource, wallet: string): Promise<readonly FoundNft[]> {
    try {
      return await source.read(wallet);
    } catch (error) {
      failures.with(source.name).add();
      log.warn({ source: source.name, code: codeOf(error) }, 'NFTs of a wallet cannot be read');
      return [];
    }
  }

  /** Names of collections, of tokens or of Core. */
  async function namesOf(addresses: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const facts = await lookUp(addresses);
    const core = await coreNames(
      chain,
      commitment,
      addresses.filter((address) => facts.get(address) == null),
    );
    return new Map(addresses.map((address) => [address, facts.get(address)?.name ?? core.get(address) ?? '']));
  }

  return {
    async read(wallet, mints) {
      const lists = await Promise.all(sources.map((source) => readSource(source, wallet)));
      const found = new Map(lists.flat().map((nft) => [nft.mint, nft]));
      const shown = [...new Set([...mints, ...found.keys()])].sort().slice(0, MOST_NFTS);
      const tokens = shown.filter((mint) => !found.has(mint));
      const others = shown.flatMap((mint) => found.get(mint) ?? []);
      const [facts, pictures] = await Promise.all([
        lookUp(tokens, { wantLogos: true }),
        images(others.flatMap(({ uri, imageUri }) => (imageUri === null && uri !== null ? [uri] : []))),
      ]);
      const rows = shown.map((mint) => dressed(found.get(mint) ?? tokenNft(mint, facts.get(mint) ?? null), pictures));
      const unnamed = rows.flatMap(({ collectionName, collectionAddress }) =>
        collectionName === null && collectionAddress !== null ? [collectionAddress] : [],
      );
      const names = await namesOf([...new Set(unnamed)]);
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
    ...{ mint, name: facts?.name ?? null, imageUri: facts?.logoUri ?? null, uri: null, collectionName: null },
    // Metadata can name any collection; only a verified one is trusted.
    ...{ collectionAddress: facts?.collection?.verified === true ? facts.collection.key : null, compressed: false },
  };
}

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 4_194_304;

/** Compressed NFTs of the trees that the plugin `compression` follows. */
export function followedTrees(index: CompressedAssets): NftSource {
  return {
    name: 'trees',
    async read(wallet) {
      const found = await index.list({ owner: decode32(wallet) as Uint8Array }, { most: MOST_NFTS });
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
          ...{ mint: encode32(asset.id), name: name || null, imageUri: null, uri: uri || null, collectionName: null },
          collectionAddress: collection?.verified === true ? encode32(collection.key) : null,
          compressed: true,
        };
      });
    },
  };
}

/** Compressed NFTs of any tree, from an asset API (`searchAssets`) that the operator named. */
export function assetApi(client: OutboundClient, url: string): NftSource {
  return {
    name: 'compressed',
    async read(wallet) {
      const params = {
        ...{ ownerAddress: wallet, compressed: true, burnt: false, page: 1, limit: MOST_NFTS },
        sortBy: { sortBy: 'id', sortDirection: 'asc' },
      };
      const response = await client.request({
        ...{ method: 'POST', url, headers: { 'content-type': 'application/json', accept: 'application/json' } },
        body: Buffer.from(rpcRequest('searchAssets', params)),
        ...{ timeoutMs: TIMEOUT_MS, keepBytes: MAX_BYTES, maxBytes: MAX_BYTES },
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
const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

/** Null for anything that is not an existing compressed asset. */
function nftOf(item: unknown): FoundNft | null {
  const mint = text(part(item, 'id'));
  const isThere = part(part(item, 'compression'), 'compressed') === true && part(item, 'burnt') !== true;
  if (mint === null || decode32(mint) === null || !isThere) return null;
  const content = part(item, 'content');
  const groups = part(item, 'grouping');
  const collection = (Array.isArray(groups) ? groups : []).find(
    (group) => part(group, 'group_key') === 'collection' && part(group, 'verified') !== false,
  );
  const address = text(part(collection, 'group_value'));
  return {
    ...{ mint, name: text(part(part(content, 'metadata'), 'name')), compressed: true },
    imageUri: text(part(part(content, 'links'), 'image')),
    uri: text(part(content, 'json_uri')),
    collectionName: text(part(part(collection, 'collection_metadata'), 'name')),
    collectionAddress: address !== null && decode32(address) !== null ? address : null,
  };
}

interface RpcAccount {
  readonly owner: string;
  readonly data: readonly [base64: string, encoding: string];
}

/** Assets of Metaplex Core, found by searching the accounts of their program. */
export function coreAssets(chain: ChainCall, commitment: string): NftSource {
  return {
    name: 'core',
    async read(wallet) {
      const filters = [
        { memcmp: { offset: 0, bytes: encode(Uint8Array.of(CORE_KEY.asset)) } },
        { memcmp: { offset: 1, bytes: wallet } },
      ];
      const found = await chain.call<readonly { readonly pubkey: string; readonly account: RpcAccount }[]>(
        'getProgramAccounts',
        [CORE_PROGRAM, { encoding: 'base64', commitment, filters }],
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
): Promise<ReadonlyMap<string, string>> {
  if (addresses.length === 0) return new Map();
  const { value } = await chain.call<{ value: readonly (RpcAccount | null)[] }>('getMultipleAccounts', [
    addresses,
    { encoding: 'base64', commitment },
  ]);
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
    ...{ mint, name: asset.name || null, imageUri: null, uri: asset.uri || null, collectionName: null },
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
  /** Of a wallet in base58. Errors: those of its upstream. */
  read(wallet: string): Promise<readonly FoundNft[]>;
}

/** NFT rows of a response. */
const MOST_NFTS = 100;
