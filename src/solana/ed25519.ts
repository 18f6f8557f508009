import { createPublicKey, verify } from 'node:crypto';

/** DER prefix of an ed25519 key. */
const DER_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');

/** Whether the key of an account has signed the message. 32 bytes that are not a valid key have signed nothing. */
export function hasSigned(account: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  try {
    const key = createPublicKey({ key: Buffer.concat([DER_PREFIX, account]), format: 'der', type: 'spki' });
    return verify(null, message, key, signature);
  } catch {
    return false;
  }
}
