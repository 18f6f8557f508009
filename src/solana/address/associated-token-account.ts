import { encode32 } from '../../lib/base58.ts';
import { ASSOCIATED_TOKEN_PROGRAM, TOKEN_PROGRAM } from './known-programs.ts';
import { knownKey, programAddress } from './program-address.ts';

/** The address of the token account that wallets make for a mint unless told otherwise. All in base58; throws TypeError for what is no key. */
export function associatedTokenAccount(owner: string, mint: string, tokenProgram: string = TOKEN_PROGRAM): string {
  const seeds = [knownKey(owner), knownKey(tokenProgram), knownKey(mint)];
  return encode32(programAddress(seeds, knownKey(ASSOCIATED_TOKEN_PROGRAM)));
}
