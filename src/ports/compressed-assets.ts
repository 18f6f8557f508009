import { decode32 } from '../lib/base58.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** A compressed NFT in its tree. Keys and hashes are 32 bytes. */
export interface CompressedAsset {
  readonly id: Uint8Array;
  readonly tree: Uint8Array;
  readonly leafIndex: number;
  readonly leaf: Uint8Array;
  /** Sequence number and slot of its last change. */
  readonly seq: number;
  readonly slot: number;
  /** `redeemed`: its leaf was emptied, for it to become an account. The members below are of its last leaf. */
  readonly state: 'present' | 'burnt' | 'redeemed';
  readonly version: 1 | 2;
  readonly owner: Uint8Array;
  readonly delegate: Uint8Array;
  readonly dataHash: Uint8Array;
  readonly creatorHash: Uint8Array;
  /** Version 2 only. */
  readonly more: {
    readonly collectionHash: Uint8Array;
    readonly assetDataHash: Uint8Array;
    readonly flags: number;
  } | null;
  /** The bytes of its metadata, which have the data hash. */
  readonly metadata: Uint8Array;
}

/** A known asset that cannot be shown now, and why. */
export interface WithheldAsset {
  readonly withheld: string;
}

export interface AssetChanges {
  /** Newest indexed slot. */
  readonly slot: number;
  /** Newest first, or oldest first. */
  readonly items: readonly {
    readonly seq: number;
    /** 64 bytes. */
    readonly signature: Uint8Array;
    /** Name of the instruction of Bubblegum, empty when it is unknown. */
    readonly operation: string;
  }[];
}

/** Which changes of a leaf, after the first `skip` of them. */
export interface ChangesPage {
  readonly ascending: boolean;
  readonly limit: number;
  readonly skip: number;
  /** Sequence number that the changes come after in the order of the list; null: no bound. */
  readonly cursor: number | null;
  /** Signatures that the changes come after, or before, in the order of the list; null: no bound. */
  readonly after: Uint8Array | null;
  readonly before: Uint8Array | null;
}

/** All of an owner, all of a tree, or all. */
export type AssetsBy = { readonly owner: Uint8Array } | { readonly tree: Uint8Array } | 'all';

/** A part of a list, which is in the order of the bytes of the ids. */
export interface AssetsPart {
  /** Most assets of the part. */
  readonly most: number;
  readonly isDescending?: boolean;
  /** Only ids above, or below, these ones. */
  readonly above?: Uint8Array | null;
  readonly below?: Uint8Array | null;
  /** Burnt assets, of their last owners, instead of those that are in their trees. */
  readonly isBurnt?: boolean;
  /** Only assets whose metadata has each of these bytes in it, and those whose metadata is not known. */
  readonly bytes?: readonly Uint8Array[];
}

export interface AssetsFound {
  readonly slot: number;
  /** Assets of all trees of the chain, without those that are withheld: anybody can send an asset of such a tree to an owner. */
  readonly assets: readonly (CompressedAsset | WithheldAsset)[];
  /** Whether all trees are followed. */
  readonly followsAll: boolean;
  /** Whether there are no others of any tree, followed or not, nor of trees whose past is missing. */
  readonly isComplete: boolean;
}

/** Compressed NFTs of the trees that are followed. */
export interface CompressedAssets {
  /** By base58 id; unknown ones are absent, also those of a named tree that is being read, which is `lacking` then. */
  find(ids: readonly Uint8Array[]): Promise<{
    readonly slot: number;
    readonly assets: ReadonlyMap<string, CompressedAsset | WithheldAsset>;
    readonly lacking: WithheldAsset | null;
  }>;
  /** Null for a tree that is not followed. */
  list(by: AssetsBy, part: AssetsPart): Promise<AssetsFound | WithheldAsset | null>;
  /** The changes of a leaf; null when it is unknown. */
  changes(
    leaf: { readonly id: Uint8Array } | { readonly tree: Uint8Array; readonly leafIndex: number },
    page: ChangesPage,
  ): Promise<AssetChanges | WithheldAsset | null>;
}

/** Most ids of one call of the asset API, and its error for more, in the words of the contract. */
export const MAX_IDS = 1_000;
export const TOO_MANY_IDS = `Batch Size Error. Batch size should not be greater than ${MAX_IDS}.`;

/** Why a value is not 32 bytes in base58, in the words of the contract; null if it is. */
export function refusedKey(value: unknown): string | null {
  if (typeof value === 'string' && value.length <= 44 && decode32(value) !== null) return null;
  return `Pubkey Validation Err: ${shown(value)} is invalid`;
}

/** A value of a request in an error; lists and objects have no text of their own. */
export const shown = (value: unknown): string =>
  typeof value === 'object' && value !== null ? 'it' : String(value).slice(0, 64);

/** JSON-RPC error of params that are wrong. */
export type InvalidCode = 'invalidParams' | 'notFound';

/** Offered by the plugin `compression`. */
export interface CompressedAssetsService {
  /** Null when it follows no trees. */
  readonly index: CompressedAssets | null;
  /** Sets what its methods for proofs report for params that are wrong: what all methods of the asset API do. */
  reportInvalidAs(code: () => InvalidCode): void;
}

export const compressedAssets: ServiceToken<CompressedAssetsService> = serviceToken('compression.assets');
