import type { Db, TreeRow } from '../store/tables.ts';
import { type Feed, feedOf, settlePending } from './feed.ts';
import { HISTORY } from './history.ts';
import { isV1 } from './leaf-hash.ts';
import { applyBatch } from './run-batch.ts';
import { applyRuns } from './run-v1.ts';
import type { TreeContext } from './tree-context.ts';
import type { TreeUpdate } from './tree-update.ts';

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
