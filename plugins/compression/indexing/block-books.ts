import { deserialize, serialize } from 'node:v8';
import { encode32 } from '../../../src/lib/base58.ts';
import type { Log, StoreTx } from '../../../src/plugin/plugin.ts';
import type { SqlValue } from '../../../src/ports/store.ts';
import * as shapes from '../store/row-book.ts';
import { ACCOUNTS, createRowBook, type RowBook, rowKeyText, UNDONE, writeChanges } from '../store/row-book.ts';
import {
  type CompressedAccountRow,
  type CompressionDb,
  type CompressionTables,
  READING,
  SPENT,
  verifyNote,
  writeNote,
} from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { createPageBook, type PageBook, type PageUndo, restorePages } from '../trees/page-book.ts';
import { REBUILD_NOTE } from '../trees/rebuild.ts';
import { createTreeBook, type TreeBook } from '../trees/tree-book.ts';
import type { DecodedBlock } from './decode-block.ts';

type RowsOf<Name extends keyof CompressionTables> = RowBook<CompressionTables[Name]>;

/** All rows that one block reads and changes, in memory until `flush`. */
export interface BlockBooks {
  readonly tx: StoreTx;
  readonly trees: TreeBook;
  readonly pages: PageBook;
  readonly treeRows: RowsOf<'compression_trees'>;
  readonly foreign: RowsOf<'compression_foreign'>;
  readonly accounts: RowsOf<'compression_accounts'>;
  readonly tokenAccounts: RowsOf<'compression_token_accounts'>;
  readonly balances: RowsOf<'compression_balances'>;
  readonly tokenBalances: RowsOf<'compression_token_balances'>;
  readonly earlySpends: RowsOf<'compression_early_spends'>;
  readonly leaves: RowsOf<'compression_indexed_leaves'>;
  readonly addressQueue: RowsOf<'compression_address_queue'>;
  readonly pending: RowsOf<'compression_pending'>;
  readonly roots: RowsOf<'compression_roots'>;
  readonly transactions: RowsOf<'compression_transactions'>;
  readonly subjects: RowsOf<'compression_subjects'>;
  readonly recent: RowsOf<'compression_recent'>;
  readonly blocks: RowsOf<'compression_blocks'>;
  readonly head: RowsOf<'compression_head'>;
  readonly assets: RowsOf<'compression_assets'>;
  readonly metadata: RowsOf<'compression_metadata'>;
  readonly changes: RowsOf<'compression_changes'>;
  /** Indexed like `UNDONE`. */
  readonly all: readonly RowBook<object>[];
  flush(): Promise<void>;
}

export function openBooks(tx: StoreTx, hashing: Hashing): BlockBooks {
  const pages = createPageBook(tx);
  const treeRows = createRowBook(tx, shapes.TREES);
  const leaves = createRowBook(tx, shapes.INDEXED_LEAVES);
  const rows = {
    treeRows,
    foreign: createRowBook(tx, shapes.FOREIGN),
    accounts: createRowBook(tx, shapes.ACCOUNTS),
    tokenAccounts: createRowBook(tx, shapes.TOKEN_ACCOUNT_ROWS),
    balances: createRowBook(tx, shapes.BALANCES),
    tokenBalances: createRowBook(tx, shapes.TOKEN_BALANCES),
    earlySpends: createRowBook(tx, shapes.EARLY_SPENDS),
    leaves,
    addressQueue: createRowBook(tx, shapes.ADDRESS_QUEUE),
    pending: createRowBook(tx, shapes.PENDING),
    roots: createRowBook(tx, shapes.ROOTS),
    transactions: createRowBook(tx, shapes.TRANSACTIONS),
    subjects: createRowBook(tx, shapes.SUBJECTS),
    recent: createRowBook(tx, shapes.RECENT),
    blocks: createRowBook(tx, shapes.BLOCKS),
    head: createRowBook(tx, shapes.HEAD),
    assets: createRowBook(tx, shapes.ASSETS),
    metadata: createRowBook(tx, shapes.METADATA),
    changes: createRowBook(tx, shapes.CHANGE_ROWS),
  };
  // In the order of UNDONE.
  const all = Object.values(rows) as unknown as RowBook<object>[];
  return {
    tx,
    pages,
    ...rows,
    all,
    trees: createTreeBook({ tx, hashing, trees: treeRows, leaves, pages }),
    async flush() {
      for (const book of all) await book.flush();
      await pages.flush();
    },
  };
}

/** Context for the tree changes of one block. */
export interface TreeContext {
  readonly books: BlockBooks;
  readonly hashing: Hashing;
  readonly log: Log;
  /** Whether sequence numbers of V1 trees must be consecutive. */
  readonly isStrict: boolean;
}

/** Marks a tree as diverged: its proofs are withheld and its updates stay pending. */
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
  books.trees.change(id, { status: 'diverged', reason, expected_root: roots.expected, computed_root: roots.computed });
  log.error(
    {
      tree: encode32(tree.key),
      seq: tree.seq,
      reason,
      expectedRoot: roots.expected === null ? null : encode32(roots.expected),
      computedRoot: roots.computed === null ? null : encode32(roots.computed),
    },
    'a Merkle tree has diverged',
  );
}

/** Data to revert a block and to apply it again. */
export interface Undo {
  readonly slot: number;
  /** Index of the table in `UNDONE`, key, and the row before; null: it did not exist. */
  readonly rows: readonly (readonly [table: number, key: readonly SqlValue[], before: object | null])[];
  readonly pages: readonly PageUndo[];
  /** Without `others`, which are in their row. */
  readonly redo: DecodedBlock;
}

/** Tables whose rows belong to one slot alone: no other block depends on them. */
const OWN_ROWS = new Set<string>([
  'compression_transactions',
  'compression_subjects',
  'compression_recent',
  'compression_blocks',
  'compression_head',
  'compression_changes',
]);

export async function writeUndo(tx: StoreTx, block: DecodedBlock, books: BlockBooks): Promise<void> {
  const rows = books.all.flatMap((book, table) =>
    book.changes().map(({ key, before }) => [table, key, before] as const),
  );
  const undo: Undo = { slot: block.slot, rows, pages: books.pages.undo(), redo: { ...block, others: [] } };
  await tx.insertMany('compression_undo', ['slot', 'body'], [[block.slot, serialize(undo)]]);
}

/** Revertible slots from this one on, ascending. */
export async function undoSlots(tx: StoreTx, fromSlot: number): Promise<number[]> {
  const rows = await (tx.db as CompressionDb)
    .selectFrom('compression_undo')
    .select('slot')
    .where('slot', '>=', fromSlot)
    .orderBy('slot')
    .execute();
  return rows.map(({ slot }) => slot);
}

export async function readUndo(tx: StoreTx, slot: number): Promise<Undo | null> {
  const row = await (tx.db as CompressionDb)
    .selectFrom('compression_undo')
    .select('body')
    .where('slot', '=', slot)
    .executeTakeFirst();
  return row === undefined ? null : (deserialize(row.body) as Undo);
}

/** Restores every row and node that the block changed. Blocks are reverted newest first. */
export async function revertBlock(tx: StoreTx, undo: Undo): Promise<void> {
  for (const [table, shape] of UNDONE.entries()) {
    const changes = undo.rows.flatMap(([place, key, before]) =>
      place === table ? [{ key, before: {} as never, now: before as never }] : [],
    );
    if (changes.length > 0) await writeChanges(tx, shape, changes);
    if (shape.name === ACCOUNTS.name) await noteUnverified(tx, changes);
  }
  const damaged = new Set(await restorePages(tx, undo.pages));
  const db = tx.db as CompressionDb;
  const rebuilt = await db
    .selectFrom('compression_notes')
    .select('name')
    // The order of punctuation depends on the database.
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

/** Spends that become unverified again may have been confirmed since. */
async function noteUnverified(tx: StoreTx, changes: readonly { readonly now: unknown }[]): Promise<void> {
  const rows = changes.map(({ now }) => now as CompressedAccountRow | null);
  const trees = new Set(rows.flatMap((row) => (row?.spent === SPENT.unverified ? [row.tree] : [])));
  for (const tree of trees) await writeNote(tx, verifyNote(tree), READING);
}

/** Whether a block up to this slot still has its undo row. Errors: those of the store. */
export async function canBeReverted(db: CompressionDb, toSlot: number): Promise<boolean> {
  const query = db.selectFrom('compression_undo').select('slot').where('slot', '<=', toSlot).limit(1);
  return (await query.executeTakeFirst()) !== undefined;
}

/** Whether the rows and pages in `books` overlap with those changed by a later block. */
export function overlaps(books: BlockBooks, { rows, pages }: Undo): boolean {
  const known = books.all.map((book) => new Set(book.keys()));
  const ids = new Set(books.pages.ids());
  return (
    rows.some(
      ([table, key]) =>
        !OWN_ROWS.has((UNDONE[table] as (typeof UNDONE)[number]).name) && known[table]?.has(rowKeyText(key)) === true,
    ) || pages.some(({ id }) => ids.has(id))
  );
}
