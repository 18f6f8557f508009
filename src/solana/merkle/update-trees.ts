import { emptyPage, HASH_BYTES, offsetOf, pageAddressOf, pageKey } from './path.ts';
import type { Poseidon } from './poseidon.ts';

export interface LeafChange {
  readonly index: number;
  /** 32 bytes. */
  readonly hash: Uint8Array;
}

/** One tree and its changes. */
export interface TreeChange {
  readonly height: number;
  /** The stored page with this key, or null when all its subtrees are empty. It is not changed. */
  readonly page: (key: number) => Uint8Array | null;
  /** The last of several changes of one index applies. */
  readonly leaves: readonly LeafChange[];
}

export interface UpdatedTree {
  readonly root: Uint8Array;
  /** New contents of the pages that changed. */
  readonly pages: ReadonlyMap<number, Uint8Array>;
  /** Previous values of the changed nodes, for a revert. */
  readonly before: readonly { readonly page: number; readonly offset: number; readonly hash: Uint8Array }[];
}

export interface UpdateResult {
  /** In the order of the changes. */
  readonly trees: readonly UpdatedTree[];
  /** Number of computed hashes: the number of distinct ancestors of the changed leaves. */
  readonly hashCount: number;
}

/**
 * Sets leaves and hashes each of their ancestors once, level by level, the same level of all trees in one call, so that a kernel that
 * hashes two pairs at a time is always full. Leaves must be within their tree. Errors: RangeError.
 */
export function updateTrees(
  poseidon: Pick<Poseidon, 'hashPairs'>,
  zeros: Uint8Array,
  changes: readonly TreeChange[],
): UpdateResult {
  const trees = changes.map((change) => openTree(change, zeros));
  const highest = Math.max(0, ...changes.map(({ height }) => height));
  let hashCount = 0;
  for (let level = 0; level < highest; level += 1) {
    const rising = trees.filter(({ height, dirty }) => level < height && dirty.length > 0);
    for (const tree of rising) tree.dirty = parentsOf(tree.dirty);
    const count = rising.reduce((sum, { dirty }) => sum + dirty.length, 0);
    if (count === 0) continue;
    const pairs = new Uint8Array(count * 2 * HASH_BYTES);
    let at = 0;
    for (const tree of rising) {
      for (const parent of tree.dirty) {
        // Siblings are adjacent in their page.
        pairs.set(tree.nodes(level, 2 * parent, 2), at);
        at += 2 * HASH_BYTES;
      }
    }
    poseidon.hashPairs(pairs, 0, pairs, 0, count);
    hashCount += count;
    at = 0;
    for (const tree of rising) {
      for (const parent of tree.dirty) {
        tree.set(level + 1, parent, pairs.subarray(at, at + HASH_BYTES));
        at += HASH_BYTES;
      }
    }
  }
  return { trees: trees.map((tree) => tree.finish()), hashCount };
}

interface OpenTree {
  readonly height: number;
  /** Ascending indexes of the changed nodes of the current level. */
  dirty: readonly number[];
  nodes(level: number, index: number, count: number): Uint8Array;
  set(level: number, index: number, hash: Uint8Array): void;
  finish(): UpdatedTree;
}

function openTree({ height, page, leaves }: TreeChange, zeros: Uint8Array): OpenTree {
  const pages = new Map<number, Uint8Array>();
  const before: UpdatedTree['before'][number][] = [];
  let root: Uint8Array = zeros.slice(height * HASH_BYTES, (height + 1) * HASH_BYTES);

  const pageFor = (level: number, index: number): { readonly key: number; readonly bytes: Uint8Array } => {
    const address = pageAddressOf(level, index);
    const key = pageKey(address);
    let bytes = pages.get(key);
    if (bytes === undefined) {
      const stored = page(key);
      // Not `slice`: that of a Buffer is a view.
      bytes = stored === null ? emptyPage(address.group, zeros) : new Uint8Array(stored);
      pages.set(key, bytes);
    }
    return { key, bytes };
  };
  const tree: OpenTree = {
    height,
    dirty: [],
    nodes(level, index, count) {
      const offset = offsetOf(level, index);
      return pageFor(level, index).bytes.subarray(offset, offset + count * HASH_BYTES);
    },
    set(level, index, hash) {
      if (level === height) {
        root = hash.slice();
        return;
      }
      const { key, bytes } = pageFor(level, index);
      const offset = offsetOf(level, index);
      before.push({ page: key, offset, hash: bytes.slice(offset, offset + HASH_BYTES) });
      bytes.set(hash, offset);
    },
    finish: () => ({ root, pages, before }),
  };
  const last = new Map(leaves.map(({ index, hash }) => [index, hash]));
  for (const [index, hash] of last) {
    if (!Number.isSafeInteger(index) || index < 0 || index >= 2 ** height)
      throw new RangeError(`there is no leaf ${index} in a tree of height ${height}`);
    tree.set(0, index, hash);
  }
  tree.dirty = [...last.keys()].sort((a, b) => a - b);
  return tree;
}

/** Distinct parents of ascending indexes. */
function parentsOf(indexes: readonly number[]): number[] {
  const parents: number[] = [];
  for (const index of indexes) {
    const parent = Math.floor(index / 2);
    if (parents.at(-1) !== parent) parents.push(parent);
  }
  return parents;
}
