import { createKeyHash, hashKey, hashView } from '../../../src/solana/key-hash.ts';
import type { Db } from './tables.ts';

/**
 * Addresses as numbers of 48 bits, so that a row of the history is a few bytes and nothing is looked up to write it. They are hashes
 * with a seed of this store: seldom two addresses share one, and nobody can arrange that. Whoever reads rows compares them with their
 * transactions (`loadRows`).
 */
export interface KeyNumbers {
  /** Of 32 bytes. */
  of(key: Uint8Array): number;
  /** Of the key whose eight words begin at `words[at]`. */
  at(words: Uint32Array, at: number): number;
}

const SEED_WORDS = 8;
const LOW_BITS = 65_536;

export async function readKeyNumbers(db: Db): Promise<KeyNumbers> {
  const { seed } = await db.selectFrom('wallet_state').select('seed').where('id', '=', 1).executeTakeFirstOrThrow();
  const view = new DataView(seed.buffer, seed.byteOffset, seed.byteLength);
  const words = Uint32Array.from({ length: SEED_WORDS }, (_, at) => view.getUint32(at * 4, true));
  const high = createKeyHash(words.subarray(0, 4), true);
  const low = createKeyHash(words.subarray(4), true);
  const join = (upper: number, lower: number) => (upper >>> 0) * LOW_BITS + (lower & (LOW_BITS - 1));
  return {
    of(key) {
      const bytes = new DataView(key.buffer, key.byteOffset, key.byteLength);
      return join(hashView(high, bytes, 0), hashView(low, bytes, 0));
    },
    at: (keys, at) => join(hashKey(high, keys, at), hashKey(low, keys, at)),
  };
}
