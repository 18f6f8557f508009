import { keccak_256 } from '@noble/hashes/sha3.js';

const END = Uint8Array.of(0xff);

/** keccak-256 of the parts and a closing byte, as a number below the prime: its first byte is zero. */
export function hashToField(...parts: readonly Uint8Array[]): Uint8Array {
  const hash = keccak_256.create();
  for (const part of parts) hash.update(part);
  const digest = hash.update(END).digest();
  digest[0] = 0;
  return digest;
}
