import { sql } from 'kysely';
import { equalBytes } from '../../../src/lib/bytes.ts';
import type { LeafChange } from '../../../src/solana/merkle/update-trees.ts';
import { keyText } from '../store/row-book.ts';
import type { AccountRow, Db, Tables, TreeRow } from '../store/tables.ts';
import { hashIndexedLeaves } from '../trees/hashing.ts';
import type { BatchUpdate } from '../trees/tree-update.ts';
import { type BlockBooks, diverge, type TreeContext } from './block-books.ts';

/**
 * Applies one batch event of a V2 tree if that results in the root of the event. `incomplete`: queue elements that it takes are
 * missing; `refused`: the tree has diverged. In both cases only the status of the tree changes.
 */
export async function applyBatch(
  context: TreeContext,
  id: number,
  update: BatchUpdate,
): Promise<'applied' | 'incomplete' | 'refused'> {
  const { books, hashing } = context;
  const tree = books.trees.byId(id);
  const batch = await prepareBatch(context, tree, update);
  if (batch === 'incomplete') return 'incomplete';
  if (batch === 'impossible') {
    diverge(context, id, 'root', { expected: update.newRoot, computed: null });
    return 'refused';
  }
  const { leaves, accept } = batch;
  if ((await books.pages.load([{ id, height: tree.height, leaves }])).has(id)) {
    diverge(context, id, 'page');
    return 'refused';
  }
  const page = (key: number) => books.pages.page(id, key);
  const [updated] = leaves.length === 0 ? [] : hashing.update([{ height: tree.height, page, leaves }]);
  const root = Uint8Array.from(updated?.root ?? tree.root);
  if (!equalBytes(root, update.newRoot)) {
    diverge(context, id, 'root', { expected: Uint8Array.from(update.newRoot), computed: root });
    return 'refused';
  }
  accept();
  if (updated !== undefined) books.pages.accept(id, updated);
  books.trees.change(id, {
    ...{ seq: update.seq, root, verified_seq: update.seq, verified_slot: update.slot },
    next_index: update.kind === 'batchNullify' ? tree.next_index : update.newNextIndex,
    ...(tree.status === 'gap' ? {} : { status: 'ok', reason: null }),
  });
  return 'applied';
}

async function prepareBatch(
  context: TreeContext,
  tree: TreeRow,
  update: BatchUpdate,
): Promise<PreparedBatch | 'incomplete' | 'impossible'> {
  if (update.kind === 'addressAppend') return await prepareAddressAppend(context, tree, update);
  return update.kind === 'append'
    ? await prepareAppend(context, tree, update)
    : await prepareNullify(context, tree, update);
}

/** Accounts leave the output queue. A leaf that already holds a nullifier keeps it. */
async function prepareAppend(
  { books }: TreeContext,
  { id }: TreeRow,
  { oldNextIndex, newNextIndex, seq }: BatchUpdate,
): Promise<PreparedBatch | 'incomplete'> {
  const rows = await (books.tx.db as Db)
    .selectFrom('compression_accounts')
    .selectAll()
    .where('tree', '=', id)
    .where('queued', '=', 1)
    .where('leaf_index', '>=', oldNextIndex)
    .where('leaf_index', '<', newNextIndex)
    .execute();
  books.accounts.adopt(rows);
  const isIn = ({ tree, queued, leaf_index }: AccountRow) =>
    tree === id && queued === 1 && leaf_index >= oldNextIndex && leaf_index < newNextIndex;
  const accounts = [...books.accounts.rows()].filter(isIn);
  if (accounts.length !== newNextIndex - oldNextIndex) return 'incomplete';
  return {
    leaves: accounts.flatMap(({ leaf_index, hash, nullified }) =>
      nullified === 1 ? [] : [{ index: leaf_index, hash }],
    ),
    accept() {
      for (const account of accounts) books.accounts.put({ ...account, queued: 0, seq });
    },
  };
}

/** Nullifiers replace spent accounts, including those that are still in the output queue. */
async function prepareNullify(
  { books }: TreeContext,
  { id }: TreeRow,
  { oldNextIndex, newNextIndex }: BatchUpdate,
): Promise<PreparedBatch | 'incomplete'> {
  const rows = await (books.tx.db as Db)
    .selectFrom('compression_accounts')
    .selectAll()
    .where('tree', '=', id)
    .where('nullifier_index', '>=', oldNextIndex)
    .where('nullifier_index', '<', newNextIndex)
    .execute();
  books.accounts.adopt(rows);
  const isIn = ({ tree, nullifier_index }: AccountRow) =>
    tree === id && nullifier_index !== null && nullifier_index >= oldNextIndex && nullifier_index < newNextIndex;
  const accounts = [...books.accounts.rows()].filter(isIn);
  if (accounts.length !== newNextIndex - oldNextIndex) return 'incomplete';
  return {
    leaves: accounts.flatMap(({ leaf_index, nullifier }) =>
      nullifier === null ? [] : [{ index: leaf_index, hash: nullifier }],
    ),
    accept() {
      for (const account of accounts) books.accounts.put({ ...account, nullified: 1 });
    },
  };
}

type LeafRow = Tables['compression_indexed_leaves'];

interface PreparedBatch {
  readonly leaves: readonly LeafChange[];
  /** Writes the rows to the books after the root was verified. */
  readonly accept: () => void;
}

const ADDRESSES_PER_QUERY = 500;

/** Queued addresses become leaves. `incomplete` while some of them are missing. */
async function prepareAddressAppend(
  context: TreeContext,
  tree: TreeRow,
  { oldNextIndex, newNextIndex, seq }: BatchUpdate,
): Promise<PreparedBatch | 'incomplete' | 'impossible'> {
  const { books, hashing } = context;
  // Queue indexes count from 0, tree indexes from the leaf after the first.
  const [from, to] = [oldNextIndex - 1, newNextIndex - 1];
  const queued = await queuedAddresses(books, tree.id, from, to);
  if (queued.length !== to - from) return 'incomplete';
  const addresses = queued.map(({ address }) => address);
  await loadLowLeaves(books, tree.id, addresses);
  const changed = insertAddresses(books, tree.id, addresses, oldNextIndex, seq);
  if (changed === null) return 'impossible';
  const rows = [...changed.values()];
  const hashes = hashIndexedLeaves(hashing.poseidon, tree.type, rows);
  const zero = new Uint8Array(32);
  return {
    leaves: rows.map(({ leaf_index }, i) => ({ index: leaf_index, hash: hashes[i] ?? zero })),
    accept() {
      for (const row of rows) books.leaves.put(row);
      for (const { queue_index } of queued) books.addressQueue.remove(tree.id, queue_index);
    },
  };
}

async function queuedAddresses(books: BlockBooks, tree: number, from: number, to: number) {
  const rows = await (books.tx.db as Db)
    .selectFrom('compression_address_queue')
    .selectAll()
    .where('tree', '=', tree)
    .where('queue_index', '>=', from)
    .where('queue_index', '<', to)
    .execute();
  books.addressQueue.adopt(rows);
  return [...books.addressQueue.rows()]
    .filter((row) => row.tree === tree && row.queue_index >= from && row.queue_index < to)
    .sort((a, b) => a.queue_index - b.queue_index);
}

/** For each address the leaf with the largest value below it, in one statement. */
async function loadLowLeaves(books: BlockBooks, tree: number, addresses: readonly Uint8Array[]): Promise<void> {
  const isSqlite = books.tx.dialect === 'sqlite';
  for (let at = 0; at < addresses.length; at += ADDRESSES_PER_QUERY) {
    const wanted = addresses.slice(at, at + ADDRESSES_PER_QUERY);
    const values = sql.join(wanted.map((address) => (isSqlite ? sql`(${address})` : sql`(${address}::bytea)`)));
    const { rows } =
      await sql<LeafRow>`select * from compression_indexed_leaves where tree = ${tree} and leaf_index in (
      select (select l.leaf_index from compression_indexed_leaves l where l.tree = ${tree} and l.value < wanted.column1
        order by l.value desc limit 1) from (values ${values}) as wanted)`.execute(books.tx.db);
    books.leaves.adopt(rows);
  }
}

/**
 * Links the addresses in one by one. Null when one is already linked, or no leaf is below it.
 */
function insertAddresses(
  books: BlockBooks,
  tree: number,
  addresses: readonly Uint8Array[],
  firstIndex: number,
  seq: number,
): ReadonlyMap<number, LeafRow> | null {
  const known = [...books.leaves.rows()].filter((row) => row.tree === tree);
  const sorted = known.sort((a, b) => Buffer.compare(a.value, b.value));
  const changed = new Map<number, LeafRow>();
  for (const [i, address] of addresses.entries()) {
    const place = placeOf(sorted, address);
    const low = sorted[place - 1];
    const next = sorted[place];
    if (low === undefined || (next !== undefined && keyText([next.value]) === keyText([address]))) return null;
    const index = firstIndex + i;
    const own = {
      ...{ tree, leaf_index: index, seq, value: address },
      next_index: low.next_index,
      next_value: low.next_value,
    };
    const changedLow = { ...low, next_index: index, next_value: address, seq };
    sorted.splice(place - 1, 1, changedLow, own);
    changed.set(low.leaf_index, changedLow);
    changed.set(index, own);
  }
  return changed;
}

/** Number of values below the address. */
function placeOf(sorted: readonly LeafRow[], address: Uint8Array): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (Buffer.compare((sorted[middle] as LeafRow).value, address) < 0) from = middle + 1;
    else to = middle;
  }
  return from;
}
