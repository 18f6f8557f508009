import { equalBytes } from '../../../src/lib/bytes.ts';
import { eachSibling, GROUP_WIDTH, HASH_BYTES, nodeOffset } from '../../../src/solana/merkle/path.ts';
import type { Poseidon } from '../../../src/solana/merkle/poseidon.ts';
import type { TreeRow } from '../store/tables.ts';

/** The state of a tree that its paths depend on. */
export type PathTree = Pick<TreeRow, 'id' | 'key' | 'height' | 'seq' | 'root'>;

export interface LeafPlace {
  readonly tree: PathTree;
  readonly leafIndex: number;
}

/** Pages from a leaf to the root, bottom-up. */
export type PathPages = readonly PageNodes[];

/** Nodes of a page; null when the page is empty and not stored. */
export type PageNodes = Uint8Array | null;

/** Hashes a path from its leaf up and checks that it ends at the root of its tree. */
export function leadsToRoot(
  poseidon: Pick<Poseidon, 'hashPairs'>,
  zeros: Uint8Array,
  { tree, leafIndex }: LeafPlace,
  pages: PathPages,
): boolean {
  const pair = new Uint8Array(2 * HASH_BYTES);
  // A copy: `slice` of a Buffer would be a view of the page.
  const node = Uint8Array.from(leafOf(pages, leafIndex));
  let index = leafIndex;
  eachSibling(tree.height, leafIndex, pages, zeros, (bytes, offset) => {
    const isRight = index % 2 === 1;
    pair.set(node, isRight ? HASH_BYTES : 0);
    pair.set(bytes.subarray(offset, offset + HASH_BYTES), isRight ? 0 : HASH_BYTES);
    poseidon.hashPairs(pair, 0, node, 0, 1);
    index = Math.floor(index / 2);
  });
  return equalBytes(node, tree.root);
}

/** Whether the leaf of this path equals the hash, which is not zero. */
export function isLeaf([page]: PathPages, leafIndex: number, hash: Uint8Array): boolean {
  if (page == null) return false;
  const offset = nodeOffset(0, leafIndex % GROUP_WIDTH);
  return equalBytes(page.subarray(offset, offset + HASH_BYTES), hash);
}

/** The leaf of a path. */
export function leafOf([page]: PathPages, leafIndex: number): Uint8Array {
  const offset = nodeOffset(0, leafIndex % GROUP_WIDTH);
  return page == null ? new Uint8Array(HASH_BYTES) : page.subarray(offset, offset + HASH_BYTES);
}
