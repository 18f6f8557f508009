import { decode32, encode32 } from '../../src/lib/base58.ts';
import { RpcError } from '../../src/plugin/plugin.ts';
import type { CompressedAsset, CompressedAssets } from '../../src/ports/compressed-assets.ts';
import type { Prices } from '../../src/ports/prices.ts';
import type { OffChainDocuments } from '../../src/ports/token-facts.ts';
import {
  type CoreAsset,
  type CoreCollection,
  decodeCoreAsset,
  decodeCoreCollection,
} from '../../src/solana/accounts/core.ts';
import { decodeEdition, decodeMetadata } from '../../src/solana/accounts/metaplex.ts';
import { decodeMint, decodeTokenAccount } from '../../src/solana/accounts/token.ts';
import {
  type Asset,
  type AssetOptions,
  assetOfCore,
  assetOfLeaf,
  assetOfMint,
  type MintAccounts,
  mintUri,
  needsHolder,
} from '../../src/solana/assets/asset.ts';
import { type LeafMetadata, metadataOfLeaf } from '../../src/solana/concurrent/leaf-metadata.ts';
import type { AccountSource, KeyedAccount } from './source.ts';

export interface ReadParts {
  readonly source: AccountSource;
  /** Compressed assets of followed trees. */
  readonly compressed: CompressedAssets | undefined;
  readonly documents: OffChainDocuments | undefined;
  readonly prices: Prices | undefined;
  readonly documentWaitMs: number;
}

export interface ReadOptions extends AssetOptions {
  readonly showCollectionMetadata: boolean;
}

/** What stands on the chain for one id. */
export type Found =
  | {
      readonly kind: 'mint';
      readonly accounts: MintAccounts;
      /** The owner whose assets are listed. */
      readonly listedFor?: string;
    }
  | {
      readonly kind: 'core';
      readonly id: string;
      readonly asset: CoreAsset | null;
      readonly collection: CoreCollection | null;
    }
  | {
      readonly kind: 'leaf';
      readonly id: string;
      readonly asset: CompressedAsset;
      readonly metadata: LeafMetadata;
      readonly slot: number;
    };

/**
 * Reads assets from their accounts as they are now, and compressed ones from the index of their trees. Unknown ids are absent. Errors:
 * RpcError, also for a compressed asset that is known but cannot be shown now.
 */
export async function readAssets(
  ids: readonly string[],
  parts: ReadParts,
  options: ReadOptions,
): Promise<{
  readonly assets: ReadonlyMap<string, Asset>;
  /** Why an id that is absent may be a compressed asset all the same; null if it is not. */
  readonly lacking: string | null;
}> {
  const { found, lacking } = await find(ids, parts.source, parts.compressed);
  return { assets: await showAssets(found, parts, options), lacking };
}

/** The assets by id, with what their documents and prices add. */
export async function showAssets(
  found: readonly Found[],
  parts: ReadParts,
  options: ReadOptions,
): Promise<ReadonlyMap<string, Asset>> {
  const { source, documents, prices, documentWaitMs } = parts;
  const uris = found.map(uriOf);
  const [known, dollars] = await Promise.all([
    documents?.read(uris, documentWaitMs) ?? new Map<string, unknown>(),
    options.dialect === 'hosted' && prices !== undefined
      ? prices.prices(
          found.flatMap((one) => (one.kind === 'mint' && !needsHolder(one.accounts) ? [one.accounts.id] : [])),
        )
      : new Map<string, number | null>(),
  ]);
  const assets = new Map<string, Asset>();
  found.forEach((one, at) => {
    const document = known.get(uris[at] ?? '') ?? null;
    const asset = assetOf(one, document, source.slot, options);
    if (asset !== null) assets.set(asset.id, withPrice(asset, dollars.get(asset.id) ?? null));
  });
  return options.showCollectionMetadata ? withCollections(assets, parts) : assets;
}

/** An asset in its tree has no account, so only those that may have left it are looked for among the accounts. */
async function find(
  ids: readonly string[],
  source: AccountSource,
  compressed: CompressedAssets | undefined,
): Promise<{ readonly found: readonly Found[]; readonly lacking: string | null }> {
  if (compressed === undefined) return { found: await findAccounts(ids, source), lacking: null };
  const { slot, assets, lacking } = await compressed.find(ids.map((id) => decode32(id) as Uint8Array));
  const leaves = new Map<string, Found>();
  const outside: string[] = [];
  for (const id of new Set(ids)) {
    const asset = assets.get(id);
    const leaf = asset === undefined || 'withheld' in asset ? null : leafOf(asset, slot);
    if (leaf !== null) leaves.set(id, leaf);
    if (leaf === null || leaf.asset.state === 'redeemed') outside.push(id);
  }
  const accounts = outside.length === 0 ? [] : await findAccounts(outside, source);
  for (const one of accounts) leaves.delete(idOf(one));
  const known = new Set(accounts.map(idOf));
  for (const id of outside) {
    const asset = assets.get(id);
    if (asset === undefined || known.has(id) || leaves.has(id)) continue;
    const why =
      'withheld' in asset ? asset.withheld : `the metadata of the compressed asset ${id} does not fit its leaf`;
    throw new RpcError('unavailable', { message: why, details: why });
  }
  return { found: [...accounts, ...leaves.values()], lacking: lacking?.withheld ?? null };
}

export function leafOf(asset: CompressedAsset, slot: number): (Found & { readonly kind: 'leaf' }) | null {
  const metadata = metadataOfLeaf(asset.metadata, asset);
  return metadata === null ? null : { kind: 'leaf', id: encode32(asset.id), asset, metadata, slot };
}

export const idOf = (found: Found | { readonly kind: 'unread' | 'row'; readonly id: string }): string =>
  found.kind === 'mint' ? found.accounts.id : found.id;

/** Assets with accounts. `holders`: token accounts that are known to hold mints, so that they need not be looked for. */
export async function findAccounts(
  ids: readonly string[],
  source: AccountSource,
  holders: ReadonlyMap<string, NonNullable<MintAccounts['holder']>> = new Map(),
): Promise<readonly Found[]> {
  const distinct = [...new Set(ids)];
  const first = await source.accounts(distinct);
  const mints = new Map<string, MintAccounts>();
  const core = new Map<string, Found & { readonly kind: 'core' }>();
  for (const [id, account] of first) {
    if (account === null) continue;
    const mint = decodeMint(account).value;
    const none = { metadata: null, edition: null, holder: holders.get(id) ?? null, document: null, slot: 0 };
    if (mint !== null) mints.set(id, { id, mint, ...none });
    const asset = decodeCoreAsset(account).value;
    const collection = asset === null ? decodeCoreCollection(account).value : null;
    if (asset !== null || collection !== null) core.set(id, { kind: 'core', id, asset, collection });
  }
  await Promise.all([readMetadata(mints, source), readCollections(core, source)]);
  await readHolders(mints, source);
  return distinct.flatMap((id): Found[] => {
    const accounts = mints.get(id);
    if (accounts !== undefined) return [{ kind: 'mint', accounts }];
    const one = core.get(id);
    return one === undefined ? [] : [one];
  });
}

async function readMetadata(mints: Map<string, MintAccounts>, source: AccountSource): Promise<void> {
  const places = Array.from(mints.keys(), (id) => ({ id, ...source.places(id) }));
  const read = await source.accounts(places.flatMap(({ metadata, edition }) => [metadata, edition]));
  for (const place of places) {
    const accounts = mints.get(place.id) as MintAccounts;
    const [metadata, edition] = [read.get(place.metadata) ?? null, read.get(place.edition) ?? null];
    const decoded = metadata === null ? null : decodeMetadata(metadata).value;
    mints.set(place.id, {
      ...accounts,
      // An account of the program may stand at this address for another mint only if somebody lies.
      metadata: decoded?.mint === place.id ? decoded : null,
      edition: edition === null ? null : decodeEdition(edition).value,
    });
  }
}

/** Core assets and collections among accounts, with the collections of the assets. */
export async function coreOf(accounts: readonly KeyedAccount[], source: AccountSource): Promise<readonly Found[]> {
  const core = new Map<string, Found & { readonly kind: 'core' }>();
  for (const { address: id, account } of accounts) {
    const asset = decodeCoreAsset(account).value;
    const collection = asset === null ? decodeCoreCollection(account).value : null;
    if (asset !== null || collection !== null) core.set(id, { kind: 'core', id, asset, collection });
  }
  await readCollections(core, source);
  return [...core.values()];
}

/** An asset in a collection has the authority of the collection. */
async function readCollections(core: Map<string, Found & { kind: 'core' }>, source: AccountSource): Promise<void> {
  const collectionOf = new Map<string, string>();
  for (const [id, { asset }] of core)
    if (asset?.updateAuthority.kind === 'collection') collectionOf.set(id, asset.updateAuthority.address);
  if (collectionOf.size === 0) return;
  const read = await source.accounts([...collectionOf.values()]);
  for (const [id, address] of collectionOf) {
    const account = read.get(address) ?? null;
    const collection = account === null ? null : decodeCoreCollection(account).value;
    core.set(id, { ...(core.get(id) as Found & { kind: 'core' }), collection });
  }
}

/** How often a token that moves between two calls is looked for. */
const HOLDER_TRIES = 3;

/** The only token of an NFT is found by asking which account holds most of its mint. */
async function readHolders(mints: Map<string, MintAccounts>, source: AccountSource): Promise<void> {
  let wanted = [...mints.values()].filter(
    (accounts) => accounts.holder === null && accounts.mint.supply > 0n && needsHolder(accounts),
  );
  for (let tries = 0; wanted.length > 0; tries += 1) {
    if (tries === HOLDER_TRIES)
      throw new RpcError('unavailable', { details: 'the owner changes too often to be read' });
    const addresses = await Promise.all(wanted.map(({ id, mint }) => source.largest(id, mint.supply)));
    const read = await source.accounts(addresses.filter((address) => address !== null));
    wanted = wanted.filter((accounts, at) => {
      const address = addresses[at] ?? null;
      if (address === null) return false;
      const account = read.get(address) ?? null;
      const held = account === null ? null : decodeTokenAccount(account).value;
      if (held === null || held.mint !== accounts.id || held.amount === 0n) return true;
      const { owner, amount, delegate, isFrozen } = held;
      mints.set(accounts.id, { ...accounts, holder: { address, owner, amount, delegate, isFrozen } });
      return false;
    });
  }
}

function uriOf(found: Found): string {
  if (found.kind === 'leaf') return found.metadata.uri.replaceAll('\0', '').trim();
  if (found.kind === 'core') return (found.asset ?? found.collection)?.uri ?? '';
  return mintUri(found.accounts);
}

export function assetOf(found: Found, document: unknown, slot: number, options: AssetOptions): Asset | null {
  if (found.kind === 'mint')
    return assetOfMint({ ...found.accounts, document, slot }, options, found.listedFor ?? null);
  if (found.kind === 'leaf') return assetOfLeaf(found.asset, found.metadata, { document, slot: found.slot }, options);
  const { id, asset, collection } = found;
  return assetOfCore({ id, asset, collection, document, slot }, options);
}

function withPrice(asset: Asset, dollars: number | null): Asset {
  if (dollars === null || asset.token_info === undefined) return asset;
  const { balance, decimals } = asset.token_info;
  const total = balance === undefined ? {} : { total_price: (Number(balance) / 10 ** decimals) * dollars };
  const price_info = { price_per_token: dollars, ...total, currency: 'USDC' } as const;
  return { ...asset, token_info: { ...asset.token_info, price_info } };
}

const COLLECTION_MEMBERS = ['name', 'symbol', 'image', 'description', 'external_url'] as const;

/** Adds what the documents of the collections say of them. */
async function withCollections(
  assets: ReadonlyMap<string, Asset>,
  { source, documents, documentWaitMs }: Pick<ReadParts, 'source' | 'documents' | 'documentWaitMs'>,
): Promise<ReadonlyMap<string, Asset>> {
  const groups = [...assets.values()].flatMap(({ grouping }) => grouping.map(({ group_value }) => group_value));
  const found = await findAccounts(groups, source);
  const known = (await documents?.read(found.map(uriOf), documentWaitMs)) ?? new Map<string, unknown>();
  const metadata = new Map(
    found.map((one) => {
      const document = (known.get(uriOf(one)) ?? {}) as Readonly<Record<string, unknown>>;
      const members = COLLECTION_MEMBERS.filter((name) => document[name] !== undefined);
      return [idOf(one), Object.fromEntries(members.map((name) => [name, document[name]]))];
    }),
  );
  return new Map(
    Array.from(assets, ([id, asset]) => {
      const grouping = asset.grouping.map((group) => {
        const collection_metadata = metadata.get(group.group_value);
        return collection_metadata === undefined ? group : { ...group, collection_metadata };
      });
      return [id, { ...asset, grouping }];
    }),
  );
}
