import type { BlockBooks, TreeContext } from '../indexing/block-books.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import { HISTORY, isV1 } from './hashing.ts';
import { applyBatch } from './run-batch.ts';
import { applyRuns } from './run-v1.ts';
import { type PendingRow, pendingRow, type TreeUpdate, updateOf } from './tree-update.ts';

/** Roots that are kept while the account of a tree has not been read: as many as its kind usually has. */
const USUAL_CAPACITY = { v1: 2_400, v2: 200 } as const;

interface Progress {
  readonly feed: Feed;
  /** How many of `feed.ready` are done. */
  done: number;
}

/**
 * Brings trees on: each as far as its steps follow each other. What is missing leaves a tree with a gap, what contradicts it makes it
 * diverged; the steps that then cannot be made are kept. `ids` are further trees that might go on now.
 */
export async function applyUpdates(
  context: TreeContext,
  updates: ReadonlyMap<number, readonly TreeUpdate[]>,
  ids: Iterable<number>,
): Promise<void> {
  const { books, isStrict } = context;
  const all: Progress[] = [];
  for (const id of new Set([...updates.keys(), ...ids])) {
    const tree = books.trees.byId(id);
    const own = updates.get(id) ?? [];
    const isLoose = !isStrict && isV1(tree.type) && tree.status !== 'diverged';
    const feed = isLoose ? looseFeed(id, own) : await feedOf(books, tree, own);
    if (feed.ready.length + feed.early.length > 0) all.push({ feed, done: 0 });
  }
  const kindOf = ({ feed }: Progress) => isV1(books.trees.byId(feed.id).type);
  await goOnV1(context, all.filter(kindOf));
  for (const one of all) if (!kindOf(one)) await goOnV2(context, one);
  for (const { feed, done } of all) await settle(context, feed, done);
  await pruneRoots(
    context,
    all.map(({ feed }) => books.trees.byId(feed.id)),
  );
}

/** Where order does not matter all is ready; of equal steps the first counts. */
function looseFeed(id: number, own: readonly TreeUpdate[]): Feed {
  const ready = [...own].sort((a, b) => a.seq - b.seq);
  return { id, ready, early: [], hasMore: false, isLoose: true };
}

/** Steps that one block told go in together, those of all trees in one update. */
async function goOnV1(context: TreeContext, all: readonly Progress[]): Promise<void> {
  let open = all.filter(({ feed }) => feed.ready.length > 0);
  while (open.length > 0) {
    const runs = open.map(({ feed, done }) => {
      const slot = feed.ready[done]?.slot;
      const behind = feed.ready.slice(done).findIndex((update) => update.slot !== slot);
      return { id: feed.id, updates: feed.ready.slice(done, behind < 0 ? undefined : done + behind) };
    });
    const applied = await applyRuns(context, runs);
    for (const { id, updates } of runs) if (applied.has(id)) await noteRoot(context, id, updates.at(-1)?.slot ?? 0);
    open = open.filter((one, i) => {
      const { updates } = runs[i] ?? { updates: [] };
      if (!applied.has(one.feed.id)) return false;
      one.done += updates.length;
      return one.done < one.feed.ready.length;
    });
  }
}

async function goOnV2(context: TreeContext, one: Progress): Promise<void> {
  const { id, ready } = one.feed;
  for (const update of ready) {
    if (update.kind === 'leaf' || update.kind === 'nullify' || update.kind === 'indexed') return;
    if ((await applyBatch(context, id, update)) !== 'applied') return;
    one.done += 1;
    await noteRoot(context, id, update.slot);
  }
}

async function noteRoot({ books }: TreeContext, id: number, slot: number): Promise<void> {
  const { seq, root } = books.trees.byId(id);
  await books.roots.load([[id, seq]]);
  books.roots.put({ tree: id, seq, root, slot });
}

async function settle({ books }: TreeContext, feed: Feed, done: number): Promise<void> {
  const { id, ready, early, hasMore } = feed;
  const left = [...ready.slice(done), ...early];
  await settlePending(books, id, left, feed.isLoose === true ? [] : ready.slice(0, done));
  const { status, type, reason } = books.trees.byId(id);
  if (status === 'diverged') return;
  if (left.length > 0 || hasMore) {
    if (status !== 'gap') books.trees.change(id, { status: 'gap', reason: null });
  } else if (status === 'gap' && reason !== HISTORY)
    books.trees.change(id, { status: isV1(type) ? 'unverified' : 'ok', reason: null });
}

/** Only the newest roots stay: as many as the account has. */
async function pruneRoots({ books }: TreeContext, trees: readonly TreeRow[]): Promise<void> {
  const limits = trees.flatMap(({ id, type, seq, root_capacity }) => {
    const capacity = root_capacity ?? (isV1(type) ? USUAL_CAPACITY.v1 : USUAL_CAPACITY.v2);
    return seq > capacity ? [{ id, last: seq - capacity }] : [];
  });
  if (limits.length === 0) return;
  const rows = await (books.tx.db as Db)
    .selectFrom('compression_roots')
    .selectAll()
    .where((is) => is.or(limits.map(({ id, last }) => is.and([is('tree', '=', id), is('seq', '<=', last)]))))
    .execute();
  books.roots.adopt(rows);
  for (const { id, last } of limits)
    for (const { tree, seq } of [...books.roots.rows()]) if (tree === id && seq <= last) books.roots.remove(tree, seq);
}

/** Updates that waited and are taken up with one block; the others follow with the next one. */
const MOST_TAKEN_UP = 2_000;

/** What comes next for one tree. */
interface Feed {
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
async function feedOf(books: BlockBooks, tree: TreeRow, updates: readonly TreeUpdate[]): Promise<Feed> {
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
async function settlePending(
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
