import type { Log } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import type { BlockBooks } from '../indexing/block-books.ts';
import type { Hashing } from './hashing.ts';

/** What the changes of trees in one block work with. */
export interface TreeContext {
  readonly books: BlockBooks;
  readonly hashing: Hashing;
  readonly log: Log;
  /** Whether sequence numbers of V1 trees have to follow each other. */
  readonly isStrict: boolean;
}

/** Proofs of the tree are refused from now on; what comes for it waits. */
export function diverge(
  { books, log }: TreeContext,
  id: number,
  reason: string,
  roots: { readonly expected: Uint8Array | null; readonly computed: Uint8Array | null } = {
    expected: null,
    computed: null,
  },
): void {
  const tree = books.trees.byId(id);
  if (tree.status === 'diverged') return;
  books.trees.change(id, {
    ...{ status: 'diverged', reason },
    ...{ expected_root: roots.expected, computed_root: roots.computed },
  });
  log.error(
    {
      ...{ tree: encode32(tree.key), seq: tree.seq, reason },
      expectedRoot: roots.expected === null ? null : encode32(roots.expected),
      computedRoot: roots.computed === null ? null : encode32(roots.computed),
    },
    'a tree can no longer be trusted',
  );
}
