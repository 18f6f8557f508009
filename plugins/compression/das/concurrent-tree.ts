import { createKeccakPairs } from '../../../src/solana/concurrent/keccak-pairs.ts';
import { type LeafChange, type UpdatedTree, updateTrees } from '../../../src/solana/merkle/update-trees.ts';
import { HASH_BYTES, zeroHashes } from '../../../src/solana/merkle/zero-hashes.ts';

/** Type of concurrent trees in the table of trees, behind the types of the Light programs. */
export const CONCURRENT_TREE = 5;
const MOST_LEVELS = 30;

/** How such trees hash. */
export interface ConcurrentHashing {
  /** Hashes of empty subtrees up to the highest tree, one after the other. */
  readonly zeros: Uint8Array;
  emptyRoot(height: number): Uint8Array;
  /** Sets leaves in order. Of the page reader see `updateTrees`. */
  update(height: number, leaves: readonly LeafChange[], page: (key: number) => Uint8Array | null): UpdatedTree;
}

export function createConcurrentHashing(): ConcurrentHashing {
  const keccak = createKeccakPairs();
  let zeros: Uint8Array | null = null;
  const use = () => {
    zeros ??= zeroHashes(keccak, MOST_LEVELS);
    return zeros;
  };
  return {
    get zeros() {
      return use();
    },
    emptyRoot: (height) => use().slice(height * HASH_BYTES, (height + 1) * HASH_BYTES),
    update(height, leaves, page) {
      const [updated] = updateTrees(keccak, use(), [{ height, page, leaves }]).trees;
      if (updated === undefined) throw new Error('a tree was updated and did not come back');
      return updated;
    },
  };
}
