import { type ServiceToken, serviceToken } from './service.ts';

/** What is known of a mint. Keys are base58, amounts raw units. */
export interface MintFacts {
  readonly mint: string;
  readonly program: string;
  readonly decimals: number;
  readonly supply: bigint;
  /** From Token-2022 metadata, else Metaplex, else the token list; null where nobody gives one. */
  readonly name: string | null;
  readonly symbol: string | null;
  /** Of the JSON beside the chain. */
  readonly uri: string | null;
  /** From the token list, else from the JSON beside the chain where that has been read before. */
  readonly logoUri: string | null;
  /** As Metaplex names it; null without Metaplex metadata or where it does not say. */
  readonly tokenStandard: string | null;
  /** As Metaplex metadata claims it; only a verified one is true. */
  readonly collection: { readonly key: string; readonly verified: boolean } | null;
  readonly isNft: boolean;
  /** Amounts are shown with interest or a multiplier; null: plain. */
  readonly scale: MintScale | null;
  /** Token-2022 holds something back from transfers; null: nothing. */
  readonly transferFee: MintTransferFee | null;
}

/** Times are unix seconds, rates basis points a year. */
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

/** `newer` from its epoch on, `older` before. */
export interface MintTransferFee {
  readonly older: { readonly epoch: bigint; readonly maximum: bigint; readonly basisPoints: number };
  readonly newer: { readonly epoch: bigint; readonly maximum: bigint; readonly basisPoints: number };
}

export interface LookUpOptions {
  readonly signal?: AbortSignal;
  /** Default `token-metadata.upstreamTimeoutMs`. */
  readonly timeoutMs?: number;
  /** Fetch the JSON beside the chain of those without a logo, later and by the way: the look-up does not wait for it. */
  readonly wantLogos?: boolean;
}

/** Facts of mints, cached, and dropped when the follower sees a transaction that may have changed them. */
export interface TokenFacts {
  /**
   * An entry for each mint; null for what is no mint or does not exist. Look-ups at the same time share their calls. Errors:
   * TOKEN_METADATA_TOO_MANY_MINTS beyond `token-metadata.maxMintsPerLookUp`, else those of `ChainReader.call`, when a part is unknown.
   */
  lookUp(mints: readonly string[], options?: LookUpOptions): Promise<ReadonlyMap<string, MintFacts | null>>;
  /** Images by the uri of a document beside the chain, of those that were read before; the others are fetched later, by the way. */
  images(uris: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** What is in memory now, also when it is somewhat old; undefined: not known. Never asks the chain. */
  peek(mint: string): MintFacts | null | undefined;
  /** Another number than before whenever more, or something else, may be known than before, images among it. */
  revision(): number;
}

/** Offered by the plugin `token-metadata`. */
export const tokenFacts: ServiceToken<TokenFacts> = serviceToken('token-metadata.facts');
