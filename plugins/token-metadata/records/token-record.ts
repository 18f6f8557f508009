import type { Metadata } from '../../../src/solana/accounts/metaplex/metadata.ts';
import type { Mint } from '../../../src/solana/accounts/token/mint.ts';
import type { TokenMetadata } from '../../../src/solana/accounts/token/token-metadata.ts';
import type { ChainAccount } from '../accounts/chain-account.ts';
import type { SectionError } from './section-error.ts';

/** What the chain says of a key that was asked for. */
export type TokenRecord =
  | { readonly kind: 'none'; readonly mint: string; readonly error: SectionError; readonly keys: readonly string[] }
  | {
      readonly kind: 'mint';
      readonly mint: string;
      readonly account: ChainAccount;
      readonly decoded: Mint;
      readonly metadata: TokenMetadataPart;
      /** The accounts that it was read from. */
      readonly keys: readonly string[];
      /** The oldest slot that one of them was read at. */
      readonly slot: number;
      /** The earliest time of the monotonic clock that one of them was asked for. */
      readonly readAtMs: number;
    };

export type TokenMetadataPart =
  | { readonly kind: 'metaplex'; readonly value: Metadata }
  | { readonly kind: 'extension'; readonly value: TokenMetadata }
  | { readonly kind: 'none'; readonly error: SectionError };

/** The name, the symbol and the address that either kind of metadata gives. */
export function textsOf({ metadata }: TokenRecord & { readonly kind: 'mint' }): {
  readonly name: string;
  readonly symbol: string;
  readonly uri: string;
} {
  return metadata.kind === 'none' ? { name: '', symbol: '', uri: '' } : metadata.value;
}
