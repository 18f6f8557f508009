import type { Poseidon } from './poseidon/index.ts';

export const HASH_BYTES = 32;

/** Hashes of empty subtrees by height, from 0 to `height`, one after the other. */
export function zeroHashes(poseidon: Pick<Poseidon, 'hashPairs'>, height: number): Uint8Array {
  const zeros = new Uint8Array((height + 1) * HASH_BYTES);
  const pair = new Uint8Array(2 * HASH_BYTES);
  for (let level = 1; level <= height; level += 1) {
    const below = zeros.subarray((level - 1) * HASH_BYTES, level * HASH_BYTES);
    pair.set(below);
    pair.set(below, HASH_BYTES);
    poseidon.hashPairs(pair, 0, zeros, level * HASH_BYTES, 1);
  }
  return zeros;
}
