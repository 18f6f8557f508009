import type { StoreTx } from '../../../src/kernel/plugin.ts';
import { createRowBook } from '../store/row-book.ts';
import { INDEXED_LEAVES, TREES } from '../store/table-shapes.ts';
import type { Hashing } from './hashing.ts';
import { createPageBook } from './page-book.ts';
import { createTreeBook } from './tree-book.ts';
import type { NewTree } from './tree-source.ts';

/** Writes trees that are not there yet, as fresh ones. Several threads may do so at once. */
export async function seedTrees(tx: StoreTx, hashing: Hashing, known: readonly NewTree[]): Promise<void> {
  const [trees, leaves] = [createRowBook(tx, TREES), createRowBook(tx, INDEXED_LEAVES)];
  const pages = createPageBook(tx);
  const book = createTreeBook({ tx, hashing, trees, leaves, pages });
  await book.load(known.flatMap(({ key, queue }) => (queue === null ? [key] : [key, queue])));
  await book.insert(known);
  await trees.flush();
  await leaves.flush();
  await pages.flush();
}
