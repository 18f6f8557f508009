import { createPublicKey, verify } from 'node:crypto';

/** Prefix of the 32 bytes of a public key in the DER form that node:crypto reads. */
const DER_HEAD = Buffer.from('302a300506032b6570032100', 'hex');

/** Whether the owner of a key signed a message. Never throws: false for a malformed key or signature. */
export function verifyEd25519(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (publicKey.length !== 32 || signature.length !== 64) return false;
  try {
    const key = createPublicKey({ key: Buffer.concat([DER_HEAD, publicKey]), format: 'der', type: 'spki' });
    return verify(null, message, key, signature);
  } catch {
    return false;
  }
}
