import { PublicKey } from '@solana/web3.js';

/** A well-known key from its text. */
export function keyOf(text: string): PublicKey {
  return new PublicKey(text);
}
