import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import type { Log, Store, StoreTx } from '../../../src/plugin/plugin.ts';
import type { CreatedOutput } from '../../../src/solana/compression/events.ts';
import { KEYS_PER_STATEMENT, rowKeyText } from '../store/row-book.ts';
import {
  type CompressedAccountRow,
  type CompressionDb,
  DOUBT,
  READ,
  READING,
  SPENT,
  type TreeRow,
  verifyNote,
  writeNote,
} from '../store/tables.ts';
import { type Hashing, HISTORY } from '../trees/hashing.ts';
import { createBalances } from './apply-accounts.ts';
import { type BlockBooks, openBooks } from './block-books.ts';
import type { DecodedBlock } from './decode-block.ts';
import type { ApplyOptions, Indexer } from './indexer.ts';

interface ContradictionParts {
  readonly indexer: Pick<Indexer, 'amend'>;
  readonly hashing: Hashing;
  readonly log: Log;
}

/**
 * A tree is read again because its rows were wrong: accounts indexed for a leaf that now gets another hash never
 * existed. Removes them and their share of balances, before the block is applied. Errors: those of the store.
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
  let wrong = await contradictedBy(tx.db as CompressionDb, outputs);
  if (wrong.length === 0) return;
  if (isFinal)
    await indexer.amend(
      tx,
      async (books) => {
        wrong = await contradictedBy(tx.db as CompressionDb, outputs);
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
      'a compressed account never existed and was removed',
    );
}

async function contradictedBy(db: CompressionDb, outputs: readonly CreatedOutput[]): Promise<CompressedAccountRow[]> {
  const trees = await db
    .selectFrom('compression_trees')
    .select(['id', 'key', 'queue'])
    .where('status', '=', 'gap')
    .where('reason', '=', HISTORY)
    .execute();
  const wrong: CompressedAccountRow[] = [];
  for (const { id, key, queue } of trees) {
    const names = new Set([key, ...(queue === null ? [] : [queue])].map((name) => rowKeyText([name])));
    const own = outputs.filter(({ tree, treeOrQueue }) => names.has(rowKeyText([tree ?? treeOrQueue])));
    wrong.push(...(await contradicted(db, id, new Map(own.map(({ leafIndex, hash }) => [leafIndex, hash])))));
  }
  return wrong;
}

async function contradicted(
  db: CompressionDb,
  tree: number,
  emitted: ReadonlyMap<number, Uint8Array>,
): Promise<CompressedAccountRow[]> {
  const found: CompressedAccountRow[] = [];
  const indexes = [...emitted.keys()];
  for (let at = 0; at < indexes.length; at += KEYS_PER_STATEMENT) {
    const rows = await db
      .selectFrom('compression_accounts')
      .selectAll()
      .where('tree', '=', tree)
      .where('leaf_index', 'in', indexes.slice(at, at + KEYS_PER_STATEMENT))
      .execute();
    for (const row of rows) {
      const hash = emitted.get(row.leaf_index);
      if (hash !== undefined && !equalBytes(hash, row.hash)) found.push(row);
    }
  }
  return found;
}

async function drop(books: BlockBooks, rows: readonly CompressedAccountRow[]): Promise<void> {
  const balances = createBalances(books);
  books.accounts.adopt(rows);
  await books.tokenAccounts.load(rows.map(({ hash }) => [hash]));
  for (const row of rows) {
    const token = books.tokenAccounts.get(row.hash);
    if (row.spent === SPENT.no) balances.move(row, token, -1);
    books.accounts.remove(row.hash);
    if (token !== null) books.tokenAccounts.remove(row.hash);
  }
  await balances.apply();
}

/** Reverted per transaction; most spends were confirmed before. */
const ROWS_AT_ONCE = 500;

/**
 * Marks spends of a tree from a slot on that the tree does not prove as unverified until blocks confirm them. They lose their
 * index in the queue. Runs in the transaction that requests the tree again from that slot.
 */
export async function markSpendsUnverified(tx: StoreTx, { id }: Pick<TreeRow, 'id'>, fromSlot: number): Promise<void> {
  await (tx.db as CompressionDb)
    .updateTable('compression_accounts')
    .set({ spent: SPENT.unverified, nullifier: null, nullifier_index: null, tx_hash: null })
    .where('tree', '=', id)
    .where('spent', '=', SPENT.yes)
    .where('nullified', '=', 0)
    .where('slot_spent', '>=', fromSlot)
    .execute();
  await writeNote(tx, verifyNote(id), READING);
}

/** Notes the trees whose history was read again and matches the chain. Errors: those of the store. */
export async function noteVerifiedTrees(
  store: Store,
  trees: readonly TreeRow[],
  isBeingRead: (tree: TreeRow) => Promise<boolean>,
): Promise<void> {
  const names = new Set(await notesWithValue(store.read as CompressionDb, READING));
  for (const tree of trees) {
    const name = verifyNote(tree.id);
    if (!names.has(name) || tree.status !== 'ok' || (await isBeingRead(tree))) continue;
    await store.write((tx) => writeNote(tx, name, READ));
  }
}

async function notesWithValue(db: CompressionDb, value: string): Promise<string[]> {
  const rows = await db
    .selectFrom('compression_notes')
    .select('name')
    .where('name', 'like', `${DOUBT}%`)
    .where('value', '=', value)
    .execute();
  return rows.map(({ name }) => name);
}

/** Reverts spends that no block confirmed. Errors: those of the store. */
export async function revertUnverifiedSpends(tx: StoreTx, indexer: Pick<Indexer, 'amend'>, log: Log): Promise<void> {
  const db = tx.db as CompressionDb;
  for (const name of await notesWithValue(db, READ)) {
    let rows: readonly CompressedAccountRow[] = [];
    await indexer.amend(tx, async (books) => {
      rows = await doubted(db, Number(name.slice(DOUBT.length)));
      await revertSpends(books, rows);
    });
    for (const { hash, tree, spent_by, nullified } of rows)
      if (nullified === 0)
        log.error(
          { hash: encode32(hash), tree, signature: spent_by === null ? null : Buffer.from(spent_by).toString('hex') },
          'a compressed account was never spent and was restored',
        );
    if (rows.length < ROWS_AT_ONCE) await db.deleteFrom('compression_notes').where('name', '=', name).execute();
  }
}

async function doubted(db: CompressionDb, tree: number): Promise<CompressedAccountRow[]> {
  return await db
    .selectFrom('compression_accounts')
    .selectAll()
    .where('tree', '=', tree)
    .where('spent', '=', SPENT.unverified)
    .limit(ROWS_AT_ONCE)
    .execute();
}

async function revertSpends(books: BlockBooks, rows: readonly CompressedAccountRow[]): Promise<void> {
  const balances = createBalances(books);
  books.accounts.adopt(rows);
  await books.tokenAccounts.load(rows.map(({ hash }) => [hash]));
  for (const row of rows) {
    // Its leaf was replaced, which proves the spend.
    if (row.nullified === 1) {
      books.accounts.put({ ...row, spent: SPENT.yes });
      continue;
    }
    const token = books.tokenAccounts.get(row.hash);
    books.accounts.put({ ...row, spent: SPENT.no, slot_spent: null, spent_by: null });
    if (token !== null) books.tokenAccounts.put({ ...token, spent: SPENT.no });
    balances.move(row, token, 1);
  }
  await balances.apply();
}
