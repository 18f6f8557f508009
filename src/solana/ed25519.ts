import { createPrivateKey, createPublicKey, verify } from 'node:crypto';

/** DER prefix of the seed of an ed25519 key. */
const SEED_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');

/** The address of a seed of 32 bytes. */
export function publicKeyOf(seed: Uint8Array): Buffer {
  const key = createPrivateKey({ key: Buffer.concat([SEED_PREFIX, seed]), format: 'der', type: 'pkcs8' });
  return Buffer.from(createPublicKey(key).export({ format: 'jwk' }).x as string, 'base64url');
}

/** What a file of solana-keygen contains: the seed and its address, as a list of 64 numbers. */
export const keypairText = (seed: Uint8Array): string => JSON.stringify([...seed, ...publicKeyOf(seed)]);

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
