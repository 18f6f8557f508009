import { type ServiceToken, serviceToken } from './service.ts';

/** Name of a token, and facts that go with it. */
export interface TokenName {
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
