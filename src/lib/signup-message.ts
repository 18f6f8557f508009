import { createHash } from 'node:crypto';

export interface SignupClaim {
  /** Transaction that paid, base58. */
  readonly payment: string;
  /** The key to install. */
  readonly key: string;
}

export const sha256Hex = (text: string): string => createHash('sha256').update(text).digest('hex');

/** The message that a wallet signs to claim its payment; valid only for this payment and key. It cannot be the start of a transaction. */
export function signupMessage({ payment, key }: SignupClaim): Uint8Array {
  return Buffer.from(`parhelion sign-up\npayment: ${payment}\nkey sha-256: ${sha256Hex(key)}\n`);
}
