import type { Log, StoreTx } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import type { CreatedOutput } from '../../../src/solana/compression/events.ts';
import { createBalances } from '../indexing/balances.ts';
import { type BlockBooks, openBooks } from '../indexing/block-books.ts';
import type { DecodedBlock } from '../indexing/decoded-block.ts';
import type { ApplyOptions, Indexer } from '../indexing/indexer.ts';
import { KEYS_PER_STATEMENT } from '../store/by-keys.ts';
import { keyText } from '../store/row-book.ts';
import { type AccountRow, type Db, SPENT } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { HISTORY } from '../trees/history.ts';

export interface ContradictionParts {
  readonly indexer: Pick<Indexer, 'amend'>;
  readonly hashing: Hashing;
  readonly log: Log;
}

/**
 * A tree is read anew because its rows were found wrong: accounts that had been told for a leaf which now gets another one never
 * existed. They go, with what they gave to balances. Comes before the block is applied. Errors: those of the store.
 */
export async function dropContradicted(
  { indexer, hashing, log }: ContradictionParts,
  tx: StoreTx,
  block: DecodedBlock,
  { isFinal }: ApplyOptions,
): Promise<void> {
  const outputs = block.transactions.flatMap(({ events }) =>
    events.flatMap((event) => (event.kind === 'transaction' ? event.outputs : [])),
  );
  if (outputs.length === 0) return;
  let wrong = await contradictedBy(tx.db as Db, outputs);
  if (wrong.length === 0) return;
  if (isFinal)
    await indexer.amend(
      tx,
      async (books) => {
        wrong = await contradictedBy(tx.db as Db, outputs);
        await drop(books, wrong);
      },
      block.slot,
    );
  else {
    const books = openBooks(tx, hashing);
    await drop(books, wrong);
    await books.flush();
  }
  for (const { hash, tree, leaf_index } of wrong)
    log.error(
      { hash: encode32(hash), tree, leafIndex: leaf_index },
      'a compressed account never existed, and is removed',
    );
}

async function contradictedBy(db: Db, outputs: readonly CreatedOutput[]): Promise<AccountRow[]> {
  const trees = await db
    .selectFrom('compression_trees')
    .select(['id', 'key', 'queue'])
    .where('status', '=', 'gap')
    .where('reason', '=', HISTORY)
    .execute();
  const wrong: AccountRow[] = [];
  for (const { id, key, queue } of trees) {
    const names = new Set([key, ...(queue === null ? [] : [queue])].map((name) => keyText([name])));
    const own = outputs.filter(({ tree, treeOrQueue }) => names.has(keyText([tree ?? treeOrQueue])));
    wrong.push(...(await contradicted(db, id, new Map(own.map(({ leafIndex, hash }) => [leafIndex, hash])))));
  }
  return wrong;
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
      if (hash !== undefined && !equalBytes(hash, row.hash)) found.push(row);
    }
  }
  return found;
}

async function drop(books: BlockBooks, rows: readonly AccountRow[]): Promise<void> {
  const balances = createBalances(books);
  books.accounts.adopt(rows);
  await books.tokenAccounts.load(rows.map(({ hash }) => [hash]));
  for (const row of rows) {
    const token = books.tokenAccounts.get(row.hash);
    if (row.spent === SPENT.no) balances.move(row, token, -1);
    books.accounts.remove(row.hash);
    if (token !== null) books.tokenAccounts.remove(row.hash);
  }
  await balances.settle();
}
