import { type ServiceToken, serviceToken } from './service.ts';

/** What a token is called. */
export interface TokenName {
  readonly name: string | null;
  readonly symbol: string | null;
  /** As Metaplex names it, or `NonFungible` for a token that is one without saying so; null when nothing is known. */
  readonly tokenStandard: string | null;
  readonly decimals: number | null;
}

/** Names of tokens that are at hand. */
export interface TokenNames {
  /** By mint in base58; null: not known now. Never waits; what is not known may be looked up later, for the next one who asks. */
  peek(mint: string): TokenName | null;
}

/** Offered by the plugin `token-metadata`. */
export const tokenNames: ServiceToken<TokenNames> = serviceToken('token-metadata.names');
