import type { Log, StoreTx } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { createBalances } from '../indexing/balances.ts';
import { openBooks } from '../indexing/block-books.ts';
import type { DecodedBlock } from '../indexing/decoded-block.ts';
import { KEYS_PER_STATEMENT } from '../store/by-keys.ts';
import { keyText } from '../store/row-book.ts';
import type { AccountRow, Db } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { HISTORY } from '../trees/history.ts';

/**
 * A tree is read anew because its rows were found wrong: accounts that had been told for a leaf which now gets another one never
 * existed. They go, with what they gave to balances. Comes before the block is applied. Errors: those of the store.
 */
export async function dropContradicted(tx: StoreTx, hashing: Hashing, block: DecodedBlock, log: Log): Promise<void> {
  const outputs = block.transactions.flatMap(({ events }) =>
    events.flatMap((event) => (event.kind === 'transaction' ? event.outputs : [])),
  );
  if (outputs.length === 0) return;
  const trees = await (tx.db as Db)
    .selectFrom('compression_trees')
    .select(['id', 'key', 'queue'])
    .where('status', '=', 'gap')
    .where('reason', '=', HISTORY)
    .execute();
  const wrong: AccountRow[] = [];
  for (const { id, key, queue } of trees) {
    const names = new Set([key, ...(queue === null ? [] : [queue])].map((name) => keyText([name])));
    const own = outputs.filter(({ tree, treeOrQueue }) => names.has(keyText([tree ?? treeOrQueue])));
    wrong.push(...(await contradicted(tx.db as Db, id, new Map(own.map(({ leafIndex, hash }) => [leafIndex, hash])))));
  }
  if (wrong.length > 0) await drop(tx, hashing, wrong);
  for (const { hash, tree, leaf_index } of wrong)
    log.error(
      { hash: encode32(hash), tree, leafIndex: leaf_index },
      'a compressed account never existed, and is removed',
    );
}

async function contradicted(db: Db, tree: number, told: ReadonlyMap<number, Uint8Array>): Promise<AccountRow[]> {
  const found: AccountRow[] = [];
  const indexes = [...told.keys()];
  for (let at = 0; at < indexes.length; at += KEYS_PER_STATEMENT) {
    const rows = await db
      .selectFrom('compression_accounts')
      .selectAll()
      .where('tree', '=', tree)
      .where('leaf_index', 'in', indexes.slice(at, at + KEYS_PER_STATEMENT))
      .execute();
    for (const row of rows) {
      const hash = told.get(row.leaf_index);
      if (hash !== undefined && Buffer.compare(hash, row.hash) !== 0) found.push(row);
    }
  }
  return found;
}

async function drop(tx: StoreTx, hashing: Hashing, rows: readonly AccountRow[]): Promise<void> {
  const books = openBooks(tx, hashing);
  const balances = createBalances(books);
  books.accounts.adopt(rows);
  await books.tokenAccounts.load(rows.map(({ hash }) => [hash]));
  for (const row of rows) {
    const token = books.tokenAccounts.get(row.hash);
    if (row.spent === 0) balances.move(row, token, -1);
    books.accounts.remove(row.hash);
    if (token !== null) books.tokenAccounts.remove(row.hash);
  }
  await balances.settle();
  await books.flush();
}
