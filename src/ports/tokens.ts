import type { Tenant } from './access.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** Facts about a mint. Keys are base58, amounts raw units. */
export interface MintFacts {
  readonly mint: string;
  readonly program: string;
  readonly decimals: number;
  readonly supply: bigint;
  /** From Token-2022 metadata, then Metaplex, then the token list; null if unknown. */
  readonly name: string | null;
  readonly symbol: string | null;
  /** Address of the off-chain JSON. */
  readonly uri: string | null;
  /** From the token list, or from the off-chain JSON if it was read before. */
  readonly logoUri: string | null;
  /** Name in the Metaplex metadata; null if absent. */
  readonly tokenStandard: string | null;
  /** Claimed by Metaplex metadata; only a verified collection can be trusted. */
  readonly collection: { readonly key: string; readonly verified: boolean } | null;
  readonly isNft: boolean;
  /** How displayed amounts are scaled, by interest or a multiplier; null: not scaled. */
  readonly scale: MintScale | null;
  /** Token-2022 transfer fee; null: no fee. */
  readonly transferFee: MintTransferFee | null;
}

/** Times are unix seconds, rates basis points per year. */
export type MintScale =
  | {
      readonly kind: 'interest';
      readonly initialized: number;
      readonly averageRate: number;
      readonly lastUpdate: number;
      readonly rate: number;
    }
  | {
      readonly kind: 'multiplier';
      readonly multiplier: number;
      readonly newMultiplier: number;
      readonly newFrom: number;
    };

/** `newer` applies from its epoch on, `older` before. */
export interface MintTransferFee {
  readonly older: { readonly epoch: bigint; readonly maximum: bigint; readonly basisPoints: number };
  readonly newer: { readonly epoch: bigint; readonly maximum: bigint; readonly basisPoints: number };
}

export interface LookUpOptions {
  /** For whom accounts are read. */
  readonly tenant: Tenant;
  readonly signal?: AbortSignal;
  /** Default `token-metadata.upstreamTimeoutMs`. */
  readonly timeoutMs?: number;
  /** Fetch the off-chain JSON of mints without a logo in the background; the look-up does not wait for it. */
  readonly wantLogos?: boolean;
}

/** Cached facts about mints. An entry is dropped when the follower sees a transaction that may have changed it. */
export interface TokenFacts {
  /**
   * Returns an entry for each mint; null if it is not a mint or does not exist. Concurrent look-ups share their calls. Errors:
   * TOKEN_METADATA_TOO_MANY_MINTS above `token-metadata.maxMintsPerLookUp`, and those of `ChainReader.call` for mints not in the cache.
   */
  lookUp(mints: readonly string[], options: LookUpOptions): Promise<ReadonlyMap<string, MintFacts | null>>;
  /** Images by the URI of their off-chain document, if it was read before; the others are fetched in the background. */
  images(uris: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** The cached facts, possibly outdated; undefined: not cached. Never asks an upstream. */
  peek(mint: string): MintFacts | null | undefined;
  /** A number that changes whenever cached facts or images may have changed. */
  revision(): number;
}

/** Offered by the plugin `token-metadata`. */
export const tokenFacts: ServiceToken<TokenFacts> = serviceToken('token-metadata.facts');

/** Name of a token, and facts that go with it. */
interface TokenName {
  readonly name: string | null;
  readonly symbol: string | null;
  /** Name in the Metaplex metadata, or `NonFungible` for an NFT without one; null if unknown. */
  readonly tokenStandard: string | null;
  readonly decimals: number | null;
}

/** Cached names of tokens. */
export interface TokenNames {
  /** The name of a mint (base58); null: not cached. Never waits; a missing name may be looked up in the background. */
  peek(mint: string): TokenName | null;
}

/** Offered by the plugin `token-metadata`. */
export const tokenNames: ServiceToken<TokenNames> = serviceToken('token-metadata.names');

export interface Picture {
  readonly bytes: Uint8Array;
  /** By its first bytes, not by what its host says. */
  readonly contentType: string;
}

export interface PictureOptions {
  /** Fair-share group of the caller: the calls of one group do not delay others. */
  readonly group: string;
  readonly signal: AbortSignal;
}

/** Off-chain documents of tokens, by the URI on the chain. */
export interface OffChainDocuments {
  /**
   * The parsed documents that are known within `waitMs`. Those that could not be read, or are not there yet, are absent; they are fetched
   * in the background, for the tenant with the id `group`.
   */
  read(
    uris: readonly string[],
    how: { readonly waitMs: number; readonly group: string },
  ): Promise<ReadonlyMap<string, unknown>>;
  /** What `read` would answer from memory: the same document, or null where it could not be read; undefined: it is not in memory. */
  peek(uri: string): unknown;
  /**
   * The picture behind a URI of an asset or of its document, fetched now by the guarded client: PNG, JPEG, GIF, WebP or AVIF, at most
   * `offChain.maxPictureBytes`. Null: there is none, or too many are requested at once. Never rejects.
   */
  picture(uri: string, options: PictureOptions): Promise<Picture | null>;
}

/** Offered by the plugin `token-metadata`. */
export const offChainDocuments: ServiceToken<OffChainDocuments> = serviceToken('token-metadata.documents');

export interface PriceOptions {
  /** Longest wait; default and upper limit `prices.waitMs`. */
  readonly timeoutMs?: number;
}

/** Prices of tokens in US dollars. */
export interface Prices {
  /**
   * Returns an entry for each mint (base58; SOL is the mint of wrapped SOL): dollars for one whole token, or null if unknown. Never rejects
   * and never exceeds its time limit; prices that arrive later are available to the next call.
   */
  prices(mints: readonly string[], options?: PriceOptions): Promise<ReadonlyMap<string, number | null>>;
}

/** Offered by the plugin `prices`. */
export const tokenPrices: ServiceToken<Prices> = serviceToken('prices.prices');
