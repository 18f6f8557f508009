import type { Counter } from '../../../src/ports/metrics.ts';
import { createPoseidon, type Poseidon } from '../../../src/solana/merkle/poseidon/index.ts';
import { type TreeChange, type UpdatedTree, updateTrees } from '../../../src/solana/merkle/update-trees.ts';
import { zeroHashes } from '../../../src/solana/merkle/zero-hashes.ts';

/** The hasher of a thread and what follows from it. One instance per thread, and never two hashes at a time. */
export interface Hashing {
  readonly poseidon: Poseidon;
  /** Hashes of empty subtrees up to the highest tree, one after the other. */
  readonly zeros: Uint8Array;
  /** Changes leaves and hashes what is above them, each node once. */
  update(changes: readonly TreeChange[]): readonly UpdatedTree[];
}

/** Levels of the highest tree. */
const MAX_HEIGHT = 40;
const HASH_BYTES = 32;

/** `count` is told how many hashes trees cost. The hasher is made when it is first used. */
export function createHashing(count: Pick<Counter, 'add'>): Hashing {
  let made: { readonly poseidon: Poseidon; readonly zeros: Uint8Array } | null = null;
  const use = () => {
    if (made === null) {
      const poseidon = createPoseidon();
      made = { poseidon, zeros: zeroHashes(poseidon, MAX_HEIGHT) };
    }
    return made;
  };
  return {
    get poseidon() {
      return use().poseidon;
    },
    get zeros() {
      return use().zeros;
    },
    update(changes) {
      const { poseidon, zeros } = use();
      const { trees, hashCount } = updateTrees(poseidon, zeros, changes);
      count.add(hashCount);
      return trees;
    },
  };
}

/** Root of an empty tree. */
export const emptyRoot = ({ zeros }: Hashing, height: number): Uint8Array =>
  zeros.slice(height * HASH_BYTES, (height + 1) * HASH_BYTES);
