import { deserialize, serialize } from 'node:v8';
import type { StoreTx } from '../../../src/kernel/plugin.ts';
import type { SqlValue } from '../../../src/ports/store.ts';
import { doubtNote, READING, writeNote } from '../store/notes.ts';
import { keyText, writeChanges } from '../store/row-book.ts';
import { ACCOUNTS, UNDONE } from '../store/table-shapes.ts';
import { type AccountRow, type Db, SPENT } from '../store/tables.ts';
import { type PageUndo, restorePages } from '../trees/page-book.ts';
import { REBUILD_NOTE } from '../trees/rebuild-note.ts';
import type { BlockBooks } from './block-books.ts';
import type { DecodedBlock } from './decoded-block.ts';

/** How to take a block back, and how to apply it again. */
export interface Undo {
  readonly slot: number;
  /** Place of the table in `UNDONE`, key, and the row before; null: there was none. */
  readonly rows: readonly (readonly [table: number, key: readonly SqlValue[], before: object | null])[];
  readonly pages: readonly PageUndo[];
  /** Without `others`, which are in their row. */
  readonly redo: DecodedBlock;
}

/** Tables whose rows belong to one slot alone: no other block depends on them. */
const OWN_ROWS = new Set<string>([
  ...['compression_transactions', 'compression_subjects', 'compression_recent', 'compression_blocks'],
  'compression_head',
]);

export async function writeUndo(tx: StoreTx, block: DecodedBlock, books: BlockBooks): Promise<void> {
  const rows = books.all.flatMap((book, table) =>
    book.changes().map(({ key, before }) => [table, key, before] as const),
  );
  const undo: Undo = { slot: block.slot, rows, pages: books.pages.undo(), redo: { ...block, others: [] } };
  await tx.insertMany('compression_undo', ['slot', 'body'], [[block.slot, serialize(undo)]]);
}

/** Slots from this one on that can be taken back, ascending. */
export async function undoSlots(tx: StoreTx, fromSlot: number): Promise<number[]> {
  const rows = await (tx.db as Db)
    .selectFrom('compression_undo')
    .select('slot')
    .where('slot', '>=', fromSlot)
    .orderBy('slot')
    .execute();
  return rows.map(({ slot }) => slot);
}

export async function readUndo(tx: StoreTx, slot: number): Promise<Undo | null> {
  const row = await (tx.db as Db)
    .selectFrom('compression_undo')
    .select('body')
    .where('slot', '=', slot)
    .executeTakeFirst();
  return row === undefined ? null : (deserialize(row.body) as Undo);
}

/** Puts back every row and every node that the block changed. Blocks are taken back newest first. */
export async function takeBack(tx: StoreTx, undo: Undo): Promise<void> {
  for (const [table, shape] of UNDONE.entries()) {
    const changes = undo.rows.flatMap(([place, key, before]) =>
      place === table ? [{ key, before: {} as never, now: before as never }] : [],
    );
    if (changes.length > 0) await writeChanges(tx, shape, changes);
    if (shape.name === ACCOUNTS.name) await doubtAgain(tx, changes);
  }
  const damaged = new Set(await restorePages(tx, undo.pages));
  const db = tx.db as Db;
  const rebuilt = await db
    .selectFrom('compression_notes')
    .select('name')
    // The order of signs depends on the database.
    .where('name', 'like', `${REBUILD_NOTE}%`)
    .execute();
  for (const { name } of rebuilt) damaged.add(Number(name.slice(REBUILD_NOTE.length)));
  if (rebuilt.length > 0)
    await db
      .deleteFrom('compression_notes')
      .where(
        'name',
        'in',
        rebuilt.map(({ name }) => name),
      )
      .execute();
  if (damaged.size > 0)
    await db
      .updateTable('compression_trees')
      .set({ status: 'diverged', reason: 'page' })
      .where('id', 'in', [...damaged])
      .execute();
  await db.deleteFrom('compression_undo').where('slot', '=', undo.slot).execute();
}

/** Spends that are in doubt again may have been settled meanwhile. */
async function doubtAgain(tx: StoreTx, changes: readonly { readonly now: unknown }[]): Promise<void> {
  const rows = changes.map(({ now }) => now as AccountRow | null);
  const trees = new Set(rows.flatMap((row) => (row?.spent === SPENT.doubted ? [row.tree] : [])));
  for (const tree of trees) await writeNote(tx, doubtNote(tree), READING);
}

/** Whether a block up to this slot is still kept with its undo row. Errors: those of the store. */
export async function canBeTakenBack(db: Db, toSlot: number): Promise<boolean> {
  const query = db.selectFrom('compression_undo').select('slot').where('slot', '<=', toSlot).limit(1);
  return (await query.executeTakeFirst()) !== undefined;
}

/** Whether a block that is read and changed in `books` has to do with what this later one did. */
export function meets(books: BlockBooks, { rows, pages }: Undo): boolean {
  const known = books.all.map((book) => new Set(book.keys()));
  const ids = new Set(books.pages.ids());
  return (
    rows.some(
      ([table, key]) =>
        !OWN_ROWS.has((UNDONE[table] as (typeof UNDONE)[number]).name) && known[table]?.has(keyText(key)) === true,
    ) || pages.some(({ id }) => ids.has(id))
  );
}
