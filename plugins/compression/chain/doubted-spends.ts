import type { Log, Store, StoreTx } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { createBalances } from '../indexing/balances.ts';
import type { BlockBooks } from '../indexing/block-books.ts';
import type { Indexer } from '../indexing/indexer.ts';
import { DOUBT, doubtNote, READ, READING, writeNote } from '../store/notes.ts';
import { type AccountRow, type Db, SPENT, type TreeRow } from '../store/tables.ts';

/** Ended in one transaction: all but a few were told again. */
const ROWS_AT_ONCE = 500;

/**
 * Spends of a tree from a slot on that only the rows tell of, and not the tree, are in doubt until they are told again. They lose their
 * place in the queue. Comes in the transaction that has the tree read again from that slot.
 */
export async function doubtSpends(tx: StoreTx, { id }: Pick<TreeRow, 'id'>, fromSlot: number): Promise<void> {
  await (tx.db as Db)
    .updateTable('compression_accounts')
    .set({ spent: SPENT.doubted, nullifier: null, nullifier_index: null, tx_hash: null })
    .where('tree', '=', id)
    .where('spent', '=', SPENT.yes)
    .where('nullified', '=', 0)
    .where('slot_spent', '>=', fromSlot)
    .execute();
  await writeNote(tx, doubtNote(id), READING);
}

/** Notes of which trees everything was read again and found right. Errors: those of the store. */
export async function settleDoubts(
  store: Store,
  trees: readonly TreeRow[],
  isBeingRead: (tree: TreeRow) => Promise<boolean>,
): Promise<void> {
  const names = new Set(await notesThatSay(store.read as Db, READING));
  for (const tree of trees) {
    const name = doubtNote(tree.id);
    if (!names.has(name) || tree.status !== 'ok' || (await isBeingRead(tree))) continue;
    await store.write((tx) => writeNote(tx, name, READ));
  }
}

async function notesThatSay(db: Db, value: string): Promise<string[]> {
  const rows = await db
    .selectFrom('compression_notes')
    .select('name')
    .where('name', 'like', `${DOUBT}%`)
    .where('value', '=', value)
    .execute();
  return rows.map(({ name }) => name);
}

/** Spends that were not told again are taken back. Errors: those of the store. */
export async function endDoubts(tx: StoreTx, indexer: Pick<Indexer, 'amend'>, log: Log): Promise<void> {
  const db = tx.db as Db;
  for (const name of await notesThatSay(db, READ)) {
    let rows: readonly AccountRow[] = [];
    await indexer.amend(tx, async (books) => {
      rows = await doubted(db, Number(name.slice(DOUBT.length)));
      await takeBackSpends(books, rows);
    });
    for (const { hash, tree, spent_by, nullified } of rows)
      if (nullified === 0)
        log.error(
          { hash: encode32(hash), tree, signature: spent_by === null ? null : Buffer.from(spent_by).toString('hex') },
          'a compressed account was never spent, and is there again',
        );
    if (rows.length < ROWS_AT_ONCE) await db.deleteFrom('compression_notes').where('name', '=', name).execute();
  }
}

async function doubted(db: Db, tree: number): Promise<AccountRow[]> {
  return await db
    .selectFrom('compression_accounts')
    .selectAll()
    .where('tree', '=', tree)
    .where('spent', '=', SPENT.doubted)
    .limit(ROWS_AT_ONCE)
    .execute();
}

async function takeBackSpends(books: BlockBooks, rows: readonly AccountRow[]): Promise<void> {
  const balances = createBalances(books);
  books.accounts.adopt(rows);
  await books.tokenAccounts.load(rows.map(({ hash }) => [hash]));
  for (const row of rows) {
    // Its leaf was replaced: that is a witness of the spend.
    if (row.nullified === 1) {
      books.accounts.put({ ...row, spent: SPENT.yes });
      continue;
    }
    const token = books.tokenAccounts.get(row.hash);
    books.accounts.put({ ...row, spent: SPENT.no, slot_spent: null, spent_by: null });
    if (token !== null) books.tokenAccounts.put({ ...token, spent: SPENT.no });
    balances.move(row, token, 1);
  }
  await balances.settle();
}
