import { keccak_256 } from '@noble/hashes/sha3.js';
import type { Poseidon } from '../merkle/poseidon/index.ts';
import { HASH_BYTES } from '../merkle/zero-hashes.ts';

/** The hash of concurrent trees in the form that tree code takes: keccak-256 of two children, any bytes are fine. */
export function createKeccakPairs(): Pick<Poseidon, 'hashPairs'> {
  return {
    hashPairs(src, srcAt, dst, dstAt, count) {
      for (let pair = 0; pair < count; pair += 1) {
        const from = srcAt + pair * 2 * HASH_BYTES;
        dst.set(keccak_256(src.subarray(from, from + 2 * HASH_BYTES)), dstAt + pair * HASH_BYTES);
      }
    },
  };
}
