import { encode32 } from '../../lib/base58.ts';
import { equalBytes } from '../../lib/bytes.ts';
import { AGENT_IDENTITY, type CoreAsset, type CoreCollection, type CorePlugins } from '../accounts/core.ts';
import type { Inscription } from '../accounts/inscription.ts';
import type { Edition, Metadata } from '../accounts/metaplex.ts';
import {
  decodeTokenMetadata,
  findExtension,
  type Mint,
  type TokenAccount,
  type TokenMetadata,
} from '../accounts/token.ts';
import { mintExtensionsJson } from '../accounts/token-extensions.ts';
import { coreAssetSigner } from '../addresses.ts';
import { hashLeaf, type LeafSchema } from '../concurrent/decode-concurrent.ts';
import type { LeafMetadata } from '../concurrent/leaf-metadata.ts';
import { treeAuthority } from '../concurrent/tree.ts';
import { SYSTEM_PROGRAM, WRAPPED_SOL_MINT } from '../programs.ts';
import { type Content, contentOf } from './content.ts';

/**
 * Assets as the DAS API shows them, built from decoded accounts. `hosted` and `metaplex` are the two dialects of the API: members that
 * only one of them has, and values that they write differently.
 */
export type AssetDialect = 'hosted' | 'metaplex';

export interface AssetOptions {
  readonly dialect: AssetDialect;
  readonly showFungible: boolean;
  readonly showUnverifiedCollections: boolean;
}

type Interface =
  | 'V1_NFT'
  | 'V1_PRINT'
  | 'FungibleAsset'
  | 'FungibleToken'
  | 'ProgrammableNFT'
  | 'MplCoreAsset'
  | 'MplCoreCollection'
  | 'Custom';

/** A bigint only where a number would not be exact: JSON of numbers alone is written several times faster. */
type Count = bigint | number;

const countOf = (value: bigint): Count => (value <= Number.MAX_SAFE_INTEGER ? Number(value) : value);

/** One asset. Keys are base58, amounts raw units; members that do not apply are absent. */
export interface Asset {
  readonly interface: Interface;
  readonly id: string;
  readonly content: Content;
  readonly authorities: readonly { readonly address: string; readonly scopes: readonly ['full'] }[];
  readonly compression: Compression;
  readonly grouping: readonly Grouping[];
  readonly royalty: Royalty;
  readonly creators: readonly AssetCreator[];
  readonly ownership: Ownership;
  readonly uses?: { readonly use_method: string; readonly remaining: Count; readonly total: Count };
  readonly supply?: Supply | null;
  readonly mutable: boolean;
  readonly burnt: boolean;
  readonly token_info?: TokenInfo;
  readonly mint_extensions?: Readonly<Record<string, unknown>>;
  readonly inscription?: Readonly<Record<string, unknown>>;
  /** When it was created: the same time as a text and in Unix seconds. */
  readonly system?: { readonly created_at: string; readonly createdAt: number };
  readonly plugins?: CorePlugins['known'];
  readonly unknown_plugins?: CorePlugins['unknown'];
  readonly mpl_core_info?: {
    readonly num_minted?: number;
    readonly current_size?: number;
    readonly plugins_json_version: number;
  };
  readonly external_plugins?: CorePlugins['external'];
  readonly unknown_external_plugins?: CorePlugins['unknownExternal'];
  readonly is_agent?: boolean;
  readonly asset_signer?: string;
  readonly last_indexed_slot?: number;
}

interface Grouping {
  readonly group_key: 'collection';
  readonly group_value: string;
  readonly verified?: boolean;
  readonly collection_metadata?: Readonly<Record<string, unknown>>;
}

interface Royalty {
  readonly royalty_model: 'creators';
  readonly target: null;
  readonly percent: number;
  readonly basis_points: number;
  readonly primary_sale_happened: boolean;
  readonly locked: false;
}

interface AssetCreator {
  readonly address: string;
  /** Per cent. */
  readonly share: number;
  readonly verified: boolean;
}

interface Ownership {
  readonly frozen: boolean;
  /** Compressed assets of version 2 only. */
  readonly non_transferable?: boolean;
  readonly delegated: boolean;
  readonly delegate: string | null;
  readonly ownership_model: 'single' | 'token';
  /** Empty where there is no single owner. */
  readonly owner: string;
}

interface Supply {
  /** 0 also for editions without a limit, as in the reference. */
  readonly print_max_supply: Count;
  readonly print_current_supply: Count;
  readonly edition_nonce: number | null;
}

interface TokenInfo {
  readonly symbol?: string;
  /** Balance of the owner whose assets are listed. */
  readonly balance?: Count;
  readonly supply: Count;
  readonly decimals: number;
  readonly token_program: string;
  readonly associated_token_address?: string;
  readonly price_info?: { readonly price_per_token: number; readonly total_price?: number; readonly currency: 'USDC' };
  readonly mint_authority?: string;
  readonly freeze_authority?: string;
}

interface Compression {
  readonly eligible: boolean;
  readonly compressed: boolean;
  readonly data_hash: string;
  readonly creator_hash: string;
  readonly collection_hash?: string;
  readonly asset_data_hash?: string;
  readonly flags?: number;
  readonly asset_hash: string;
  readonly tree: string;
  readonly seq: number;
  readonly leaf_id: number;
}

const NOT_COMPRESSED: Compression = {
  eligible: false,
  compressed: false,
  data_hash: '',
  creator_hash: '',
  asset_hash: '',
  tree: '',
  seq: 0,
  leaf_id: 0,
};

/** What the accounts of a mint hold. */
export interface MintAccounts {
  readonly id: string;
  readonly mint: Mint;
  /** Metaplex metadata; null where there is none. */
  readonly metadata: Metadata | null;
  /** The edition account of the mint; null where there is none. */
  readonly edition: Edition | null;
  /** The account that holds the only token of an NFT, or the account of the owner whose assets are listed. */
  readonly holder: Holder | null;
  /** It was burnt: its mint is closed, or empty and can never be minted again. Accounts that are gone are as they were last. */
  readonly isBurnt: boolean;
  /** The document behind the URI of the metadata, if it was read. */
  readonly document: unknown;
  /** The oldest slot that one of the accounts was read at. */
  readonly slot: number;
}

/**
 * Whether the only token of an NFT was burnt: there is none, and no wallet can mint another. Token Metadata leaves the edition of a mint as its
 * authority, and closes the edition with the metadata.
 */
export function isBurntMint({ supply, decimals, mintAuthority }: Mint, edition: string): boolean {
  return supply === 0n && decimals === 0 && (mintAuthority === null || mintAuthority === edition);
}

interface Holder extends Pick<TokenAccount, 'owner' | 'amount' | 'delegate' | 'isFrozen'> {
  readonly address: string;
}

/** A token, fungible or not. `listedFor`: the owner whose assets are listed. */
export function assetOfMint(accounts: MintAccounts, options: AssetOptions, listedFor: string | null = null): Asset {
  const { id, mint, metadata, edition, holder } = accounts;
  const kind = interfaceOf(accounts);
  const isSingle = isSingleOwner(kind);
  const embedded = metadata === null ? embeddedMetadata(mint) : null;
  const texts = metadata ?? embedded;
  const authority = metadata?.updateAuthority ?? (isSingle ? embedded?.updateAuthority : null) ?? null;
  const isHosted = options.dialect === 'hosted';
  const extensions = mintExtensionsJson(mint.extensions, isHosted);
  return {
    interface: kind,
    id,
    content: contentOf({
      uri: texts?.uri ?? '',
      name: texts?.name ?? '',
      symbol: texts?.symbol ?? '',
      tokenStandard: metadata?.tokenStandard ?? null,
      document: accounts.document,
    }),
    authorities: authority === null ? [] : [{ address: authority, scopes: ['full'] }],
    compression: NOT_COMPRESSED,
    grouping: groupingOf(metadata?.collection ?? null, options),
    royalty: royaltyOf(metadata?.sellerFeeBasisPoints ?? 0, metadata?.primarySaleHappened ?? false),
    creators: (metadata?.creators ?? []).map(({ address, share, verified }) => ({ address, share, verified })),
    ownership: isSingle ? singleOwner(holder) : tokenOwner(isHosted ? listedFor : null),
    ...(metadata?.uses == null
      ? {}
      : {
          uses: {
            use_method: metadata.uses.method,
            remaining: countOf(metadata.uses.remaining),
            total: countOf(metadata.uses.total),
          },
        }),
    ...supplyOf(kind, metadata, edition, isHosted),
    mutable: metadata?.isMutable ?? true,
    // An NFT that a wallet can still mint does not exist yet.
    burnt:
      accounts.isBurnt ||
      (mint.supply === 0n && (edition !== null || (BURNABLE.has(kind) && mint.mintAuthority === null))),
    // The released reference shows the same of an asset in a list as alone.
    ...(isHosted || options.showFungible
      ? { token_info: tokenInfoOf(mint, texts, isHosted, isHosted && listedFor !== null ? holder : null) }
      : {}),
    ...(extensions === null ? {} : { mint_extensions: extensions }),
    ...(isHosted ? { last_indexed_slot: accounts.slot } : {}),
  };
}

/** Their mint has a supply of one token while the asset exists. */
const BURNABLE: ReadonlySet<Interface> = new Set(['V1_NFT', 'V1_PRINT', 'ProgrammableNFT']);

function interfaceOf({ id, mint, metadata, edition, isBurnt }: MintAccounts): Interface {
  if (id === WRAPPED_SOL_MINT) return 'FungibleToken';
  // While somebody can mint more, it is not the only one.
  const isSingle = mint.supply === 1n || (isBurnt && mint.decimals === 0);
  const isOne = isSingle && mint.decimals === 0 && (mint.mintAuthority === null || isBurnt);
  switch (metadata?.tokenStandard) {
    case 'NonFungible':
    case 'NonFungibleEdition':
      return edition?.kind === 'print' ? 'V1_PRINT' : 'V1_NFT';
    case 'FungibleAsset':
      return 'FungibleAsset';
    case 'Fungible':
      return 'FungibleToken';
    case 'ProgrammableNonFungible':
    case 'ProgrammableNonFungibleEdition':
      return 'ProgrammableNFT';
    default:
      if (edition !== null) return edition.kind === 'print' ? 'V1_PRINT' : 'V1_NFT';
      // Metadata older than token standards does not say what it is of; one token alone is neither fungible nor an edition.
      if (metadata !== null) return isSingle ? 'Custom' : 'FungibleToken';
      return isOne ? 'V1_NFT' : 'FungibleToken';
  }
}

const isSingleOwner = (kind: Interface): boolean => kind !== 'FungibleAsset' && kind !== 'FungibleToken';

/** Whether an asset has one owner, whom the accounts of its mint do not name. */
export function needsHolder(accounts: MintAccounts): boolean {
  return isSingleOwner(interfaceOf(accounts));
}

/** Address of the document of a mint; empty where there is none. */
export function mintUri({ mint, metadata }: MintAccounts): string {
  return (metadata ?? embeddedMetadata(mint))?.uri ?? '';
}

function embeddedMetadata(mint: Mint): TokenMetadata | null {
  const bytes = findExtension(mint.extensions, 'TokenMetadata');
  return bytes === null ? null : decodeTokenMetadata(bytes).value;
}

function groupingOf(
  collection: Metadata['collection'],
  { showUnverifiedCollections }: AssetOptions,
): readonly Grouping[] {
  if (collection === null || (!collection.verified && !showUnverifiedCollections)) return [];
  const { key, verified } = collection;
  return [{ group_key: 'collection', group_value: key, ...(showUnverifiedCollections ? { verified } : {}) }];
}

const PERCENT_PER_BASIS_POINT = 0.0001;

function royaltyOf(basisPoints: number, primarySaleHappened: boolean): Royalty {
  return {
    royalty_model: 'creators',
    target: null,
    percent: basisPoints * PERCENT_PER_BASIS_POINT,
    basis_points: basisPoints,
    primary_sale_happened: primarySaleHappened,
    locked: false,
  };
}

function singleOwner(holder: Holder | null): Ownership {
  const delegate = holder?.delegate ?? null;
  return {
    frozen: holder?.isFrozen ?? false,
    delegated: delegate !== null,
    delegate,
    ownership_model: 'single',
    owner: holder?.owner ?? '',
  };
}

function tokenOwner(owner: string | null): Ownership {
  return { frozen: false, delegated: false, delegate: null, ownership_model: 'token', owner: owner ?? '' };
}

const WITH_SUPPLY: ReadonlySet<Interface> = new Set(['V1_NFT', 'ProgrammableNFT', 'Custom']);

function supplyOf(
  kind: Interface,
  metadata: Metadata | null,
  edition: Edition | null,
  isHosted: boolean,
): { readonly supply?: Supply | null } {
  const nonce = metadata?.editionNonce ?? null;
  const none = { print_max_supply: 0, print_current_supply: 0, edition_nonce: nonce };
  if (!isHosted) return WITH_SUPPLY.has(kind) ? { supply: none } : {};
  if (edition?.kind === 'master')
    return {
      supply: {
        print_max_supply: countOf(edition.maxSupply ?? 0n),
        print_current_supply: countOf(edition.supply),
        edition_nonce: nonce,
      },
    };
  return { supply: WITH_SUPPLY.has(kind) && kind !== 'ProgrammableNFT' ? none : null };
}

function tokenInfoOf(
  mint: Mint,
  texts: { readonly symbol: string } | null,
  isHosted: boolean,
  held: Holder | null,
): TokenInfo {
  return {
    ...(isHosted && texts !== null && texts.symbol.trim() !== '' ? { symbol: texts.symbol.trim() } : {}),
    ...(held === null ? {} : { balance: countOf(held.amount) }),
    supply: countOf(mint.supply),
    decimals: mint.decimals,
    token_program: mint.program,
    ...(held === null ? {} : { associated_token_address: held.address }),
    ...(mint.mintAuthority === null ? {} : { mint_authority: mint.mintAuthority }),
    ...(mint.freezeAuthority === null ? {} : { freeze_authority: mint.freezeAuthority }),
  };
}

/** An inscription of an asset of any kind; the two dialects name its members differently. */
export function inscriptionJson(inscription: Inscription, dialect: AssetDialect): Readonly<Record<string, unknown>> {
  const { authority, root, dataAccount, order, size, contentType, encoding, validationHash } = inscription;
  const common = { authority, order: countOf(order), size, encoding };
  return dialect === 'hosted'
    ? { ...common, contentType, validationHash, inscriptionDataAccount: dataAccount }
    : { ...common, root, content: contentType, inscription_data: dataAccount, validation_hash: validationHash };
}

/** A compressed asset in its tree, with the members of its last leaf. Keys and hashes are 32 bytes. */
interface LeafAsset extends Omit<LeafSchema, 'nonce'> {
  readonly tree: Uint8Array;
  readonly leafIndex: number;
  readonly leaf: Uint8Array;
  readonly seq: number;
  /** `redeemed`: its leaf is empty, and it may be an account by now. */
  readonly state: 'present' | 'burnt' | 'redeemed';
}

const NO_KEY = new Uint8Array(32);
/** Bits of the flags of a leaf. */
const FLAG = { frozen: 1, frozenByCollection: 2, nonTransferable: 4 } as const;
const USE_METHODS = ['Burn', 'Multiple', 'Single'] as const;

export function assetOfLeaf(
  asset: LeafAsset,
  metadata: LeafMetadata,
  { document, slot }: { readonly document: unknown; readonly slot: number },
  options: AssetOptions,
): Asset {
  const { more, seq, leafIndex } = asset;
  const hashes = hashesOf(asset);
  const { collection, uses } = metadata;
  const isDelegated = !equalBytes(asset.delegate, asset.owner) && !equalBytes(asset.delegate, NO_KEY);
  const has = (...bits: readonly number[]): boolean => bits.some((bit) => ((more?.flags ?? 0) & bit) !== 0);
  return {
    interface: 'V1_NFT',
    id: encode32(asset.id),
    content: contentOf({
      uri: metadata.uri,
      name: metadata.name,
      symbol: metadata.symbol,
      document,
      // Bubblegum has no other kind, and older mints leave it out.
      tokenStandard: 'NonFungible',
    }),
    authorities: [{ address: encode32(treeAuthority(asset.tree)), scopes: ['full'] }],
    compression: {
      eligible: false,
      compressed: true,
      data_hash: encode32(hashes.dataHash),
      creator_hash: encode32(hashes.creatorHash),
      ...(more === null
        ? {}
        : {
            collection_hash: encode32(more.collectionHash),
            asset_data_hash: encode32(more.assetDataHash),
            flags: more.flags,
          }),
      asset_hash: encode32(hashes.leaf),
      tree: encode32(asset.tree),
      seq,
      leaf_id: leafIndex,
    },
    grouping: groupingOf(
      collection === null ? null : { key: encode32(collection.key), verified: collection.verified },
      options,
    ),
    royalty: royaltyOf(metadata.sellerFeeBasisPoints, metadata.primarySaleHappened),
    creators: metadata.creators.map(({ address, share, verified }) => ({
      address: encode32(address),
      share,
      verified,
    })),
    ownership: {
      frozen: has(FLAG.frozen, FLAG.frozenByCollection),
      ...(more === null ? {} : { non_transferable: has(FLAG.nonTransferable) }),
      delegated: isDelegated,
      delegate: isDelegated ? encode32(asset.delegate) : null,
      ownership_model: 'single',
      owner: encode32(asset.owner),
    },
    ...(uses === null
      ? {}
      : {
          uses: {
            use_method: USE_METHODS[uses.method] ?? 'Burn',
            remaining: countOf(uses.remaining),
            total: countOf(uses.total),
          },
        }),
    supply: { print_max_supply: 0, print_current_supply: 0, edition_nonce: metadata.editionNonce },
    mutable: metadata.isMutable,
    burnt: asset.state === 'burnt',
    ...(options.dialect === 'hosted' ? { last_indexed_slot: slot } : {}),
  };
}

/** Like the reference: a burnt asset keeps the hash of its last leaf, and a redeemed one has none. */
function hashesOf(asset: LeafAsset): Pick<LeafAsset, 'dataHash' | 'creatorHash' | 'leaf'> {
  if (asset.state === 'present') return asset;
  if (asset.state === 'redeemed') return NO_HASHES;
  return { ...asset, leaf: hashLeaf({ ...asset, nonce: BigInt(asset.leafIndex) }) };
}

const NO_HASHES = { dataHash: NO_KEY, creatorHash: NO_KEY, leaf: NO_KEY } as const;

/** A Core asset or collection, with the collection that an asset is in, if it was read. */
interface CoreAccounts {
  readonly id: string;
  readonly asset: CoreAsset | null;
  readonly collection: CoreCollection | null;
  /** Its account is empty; `asset` and `collection` are as they were last, both null where nobody knows. */
  readonly isBurnt: boolean;
  readonly document: unknown;
  readonly slot: number;
}

/** What is known of a burnt asset from its empty account alone. */
const UNKNOWN_CORE: CoreAsset = {
  owner: '',
  updateAuthority: { kind: 'none' },
  name: '',
  uri: '',
  seq: null,
  plugins: { known: {}, unknown: [], external: [], unknownExternal: [] },
};

/** A Core asset, or a Core collection where `asset` is null. Null where both are, unless it was burnt. */
export function assetOfCore(accounts: CoreAccounts, options: AssetOptions): Asset | null {
  const { id, collection, isBurnt, document, slot } = accounts;
  const isUnknown = accounts.asset === null && collection === null;
  const asset = isUnknown && isBurnt ? UNKNOWN_CORE : accounts.asset;
  const base = asset ?? collection;
  if (base === null) return null;
  const authority = asset === null ? (collection?.updateAuthority ?? '') : coreAuthority(asset, collection);
  const { plugins } = base;
  const royalties = dataOf<{ basis_points: number; creators: readonly { address: string; percentage: number }[] }>(
    plugins,
    'royalties',
  );
  const owner = asset?.owner ?? authority;
  const delegate = transferDelegate(plugins, owner, authority);
  const isHosted = options.dialect === 'hosted';
  const inCollection = asset?.updateAuthority.kind === 'collection' ? asset.updateAuthority.address : null;
  return {
    interface: asset === null ? 'MplCoreCollection' : 'MplCoreAsset',
    id,
    content: contentOf({ uri: base.uri, name: base.name, symbol: '', tokenStandard: null, document }),
    authorities: isUnknown ? [] : [{ address: authority, scopes: ['full'] }],
    compression: NOT_COMPRESSED,
    // The program lets only the authority of a collection put assets into it.
    grouping: groupingOf(inCollection === null ? null : { key: inCollection, verified: true }, options),
    royalty: royaltyOf(royalties?.basis_points ?? 0, false),
    creators: (royalties?.creators ?? []).map(({ address, percentage }) => ({
      address,
      share: percentage,
      verified: true,
    })),
    ownership: {
      frozen: FREEZES.some((name) => isFrozenBy(name, base, collection)),
      delegated: delegate !== null,
      delegate,
      ownership_model: 'single',
      owner,
    },
    ...(isHosted ? { supply: null } : {}),
    mutable: asset === null || asset.updateAuthority.kind !== 'none',
    burnt: isBurnt,
    plugins: plugins.known,
    ...(plugins.unknown.length === 0 ? {} : { unknown_plugins: plugins.unknown }),
    mpl_core_info: {
      ...(asset === null && collection !== null
        ? { num_minted: collection.numMinted, current_size: collection.currentSize }
        : {}),
      plugins_json_version: 1,
    },
    external_plugins: plugins.external,
    ...(plugins.unknownExternal.length === 0 ? {} : { unknown_external_plugins: plugins.unknownExternal }),
    ...(isHosted
      ? {
          is_agent: plugins.external.some(({ type }) => type === AGENT_IDENTITY),
          asset_signer: coreAssetSigner(id),
          last_indexed_slot: slot,
        }
      : {}),
  };
}

const FREEZES = ['freeze_delegate', 'permanent_freeze_delegate'] as const;

/** A plugin of the collection counts for its assets that have none of the kind (mpl-core, `deriveAssetPlugins` and `isFrozen`). */
function isFrozenBy(name: string, base: CoreAsset | CoreCollection, collection: CoreCollection | null): boolean {
  const own = dataOf<{ frozen: boolean }>(base.plugins, name);
  const inherited = collection === null ? undefined : dataOf<{ frozen: boolean }>(collection.plugins, name);
  return (own ?? inherited)?.frozen === true;
}

/** Empty where the collection was not read. */
function coreAuthority({ updateAuthority }: CoreAsset, collection: CoreCollection | null): string {
  if (updateAuthority.kind === 'none') return SYSTEM_PROGRAM;
  return updateAuthority.kind === 'address' ? updateAuthority.address : (collection?.updateAuthority ?? '');
}

function transferDelegate({ known }: CorePlugins, owner: string, authority: string): string | null {
  const by = known['transfer_delegate']?.authority;
  if (by === undefined || by.type === 'None') return null;
  if (by.type === 'Owner') return owner;
  return by.type === 'UpdateAuthority' ? authority : by.address;
}

const dataOf = <T>({ known }: CorePlugins, name: string): T | undefined => known[name]?.data as T | undefined;
