import { zeroHashes } from '../../../src/solana/merkle/path.ts';
import type { Poseidon } from '../../../src/solana/merkle/poseidon.ts';
import { type LeafChange, type UpdatedTree, updateTrees } from '../../../src/solana/merkle/update-trees.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';

const HEIGHT = 26;

/** A tree of height 26 whose pages lie in a Map. */
export interface GrowingTree {
  readonly size: number;
  readonly root: Uint8Array;
  /** Sets leaves and answers what changed. */
  set(leaves: readonly LeafChange[]): UpdatedTree & { readonly hashCount: number };
  /** Puts further leaves behind the last one; `hashes` holds 32 bytes for each. */
  append(hashes: Uint8Array): UpdatedTree & { readonly hashCount: number };
}

export function createGrowingTree(poseidon: Pick<Poseidon, 'hashPairs'>): GrowingTree {
  const zeros = zeroHashes(poseidon, HEIGHT);
  const pages = new Map<number, Uint8Array>();
  let root: Uint8Array = zeros.slice(HEIGHT * 32);
  let size = 0;
  const tree: GrowingTree = {
    get size() {
      return size;
    },
    get root() {
      return root;
    },
    set(leaves) {
      const { trees, hashCount } = updateTrees(poseidon, zeros, [
        { height: HEIGHT, page: (key) => pages.get(key) ?? null, leaves },
      ]);
      const updated = trees[0] as UpdatedTree;
      for (const [key, page] of updated.pages) pages.set(key, page);
      root = updated.root;
      return { ...updated, hashCount };
    },
    append(hashes) {
      const count = hashes.length / 32;
      const leaves = Array.from({ length: count }, (_, i) => ({
        index: size + i,
        hash: hashes.subarray(32 * i, 32 * i + 32),
      }));
      size += count;
      return tree.set(leaves);
    },
  };
  return tree;
}

/** The root of a tree with these leaves, made level by level in one array: an independent way to the same. */
export function plainRoot(poseidon: Pick<Poseidon, 'hashPairs'>, hashes: Uint8Array): Uint8Array {
  const zeros = zeroHashes(poseidon, HEIGHT);
  let nodes = hashes.slice();
  for (let level = 0; level < HEIGHT; level += 1) {
    const pairs = Math.ceil(nodes.length / 64);
    const row = new Uint8Array(pairs * 64);
    row.set(nodes);
    if (row.length > nodes.length) row.set(zeros.subarray(level * 32, level * 32 + 32), nodes.length);
    nodes = new Uint8Array(pairs * 32);
    poseidon.hashPairs(row, 0, nodes, 0, pairs);
  }
  return nodes;
}

/** Random leaves below the prime. */
export function randomLeaves(random: Sfc32, count: number): Uint8Array {
  const bytes = random.fill(new Uint8Array(32 * count));
  for (let at = 0; at < bytes.length; at += 32) bytes[at] = (bytes[at] as number) & 0x1f;
  return bytes;
}
