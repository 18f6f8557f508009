import { createHash } from 'node:crypto';

export interface SignupClaim {
  /** Transaction that paid, base58. */
  readonly payment: string;
  /** The key that is to be installed. */
  readonly key: string;
}

export const sha256Hex = (text: string): string => createHash('sha256').update(text).digest('hex');

/** What a wallet signs to claim its payment: good for this payment and this key alone. Lines that no transaction begins with. */
export function signupMessage({ payment, key }: SignupClaim): Uint8Array {
  return Buffer.from(`parhelion sign-up\npayment: ${payment}\nkey sha-256: ${sha256Hex(key)}\n`);
}
