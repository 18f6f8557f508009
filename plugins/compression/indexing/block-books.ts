import type { StoreTx } from '../../../src/kernel/plugin.ts';
import { createRowBook, type RowBook } from '../store/row-book.ts';
import * as shapes from '../store/table-shapes.ts';
import type { Tables } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { createPageBook, type PageBook } from '../trees/page-book.ts';
import { createTreeBook, type TreeBook } from '../trees/tree-book.ts';

type Book<Name extends keyof Tables> = RowBook<Tables[Name]>;

/** All that one block reads and changes, in memory until `flush`. */
export interface BlockBooks {
  readonly tx: StoreTx;
  readonly trees: TreeBook;
  readonly pages: PageBook;
  readonly treeRows: Book<'compression_trees'>;
  readonly foreign: Book<'compression_foreign'>;
  readonly accounts: Book<'compression_accounts'>;
  readonly tokenAccounts: Book<'compression_token_accounts'>;
  readonly balances: Book<'compression_balances'>;
  readonly tokenBalances: Book<'compression_token_balances'>;
  readonly earlySpends: Book<'compression_early_spends'>;
  readonly leaves: Book<'compression_indexed_leaves'>;
  readonly addressQueue: Book<'compression_address_queue'>;
  readonly pending: Book<'compression_pending'>;
  readonly roots: Book<'compression_roots'>;
  readonly transactions: Book<'compression_transactions'>;
  readonly subjects: Book<'compression_subjects'>;
  readonly recent: Book<'compression_recent'>;
  readonly blocks: Book<'compression_blocks'>;
  readonly head: Book<'compression_head'>;
  readonly assets: Book<'compression_assets'>;
  /** By the places in `UNDONE`. */
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
    tokenAccounts: createRowBook(tx, shapes.TOKEN_ACCOUNTS),
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
  };
  // In the order in which the shapes stand in UNDONE.
  const all = Object.values(rows) as unknown as RowBook<object>[];
  return {
    ...{ tx, pages, ...rows, all },
    trees: createTreeBook({ tx, hashing, trees: treeRows, leaves, pages }),
    async flush() {
      for (const book of all) await book.flush();
      await pages.flush();
    },
  };
}
