import { pathPages } from '../../../src/solana/merkle/path.ts';
import { type ByBytes, byBytes } from '../rpc/records/by-bytes.ts';
import type { TreeRow } from '../store/tables.ts';
import { freshTree } from '../trees/fresh-tree.ts';
import { emptyRoot, type Hashing } from '../trees/hashing.ts';
import type { IndexedValue } from '../trees/leaf-hash.ts';
import type { NewTree } from '../trees/tree-source.ts';
import type { PathPages } from './path-reader.ts';

/** A tree that everybody knows and no block has named yet: what is in it is what is in every such tree at its start. */
export interface UnseenTree {
  readonly tree: TreeRow;
  readonly values: readonly IndexedValue[];
  path(leafIndex: number): PathPages;
}

export interface UnseenTrees {
  /** Null for a key that is none of the known trees. */
  find(key: Uint8Array): UnseenTree | null;
}

/** No row has it. */
const NO_ID = -1;

export function createUnseenTrees(known: readonly NewTree[], hashing: Hashing): UnseenTrees {
  const trees: ByBytes<NewTree> = byBytes(known, ({ key }) => key);
  const made = new Map<NewTree, UnseenTree>();
  return {
    find(key) {
      const tree = trees.get(key);
      if (tree === undefined) return null;
      const unseen = made.get(tree) ?? grow(tree, hashing);
      made.set(tree, unseen);
      return unseen;
    },
  };
}

function grow({ key, type, queue, height, rootCapacity, nextTree }: NewTree, hashing: Hashing): UnseenTree {
  const { seq, nextIndex, values, leaves } = freshTree(hashing, type);
  const [updated] = hashing.update([{ height, page: () => null, leaves }]);
  return {
    tree: {
      ...{ id: NO_ID, key, type, queue, height, root_capacity: rootCapacity, next_tree: nextTree },
      ...{ seq, root: updated?.root ?? emptyRoot(hashing, height), next_index: nextIndex },
      ...{ status: 'unverified', reason: null, expected_root: null, computed_root: null },
      ...{ verified_seq: null, verified_slot: null },
    },
    values,
    path: (leafIndex) => pathPages(height, leafIndex).map((page) => updated?.pages.get(page) ?? null),
  };
}
