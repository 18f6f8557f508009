import type { BlockBooks } from '../indexing/block-books.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import { type PendingRow, pendingRow, type TreeUpdate, updateOf } from './tree-update.ts';

/** Updates that waited and are taken up with one block; the others follow with the next one. */
const MOST_TAKEN_UP = 2_000;

/** What comes next for one tree. */
export interface Feed {
  readonly id: number;
  /** Steps that follow each other and the tree, in order. */
  readonly ready: readonly TreeUpdate[];
  /** Steps of the block for which others are missing. */
  readonly early: readonly TreeUpdate[];
  /** Steps that wait in the store, for which others are missing or for which there was no time. */
  readonly hasMore: boolean;
  /** Order does not matter: rows that wait are no steps that were made before. */
  readonly isLoose?: true;
}

/** Orders the updates of a tree, of each sequence number the first, without what the tree has had. */
function orderUpdates(updates: readonly TreeUpdate[], seq: number): TreeUpdate[] {
  const ordered = updates.filter((update) => update.seq > seq).sort((a, b) => a.seq - b.seq);
  return ordered.filter((update, i) => update.seq !== ordered[i - 1]?.seq);
}

function continuousFrom(seq: number, updates: readonly TreeUpdate[]): number {
  let end = 0;
  while (updates[end]?.seq === seq + end + 1) end += 1;
  return end;
}

/** Puts together what the block brings and what waited for it. */
export async function feedOf(books: BlockBooks, tree: TreeRow, updates: readonly TreeUpdate[]): Promise<Feed> {
  const { id, seq, status } = tree;
  const own = orderUpdates(updates, seq);
  if (status === 'diverged') return { id, ready: [], early: own, hasMore: true };
  if (status !== 'gap') {
    const end = continuousFrom(seq, own);
    return { id, ready: own.slice(0, end), early: own.slice(end), hasMore: false };
  }
  const waiting = await waitingFor(books, tree, own);
  // What is told now is worth more than what waited: it may be read again because that was wrong.
  const all = orderUpdates([...own, ...waiting.map(updateOf)], seq);
  const end = continuousFrom(seq, all);
  const endSeq = seq + end;
  // Only what is taken up counts as read: a block that is filled in must not seem to depend on newer ones.
  books.pending.adopt(waiting.filter((row) => row.seq <= endSeq));
  return {
    ...{ id, ready: all.slice(0, end), early: own.filter((update) => update.seq > endSeq) },
    hasMore: waiting.some((row) => row.seq > endSeq) || waiting.length === MOST_TAKEN_UP,
  };
}

async function waitingFor(books: BlockBooks, { id, seq }: TreeRow, own: readonly TreeUpdate[]): Promise<PendingRow[]> {
  const query = (books.tx.db as Db)
    .selectFrom('compression_pending')
    .selectAll()
    .where('tree', '=', id)
    .where('seq', '>', seq)
    .orderBy('seq')
    .orderBy('kind');
  const [first] = await query.limit(1).execute();
  if (first === undefined) return [];
  return first.seq > seq + continuousFrom(seq, own) + 1 ? [first] : await query.limit(MOST_TAKEN_UP).execute();
}

/** Keeps updates for later, and drops those that are done. */
export async function settlePending(
  books: BlockBooks,
  id: number,
  later: readonly TreeUpdate[],
  done: readonly TreeUpdate[],
): Promise<void> {
  const key = ({ seq, kind }: TreeUpdate) => [id, seq, kind] as const;
  await books.pending.load(later.map(key));
  for (const update of later) if (books.pending.get(...key(update)) === null) books.pending.put(pendingRow(id, update));
  for (const update of done)
    if ((books.pending.peek(...key(update)) ?? null) !== null) books.pending.remove(...key(update));
}
