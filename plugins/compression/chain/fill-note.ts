import type { Store, StoreTx } from '../../../src/kernel/plugin.ts';
import type { GapBook } from '../../../src/ports/gaps.ts';
import { readNote, writeNote } from '../store/notes.ts';
import type { Db, TreeRow } from '../store/tables.ts';

const noteOf = ({ id }: Pick<TreeRow, 'id'>): string => `fill:${id}`;

/** Remembers the gap that was asked for, for the sake of a tree. */
export async function noteFill(tx: StoreTx, tree: Pick<TreeRow, 'id'>, gap: number): Promise<void> {
  await writeNote(tx, noteOf(tree), String(gap));
}

/** Whether what was asked for is still being read. Errors: those of the store. */
export async function isBeingRead(
  {
    store,
    gaps,
    processor,
  }: { readonly store: Store; readonly gaps: GapBook; readonly processor: { readonly name: string } },
  tree: Pick<TreeRow, 'id'>,
): Promise<boolean> {
  const gap = await readNote(store.read as Db, noteOf(tree));
  if (gap === null) return false;
  const open = await gaps.list({ chain: 'main', processor: processor.name, isOpen: true, limit: 1_000 });
  return open.some(({ id }) => id === Number(gap));
}
