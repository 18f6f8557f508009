import type { StoreTx } from '../../../src/kernel/plugin.ts';
import { openBooks } from '../indexing/block-books.ts';
import type { Hashing } from '../trees/hashing.ts';
import type { NewTree } from '../trees/tree-source.ts';

/** Adds trees that nothing has named yet, as they are when they are fresh. Errors: those of the store. */
export function insertTrees(hashing: Hashing): (tx: StoreTx, trees: readonly NewTree[]) => Promise<void> {
  return async (tx, trees) => {
    const books = openBooks(tx, hashing);
    await books.trees.load(trees.map(({ key }) => key));
    await books.trees.insert(trees);
    await books.flush();
  };
}
