import { METADATA_PROGRAM } from './known-programs.ts';
import { knownKey, programAddressText } from './program-address.ts';

/** The Metaplex metadata account of a mint. Base58; throws TypeError for what is no key. */
export function metadataAddress(mint: string): string {
  return programAddressText(['metadata', knownKey(METADATA_PROGRAM), knownKey(mint)], METADATA_PROGRAM);
}

/** The account that makes a mint an edition, original or print. Base58. */
export function editionAddress(mint: string): string {
  return programAddressText(['metadata', knownKey(METADATA_PROGRAM), knownKey(mint), 'edition'], METADATA_PROGRAM);
}

/** What is known of a programmable NFT in one token account. Base58. */
export function tokenRecordAddress(mint: string, tokenAccount: string): string {
  const seeds = ['metadata', knownKey(METADATA_PROGRAM), knownKey(mint), 'token_record', knownKey(tokenAccount)];
  return programAddressText(seeds, METADATA_PROGRAM);
}
