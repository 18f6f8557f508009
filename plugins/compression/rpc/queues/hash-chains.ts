import { setImmediate as letOthersGo } from 'node:timers/promises';
import { HASH_BYTES } from '../../../../src/solana/merkle/path.ts';
import type { Poseidon } from '../../../../src/solana/merkle/poseidon.ts';

/** Hashes after which others get their turn: some milliseconds of work. */
const HASHES_PER_TURN = 512;

/**
 * One hash over each whole batch of values: the first value, then always the hash of what there is and the next value. All batches are
 * folded side by side. Values are 32 bytes, and below the prime.
 */
export async function hashChains(
  poseidon: () => Pick<Poseidon, 'hashPairs'>,
  values: readonly Uint8Array[],
  batchSize: number,
): Promise<readonly Uint8Array[]> {
  const count = Math.floor(values.length / batchSize);
  if (count === 0) return [];
  const pairs = new Uint8Array(count * 2 * HASH_BYTES);
  const sums = new Uint8Array(count * HASH_BYTES);
  const valueAt = (chain: number, step: number) => values[chain * batchSize + step] as Uint8Array;
  for (let chain = 0; chain < count; chain += 1) sums.set(valueAt(chain, 0), chain * HASH_BYTES);
  for (let step = 1, since = 0; step < batchSize; step += 1) {
    for (let chain = 0; chain < count; chain += 1) {
      pairs.set(sums.subarray(chain * HASH_BYTES, (chain + 1) * HASH_BYTES), 2 * chain * HASH_BYTES);
      pairs.set(valueAt(chain, step), (2 * chain + 1) * HASH_BYTES);
    }
    poseidon().hashPairs(pairs, 0, sums, 0, count);
    since += count;
    if (since < HASHES_PER_TURN) continue;
    since = 0;
    // The hasher keeps nothing between two calls.
    await letOthersGo();
  }
  return Array.from({ length: count }, (_, chain) => sums.subarray(chain * HASH_BYTES, (chain + 1) * HASH_BYTES));
}
