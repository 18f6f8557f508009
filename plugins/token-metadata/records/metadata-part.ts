import type { UndecodedReason } from '../../../src/solana/accounts/decoded.ts';
import { decodeMetadata, decodeMetadataBytes } from '../../../src/solana/accounts/metaplex/metadata.ts';
import { findExtension, readExtensions } from '../../../src/solana/accounts/token/extensions.ts';
import type { Mint } from '../../../src/solana/accounts/token/mint.ts';
import { decodeTokenMetadata } from '../../../src/solana/accounts/token/token-metadata.ts';
import { METADATA_PROGRAM, TOKEN_2022_PROGRAM } from '../../../src/solana/address/known-programs.ts';
import type { Loaded } from '../accounts/source.ts';
import type { SectionError } from './section-error.ts';
import type { TokenMetadataPart } from './token-record.ts';

const ERRORS: Readonly<Record<UndecodedReason, SectionError>> = {
  missing: 'EMPTY_ACCOUNT',
  foreign: 'INVALID_ACCOUNT',
  malformed: 'INVALID_ACCOUNT',
};

const none = (error: SectionError): TokenMetadataPart => ({ kind: 'none', error });

/** What the Metaplex account of a mint says. */
export function metadataPart(mint: string, loaded: Loaded | undefined): TokenMetadataPart {
  if (loaded?.ok !== true) return none('TIMEOUT');
  if (loaded.account === null) return none('EMPTY_ACCOUNT');
  const { value, reason } = decodeMetadata(loaded.account);
  if (value === null) return none(ERRORS[reason]);
  return value.mint === mint ? { kind: 'metaplex', value } : none('INVALID_ACCOUNT');
}

/** What the account says that a Token-2022 mint points to, which may be the mint itself. Believed only when it speaks of this mint. */
export function pointedPart(
  mint: string,
  decoded: Mint,
  address: string,
  loaded: Loaded | undefined,
): TokenMetadataPart {
  if (address === mint) return extensionPart(mint, findExtension(decoded.extensions, 'TokenMetadata'));
  if (loaded?.ok !== true) return none('TIMEOUT');
  const { account } = loaded;
  if (account === null || account.data.length === 0) return none('EMPTY_ACCOUNT');
  if (account.owner === METADATA_PROGRAM) return metadataPart(mint, loaded);
  const extension = findExtension(readExtensions(account.data), 'TokenMetadata');
  if (account.owner === TOKEN_2022_PROGRAM) return extensionPart(mint, extension);
  // Another program's account may have either layout.
  const metaplex = decodeMetadataBytes(account.data).value;
  if (metaplex?.mint === mint) return { kind: 'metaplex', value: metaplex };
  return extension === null ? none('INVALID_ACCOUNT') : extensionPart(mint, extension);
}

function extensionPart(mint: string, value: Uint8Array | null): TokenMetadataPart {
  if (value === null) return none('EMPTY_ACCOUNT');
  const decoded = decodeTokenMetadata(value);
  return decoded.value?.mint === mint ? { kind: 'extension', value: decoded.value } : none('INVALID_ACCOUNT');
}
