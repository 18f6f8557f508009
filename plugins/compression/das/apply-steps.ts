import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import { assetId } from '../../../src/solana/concurrent/asset-id.ts';
import type { UpdatedTree } from '../../../src/solana/merkle/update-trees.ts';
import type { RowBook } from '../store/row-book.ts';
import type { AssetRow, TreeRow } from '../store/tables.ts';
import type { PageBook } from '../trees/page-book.ts';
import type { TreeBook } from '../trees/tree-book.ts';
import type { ConcurrentHashing } from './concurrent-tree.ts';
import type { LeafStep } from './leaf-step.ts';

export interface StepBooks {
  readonly trees: TreeBook;
  readonly pages: PageBook;
  readonly assets: RowBook<AssetRow>;
}

/**
 * Applies steps that follow each other from where the tree stands, up to the first that leads to another root than it says: that makes
 * the tree diverged. Returns how many it took. Pages and assets of the steps must be loaded.
 */
export function applySteps(
  books: StepBooks,
  hashing: ConcurrentHashing,
  id: number,
  steps: readonly LeafStep[],
): number {
  const update = (part: readonly LeafStep[]): UpdatedTree => {
    const leaves = part.map(({ leafIndex, leaf }) => ({ index: leafIndex, hash: leaf }));
    return hashing.update(books.trees.byId(id).height, leaves, (page) => books.pages.page(id, page));
  };
  const last = steps.at(-1);
  if (last === undefined) return 0;
  // The last root witnesses all steps before it; only when it does not, the bad one is looked for.
  const all = update(steps);
  if (equalBytes(all.root, last.root)) {
    accept(books, id, steps, all);
    return steps.length;
  }
  for (const [at, step] of steps.entries()) {
    const one = update([step]);
    if (!equalBytes(one.root, step.root)) {
      books.trees.change(id, {
        ...{ status: 'diverged', reason: 'root' },
        ...{ expected_root: Uint8Array.from(step.root), computed_root: Uint8Array.from(one.root) },
      });
      return at;
    }
    accept(books, id, [step], one);
  }
  throw new Error('steps that all lead to their roots do not lead to the last one');
}

function accept(books: StepBooks, id: number, steps: readonly LeafStep[], updated: UpdatedTree): void {
  books.pages.accept(id, updated);
  const tree = books.trees.byId(id);
  const last = steps.at(-1) as LeafStep;
  books.trees.change(id, {
    ...{ seq: last.seq, root: Uint8Array.from(updated.root), verified_seq: last.seq, verified_slot: last.slot },
    next_index: steps.reduce((next, { leafIndex }) => Math.max(next, leafIndex + 1), tree.next_index),
  });
  for (const step of steps) keepAsset(books, tree, step);
}

/** A leaf may claim to be any asset; it is one only when Bubblegum derives the id from this tree. */
function keepAsset({ assets }: StepBooks, tree: TreeRow, { asset, leafIndex, leaf, seq }: LeafStep): void {
  if (asset === null) return;
  const known = assets.get(asset.id);
  // One that is known here was derived before, and no other tree can have its id.
  if (known?.tree !== tree.id && !equalBytes(assetId(tree.key, asset.nonce), asset.id)) return;
  const [id, copy] = [Uint8Array.from(asset.id), Uint8Array.from(leaf)];
  assets.put({ id, tree: tree.id, leaf_index: leafIndex, leaf: copy, seq });
}
