import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import type { AccountRow, Db, TreeRow } from '../store/tables.ts';
import { type PreparedBatch, prepareAddressAppend } from './address-batch.ts';
import { diverge, type TreeContext } from './tree-context.ts';
import type { BatchUpdate } from './tree-update.ts';

/**
 * Applies one batch event of a V2 tree if that gives the root that the event names. `incomplete`: not all that it takes from the queue is
 * known yet; `refused`: the tree has diverged. In both cases nothing was changed but the tree's status.
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

/** Accounts leave the output queue. A leaf that holds a nullifier already keeps it. */
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

/** Nullifiers take the places of spent accounts, also of such that are still in the output queue. */
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
