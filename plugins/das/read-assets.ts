import { decode32, encode32 } from '../../src/lib/base58.ts';
import { parseVerbatim, stringify } from '../../src/lib/json.ts';
import { RpcError } from '../../src/plugin/plugin.ts';
import type { CompressedAsset, CompressedAssets } from '../../src/ports/compressed-assets.ts';
import type { OffChainDocuments, Prices } from '../../src/ports/tokens.ts';
import {
  type CoreAsset,
  type CoreCollection,
  decodeCoreAsset,
  decodeCoreCollection,
  isBurntCore,
} from '../../src/solana/accounts/core.ts';
import type { RawAccount } from '../../src/solana/accounts/decoded.ts';
import { decodeInscription } from '../../src/solana/accounts/inscription.ts';
import { decodeEdition, decodeMetadata } from '../../src/solana/accounts/metaplex.ts';
import { decodeMint, decodeTokenAccount } from '../../src/solana/accounts/token.ts';
import { inscriptionAddress } from '../../src/solana/addresses.ts';
import {
  type Asset,
  type AssetOptions,
  assetOfCore,
  assetOfLeaf,
  assetOfMint,
  inscriptionJson,
  isBurntMint,
  type MintAccounts,
  mintUri,
  needsHolder,
} from '../../src/solana/assets/asset.ts';
import { type LeafMetadata, metadataOfLeaf } from '../../src/solana/concurrent/leaf-metadata.ts';
import type { AssetIndex } from './indexing/asset-index.ts';
import type { KeptAsset, KeptView } from './indexing/kept.ts';
import type { DasRequest } from './params.ts';
import type { AccountSource, KeyedAccount } from './source.ts';

export interface ReadParts {
  readonly source: AccountSource;
  /** Null: nothing is followed. */
  readonly index: Pick<AssetIndex, 'kept'> | null;
  /** Compressed assets of followed trees. */
  readonly compressed: CompressedAssets | undefined;
  readonly documents: Pick<OffChainDocuments, 'read' | 'peek'> | undefined;
  readonly prices: Prices | undefined;
  readonly documentWaitMs: number;
  /** For whom documents are fetched: the id of a tenant. */
  readonly group: string;
}

export interface AssetReadOptions extends AssetOptions {
  readonly showCollectionMetadata: boolean;
  readonly showInscription?: boolean;
  readonly showSystemMetadata?: boolean;
}

/** What a call asks to be shown. */
export const readOptionsOf = (
  { options }: Pick<DasRequest, 'options'>,
  dialect: AssetOptions['dialect'],
): AssetReadOptions => ({
  dialect,
  showFungible: options['showFungible'] === true,
  showUnverifiedCollections: options['showUnverifiedCollections'] === true,
  showCollectionMetadata: options['showCollectionMetadata'] === true,
  showInscription: options['showInscription'] === true,
  // The reference does not have it.
  showSystemMetadata: dialect === 'hosted' && options['showSystemMetadata'] === true,
});

/** What stands on the chain for one id. */
export type FoundAsset =
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
      /** Its account is empty; both are as the index had them last, null where it did not. */
      readonly isBurnt: boolean;
    }
  | {
      readonly kind: 'leaf';
      readonly id: string;
      readonly asset: CompressedAsset;
      readonly metadata: LeafMetadata;
      readonly slot: number;
    };

/** An asset as JSON. The slot is its last member, so that the rest can be kept. */
export class AssetText {
  readonly id: string;
  /** What it was made of, where all of that is of the index. */
  readonly kept: KeptAsset | null;
  readonly #body: Uint8Array;
  readonly #slot: number | undefined;

  /** `body`: without the slot and the last brace. */
  constructor(id: string, body: Uint8Array, slot: number | undefined, kept: KeptAsset | null) {
    this.id = id;
    this.kept = kept;
    this.#body = body;
    this.#slot = slot;
  }

  static ofKept(kept: KeptAsset, slot: number | undefined): AssetText {
    return new AssetText(kept.id, kept.body, slot, kept);
  }

  /** Its JSON, in pieces. */
  get pieces(): readonly Uint8Array[] {
    return [this.#body, Buffer.from(endOf(this.#slot))];
  }

  get text(): string {
    return decoder.decode(this.#body) + endOf(this.#slot);
  }

  /** A list, in pieces; what is not such a text is written as JSON. */
  static listOf(items: readonly unknown[]): Uint8Array[] {
    const ends = new Map<number | undefined, Uint8Array>();
    const pieces: Uint8Array[] = [];
    for (const one of items) {
      pieces.push(pieces.length === 0 ? OPEN : COMMA);
      if (!(one instanceof AssetText)) {
        pieces.push(Buffer.from(stringify(one)));
        continue;
      }
      const end = ends.get(one.#slot) ?? Buffer.from(endOf(one.#slot));
      ends.set(one.#slot, end);
      pieces.push(one.#body, end);
    }
    return [...(items.length === 0 ? [OPEN] : pieces), CLOSE];
  }

  toJSON(): unknown {
    return parseVerbatim(this.text);
  }
}

/** It gives each text memory of its own; a Buffer of a short one would keep its neighbours in memory too. */
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const [OPEN, COMMA, CLOSE] = ['[', ',', ']'].map((text) => Buffer.from(text)) as [Buffer, Buffer, Buffer];
const endOf = (slot: number | undefined): string => (slot === undefined ? '}' : `,"last_indexed_slot":${slot}}`);

/**
 * Reads assets from their accounts as they are now, and compressed ones from the index of their trees. Unknown ids are absent. Errors:
 * RpcError, also for a compressed asset that is known but cannot be shown now.
 */
export async function readAssets(
  ids: readonly string[],
  parts: ReadParts,
  options: AssetReadOptions,
): Promise<{
  readonly assets: ReadonlyMap<string, AssetText>;
  /** Why an id that is absent may be a compressed asset all the same; null if it is not. */
  readonly lacking: string | null;
}> {
  let lacking: string | null = null;
  const assets = await showAssets(
    ids.map((id) => ({ id })),
    async (wanted) => {
      const answer = await find(
        wanted.map(({ id }) => id),
        parts.source,
        parts.compressed,
      );
      lacking = answer.lacking;
      return answer.found;
    },
    await keptViewOf(parts, options),
    parts,
    options,
  );
  return { assets, lacking };
}

/** The text of an asset of the index as it was shown before, where it is known at once that nothing of it has changed. */
export function keptText(
  id: string,
  parts: Pick<ReadParts, 'index' | 'documents' | 'prices'>,
  options: AssetReadOptions,
): AssetText | null {
  const view = isKept(options) ? (parts.index?.kept.viewNow() ?? null) : null;
  const kept = view?.find(id, howOf(options, undefined));
  if (view === null || kept === undefined || !isCurrentNow(kept, parts)) return null;
  return AssetText.ofKept(kept, options.dialect === 'hosted' ? view.slot : undefined);
}

/** Like `keptText`, for a page: the texts of all assets, or null. */
export function keptTexts(
  assets: readonly KeptAsset[],
  { slot }: KeptView,
  parts: Pick<ReadParts, 'documents' | 'prices'>,
  { dialect }: AssetReadOptions,
): readonly AssetText[] | null {
  if (!assets.every((asset) => isCurrentNow(asset, parts))) return null;
  return assets.map((asset) => AssetText.ofKept(asset, dialect === 'hosted' ? slot : undefined));
}

/** Whether document and price are those that a text was made with, as far as nobody has to be asked. */
function isCurrentNow(
  { uri, document, isFungible: hasPrice }: KeptAsset,
  { documents, prices }: Pick<ReadParts, 'documents' | 'prices'>,
): boolean {
  const isRead = documents === undefined || uri === '' || documents.peek(uri) === document;
  return isRead && (prices === undefined || !hasPrice);
}

/** What is kept of the index, as of now; null where nothing is, or all is shown with what the index does not store. */
export async function keptViewOf(
  { index }: Pick<ReadParts, 'index'>,
  options: AssetReadOptions,
): Promise<KeptView | null> {
  return index === null || !isKept(options) ? null : index.kept.view();
}

const isKept = ({ showCollectionMetadata, showInscription = false }: AssetReadOptions): boolean =>
  !showCollectionMetadata && !showInscription;

/** An asset to be shown, alone or in a list; `listing`: what its text depends on besides the options. */
interface ToShow {
  readonly id: string;
  readonly listing?: string;
}

export const howOf = (
  { dialect, showFungible, showUnverifiedCollections, showSystemMetadata = false }: AssetReadOptions,
  listing: string | undefined,
): string => ` ${dialect} ${showFungible} ${showUnverifiedCollections} ${showSystemMetadata} ${listing ?? ''}`;

/** The assets by id, with what their documents and prices add. `read` is asked for those that are not kept. */
export async function showAssets<T extends ToShow>(
  items: readonly T[],
  read: (items: readonly T[]) => Promise<readonly FoundAsset[]>,
  view: KeptView | null,
  parts: ReadParts,
  options: AssetReadOptions,
): Promise<ReadonlyMap<string, AssetText>> {
  const kept = new Map<string, KeptAsset>();
  if (view !== null)
    for (const { id, listing } of items) {
      const asset = view.find(id, howOf(options, listing));
      if (asset !== undefined) kept.set(id, asset);
    }
  const show = async (rest: readonly T[]): Promise<ReadonlyMap<string, AssetText>> =>
    rest.length === 0 ? new Map() : await showFound(await read(rest), rest, view, parts, options);
  const unknown = items.filter(({ id }) => !kept.has(id));
  const [shown, isCurrent] = await Promise.all([show(unknown), areCurrent(kept, parts, options)]);
  const later = await show(items.filter(({ id }) => kept.has(id) && !isCurrent(id)));
  const all = new Map([...shown, ...later]);
  const { slot } = parts.source;
  const at = options.dialect === 'hosted' && view !== null ? Math.min(slot || view.slot, view.slot) : undefined;
  for (const [id, asset] of kept) if (!all.has(id) && isCurrent(id)) all.set(id, AssetText.ofKept(asset, at));
  return all;
}

/** Whether documents and prices are still those that a text was made with. */
async function areCurrent(
  kept: ReadonlyMap<string, KeptAsset>,
  parts: ReadParts,
  options: AssetReadOptions,
): Promise<(id: string) => boolean> {
  const uris = Array.from(kept.values(), ({ uri }) => uri);
  const fungible = Array.from(kept).flatMap(([id, { isFungible }]) => (isFungible ? [id] : []));
  const [known, dollars] = await readFacts(uris, fungible, parts, options);
  return (id) => {
    const { uri, document, dollars: price } = kept.get(id)!;
    return document === (known.get(uri) ?? null) && price === (dollars.get(id) ?? null);
  };
}

type Facts = readonly [documents: ReadonlyMap<string, unknown>, dollars: ReadonlyMap<string, number | null>];

function readFacts(
  uris: readonly string[],
  fungible: readonly string[],
  { documents, prices, documentWaitMs, group }: ReadParts,
  { dialect }: AssetReadOptions,
): Promise<Facts> {
  const hasDocuments = documents !== undefined && uris.length > 0;
  const hasPrices = dialect === 'hosted' && prices !== undefined && fungible.length > 0;
  return Promise.all([
    hasDocuments ? documents.read(uris, { waitMs: documentWaitMs, group }) : new Map<string, unknown>(),
    hasPrices ? prices.prices(fungible) : new Map<string, number | null>(),
  ]);
}

async function showFound<T extends ToShow>(
  found: readonly FoundAsset[],
  items: readonly T[],
  view: KeptView | null,
  parts: ReadParts,
  options: AssetReadOptions,
): Promise<ReadonlyMap<string, AssetText>> {
  const { source } = parts;
  const uris = found.map(uriOf);
  const fungible = found.filter(isFungible).map(assetIdOf);
  const [known, dollars] = await readFacts(uris, fungible, parts, options);
  const assets = new Map<string, Asset>();
  found.forEach((one, at) => {
    const asset = assetOf(one, known.get(uris[at] ?? '') ?? null, source.slot, options);
    if (asset === null) return;
    const priced = withPrice(asset, dollars.get(asset.id) ?? null);
    assets.set(asset.id, options.showSystemMetadata === true ? withSystem(priced, source) : priced);
  });
  const grouped = options.showCollectionMetadata ? await withCollections(assets, parts) : assets;
  const shown = options.showInscription === true ? await withInscriptions(grouped, parts, options) : grouped;
  const listings = new Map(items.map(({ id, listing }) => [id, listing]));
  const texts = new Map<string, AssetText>();
  found.forEach((one, at) => {
    const [id, uri] = [assetIdOf(one), uris[at] ?? ''];
    const asset = shown.get(id);
    if (asset === undefined) return;
    const { last_indexed_slot: slot, ...rest } = asset;
    const body = encoder.encode(stringify(rest).slice(0, -1));
    const facts = { document: known.get(uri) ?? null, dollars: dollars.get(id) ?? null, group: groupOf(one) };
    const shownAs = { id, body, isFungible: isFungible(one), uri, ...facts };
    const isOfIndex = view !== null && isStored(one, source);
    const kept = isOfIndex ? view.keep(howOf(options, listings.get(id)), shownAs) : null;
    texts.set(id, new AssetText(id, body, slot, kept));
  });
  return texts;
}

/** Whether all accounts of an asset are those of the index. */
function isStored(found: FoundAsset, source: AccountSource): boolean {
  if (found.kind === 'leaf') return false;
  const id = assetIdOf(found);
  const group = groupOf(found);
  const { metadata, edition } = found.kind === 'mint' ? source.places(id) : { metadata: id, edition: id };
  const holder = found.kind === 'mint' ? found.accounts.holder?.address : undefined;
  return [id, metadata, edition, holder ?? id, group ?? id].every((address) => source.isStored(address));
}

/** The collection of a Core asset, whose authority it has. */
export const groupOf = (found: FoundAsset): string | null =>
  found.kind === 'core' && found.asset?.updateAuthority.kind === 'collection'
    ? found.asset.updateAuthority.address
    : null;

/** A token, of which there may be many. */
export const isFungible = (found: FoundAsset): boolean => found.kind === 'mint' && !needsHolder(found.accounts);

/** An asset in its tree has no account, so only those that may have left it are looked for among the accounts. */
async function find(
  ids: readonly string[],
  source: AccountSource,
  compressed: CompressedAssets | undefined,
): Promise<{ readonly found: readonly FoundAsset[]; readonly lacking: string | null }> {
  if (compressed === undefined) return { found: await findAssetAccounts(ids, source), lacking: null };
  const { slot, assets, lacking } = await compressed.find(ids.map((id) => decode32(id) as Uint8Array));
  const leaves = new Map<string, FoundAsset>();
  const outside: string[] = [];
  for (const id of new Set(ids)) {
    const asset = assets.get(id);
    const leaf = asset === undefined || 'withheld' in asset ? null : leafAsset(asset, slot);
    if (leaf !== null) leaves.set(id, leaf);
    if (leaf === null || leaf.asset.state === 'redeemed') outside.push(id);
  }
  const accounts = outside.length === 0 ? [] : await findAssetAccounts(outside, source);
  for (const one of accounts) leaves.delete(assetIdOf(one));
  const known = new Set(accounts.map(assetIdOf));
  for (const id of outside) {
    const asset = assets.get(id);
    if (asset === undefined || known.has(id) || leaves.has(id)) continue;
    const why =
      'withheld' in asset ? asset.withheld : `the metadata of the compressed asset ${id} does not fit its leaf`;
    throw new RpcError('unavailable', { message: why, details: why });
  }
  return { found: [...accounts, ...leaves.values()], lacking: lacking?.withheld ?? null };
}

export function leafAsset(asset: CompressedAsset, slot: number): (FoundAsset & { readonly kind: 'leaf' }) | null {
  const metadata = metadataOfLeaf(asset.metadata, asset);
  return metadata === null ? null : { kind: 'leaf', id: encode32(asset.id), asset, metadata, slot };
}

export const assetIdOf = (found: FoundAsset | { readonly kind: 'unread' | 'row'; readonly id: string }): string =>
  found.kind === 'mint' ? found.accounts.id : found.id;

/** Assets with accounts. `holders`: token accounts that are known to hold mints, so that they need not be looked for. */
export async function findAssetAccounts(
  ids: readonly string[],
  source: AccountSource,
  holders: ReadonlyMap<string, NonNullable<MintAccounts['holder']>> = new Map(),
): Promise<readonly FoundAsset[]> {
  const distinct = [...new Set(ids)];
  const first = await source.accounts(distinct);
  const mints = new Map<string, MintAccounts>();
  const core = new Map<string, FoundAsset & { readonly kind: 'core' }>();
  const noneOf = (id: string, isBurnt: boolean) => ({
    metadata: null,
    edition: null,
    holder: holders.get(id) ?? null,
    isBurnt,
    document: null,
    slot: 0,
  });
  const empty: string[] = [];
  for (const [id, account] of first) {
    if (account === null || isBurntCore(account)) {
      empty.push(id);
      continue;
    }
    const mint = decodeMint(account).value;
    if (mint !== null) mints.set(id, { id, mint, ...noneOf(id, false) });
    const one = coreAt(id, account, false);
    if (one !== null) core.set(id, one);
  }
  const last = empty.length === 0 ? new Map<string, readonly KeyedAccount[]>() : await source.lastAccounts(empty);
  for (const id of empty) {
    const account = last.get(id)?.find(({ address }) => address === id)?.account ?? null;
    const mint = account === null ? null : decodeMint(account).value;
    // A mint can be closed only while it is empty.
    if (mint !== null) mints.set(id, { id, mint: { ...mint, supply: 0n }, ...noneOf(id, true) });
    const one = account === null ? null : coreAt(id, account, true);
    if (one !== null) core.set(id, one);
    else if (mint === null && first.get(id) != null)
      core.set(id, { kind: 'core', id, asset: null, collection: null, isBurnt: true });
  }
  await Promise.all([readMetadata(mints, source), readCollections(core, source)]);
  await restoreBurnt(mints, source);
  await readHolders(mints, source);
  return distinct.flatMap((id): FoundAsset[] => {
    const accounts = mints.get(id);
    if (accounts !== undefined) return [{ kind: 'mint', accounts }];
    const one = core.get(id);
    return one === undefined ? [] : [one];
  });
}

/** A Core asset or collection; null for any other account. */
function coreAt(id: string, account: RawAccount, isBurnt: boolean): (FoundAsset & { readonly kind: 'core' }) | null {
  const asset = decodeCoreAsset(account).value;
  const collection = asset === null ? decodeCoreCollection(account).value : null;
  return asset === null && collection === null ? null : { kind: 'core', id, asset, collection, isBurnt };
}

/** What the accounts of burnt mints had last, and who held the token. */
async function restoreBurnt(mints: Map<string, MintAccounts>, source: AccountSource): Promise<void> {
  const burnt = [...mints.values()].filter(
    ({ id, mint, metadata, isBurnt }) => isBurnt || (metadata === null && isBurntMint(mint, source.places(id).edition)),
  );
  if (burnt.length === 0) return;
  const last = await source.lastAccounts(burnt.map(({ id }) => id));
  for (const accounts of burnt) {
    const { id } = accounts;
    const places = source.places(id);
    let { metadata, edition } = accounts;
    let holder: MintAccounts['holder'] = null;
    for (const { address, account } of last.get(id) ?? []) {
      if (address === places.metadata) metadata ??= decodeMetadata(account).value;
      else if (address === places.edition) edition ??= decodeEdition(account).value;
      const held = decodeTokenAccount(account).value;
      // The last one that became empty.
      if (held !== null && held.mint === id && held.amount > 0n)
        holder = { address, owner: held.owner, amount: 0n, delegate: held.delegate, isFrozen: held.isFrozen };
    }
    mints.set(id, { ...accounts, metadata, edition, holder: accounts.holder ?? holder, isBurnt: true });
  }
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
export async function coreOf(accounts: readonly KeyedAccount[], source: AccountSource): Promise<readonly FoundAsset[]> {
  const core = new Map<string, FoundAsset & { readonly kind: 'core' }>();
  for (const { address: id, account } of accounts) {
    const one = coreAt(id, account, false);
    if (one !== null) core.set(id, one);
  }
  await readCollections(core, source);
  return [...core.values()];
}

/** An asset in a collection has the authority of the collection. */
async function readCollections(core: Map<string, FoundAsset & { kind: 'core' }>, source: AccountSource): Promise<void> {
  const collectionOf = new Map<string, string>();
  for (const [id, { asset }] of core)
    if (asset?.updateAuthority.kind === 'collection') collectionOf.set(id, asset.updateAuthority.address);
  if (collectionOf.size === 0) return;
  const read = await source.accounts([...collectionOf.values()]);
  for (const [id, address] of collectionOf) {
    const account = read.get(address) ?? null;
    const collection = account === null ? null : decodeCoreCollection(account).value;
    core.set(id, { ...(core.get(id) as FoundAsset & { kind: 'core' }), collection });
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

function uriOf(found: FoundAsset): string {
  if (found.kind === 'leaf') return found.metadata.uri.replaceAll('\0', '').trim();
  if (found.kind === 'core') return (found.asset ?? found.collection)?.uri ?? '';
  return mintUri(found.accounts);
}

export function assetOf(found: FoundAsset, document: unknown, slot: number, options: AssetOptions): Asset | null {
  if (found.kind === 'mint')
    return assetOfMint({ ...found.accounts, document, slot }, options, found.listedFor ?? null);
  if (found.kind === 'leaf') return assetOfLeaf(found.asset, found.metadata, { document, slot: found.slot }, options);
  const { id, asset, collection, isBurnt } = found;
  return assetOfCore({ id, asset, collection, isBurnt, document, slot }, options);
}

function withPrice(asset: Asset, dollars: number | null): Asset {
  if (dollars === null || asset.token_info === undefined) return asset;
  const { balance, decimals } = asset.token_info;
  const total = balance === undefined ? {} : { total_price: (Number(balance) / 10 ** decimals) * dollars };
  const price_info = { price_per_token: dollars, ...total, currency: 'USDC' } as const;
  return { ...asset, token_info: { ...asset.token_info, price_info } };
}

/** The hosted API writes a text, and its Rust SDK reads a number. */
function withSystem(asset: Asset, source: Pick<AccountSource, 'createdTime'>): Asset {
  const time = source.createdTime(asset.id);
  if (time === null) return asset;
  return {
    ...asset,
    system: { created_at: new Date(time * 1_000).toISOString().replace('.000', ''), createdAt: time },
  };
}

/** Adds what was inscribed for the assets. */
async function withInscriptions(
  assets: ReadonlyMap<string, Asset>,
  { source }: Pick<ReadParts, 'source'>,
  { dialect }: AssetReadOptions,
): Promise<ReadonlyMap<string, Asset>> {
  const addresses = Array.from(assets.keys(), inscriptionAddress);
  const read = await source.accounts(addresses);
  return new Map(
    Array.from(assets, ([id, asset], at) => {
      const account = read.get(addresses[at] as string) ?? null;
      const found = account === null ? null : decodeInscription(account).value;
      return [id, found?.root === id ? { ...asset, inscription: inscriptionJson(found, dialect) } : asset];
    }),
  );
}

const COLLECTION_MEMBERS = ['name', 'symbol', 'image', 'description', 'external_url'] as const;

/** Adds what the documents of the collections say of them. */
async function withCollections(
  assets: ReadonlyMap<string, Asset>,
  { source, documents, documentWaitMs, group }: Pick<ReadParts, 'source' | 'documents' | 'documentWaitMs' | 'group'>,
): Promise<ReadonlyMap<string, Asset>> {
  const groups = [...assets.values()].flatMap(({ grouping }) => grouping.map(({ group_value }) => group_value));
  const found = await findAssetAccounts(groups, source);
  const known =
    (await documents?.read(found.map(uriOf), { waitMs: documentWaitMs, group })) ?? new Map<string, unknown>();
  const metadata = new Map(
    found.map((one) => {
      const document = (known.get(uriOf(one)) ?? {}) as Readonly<Record<string, unknown>>;
      const members = COLLECTION_MEMBERS.filter((name) => document[name] !== undefined);
      return [assetIdOf(one), Object.fromEntries(members.map((name) => [name, document[name]]))];
    }),
  );
  return new Map(
    Array.from(assets, ([id, asset]) => {
      const grouping = asset.grouping.map((one) => {
        const collection_metadata = metadata.get(one.group_value);
        return collection_metadata === undefined ? one : { ...one, collection_metadata };
      });
      return [id, { ...asset, grouping }];
    }),
  );
}
