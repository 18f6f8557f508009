import { sql } from 'kysely';
import { equalBytes } from '../../../src/lib/bytes.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import type { LeafChange } from '../../../src/solana/merkle/update-trees.ts';
import { rowKeyText } from '../store/row-book.ts';
import type { CompressedAccountRow, CompressionDb, CompressionTables, TreeRow } from '../store/tables.ts';
import { HISTORY, hashIndexedLeaves, isV1 } from '../trees/hashing.ts';
import { type BlockBooks, diverge, type TreeContext } from './block-books.ts';
import {
  type BatchUpdate,
  type IndexedUpdate,
  type PendingRow,
  pendingRow,
  type TreeUpdate,
  updateOf,
} from './plan.ts';

/** Number of roots kept while the account of a tree has not been read: the usual one for its kind. */
const USUAL_CAPACITY = { v1: 2_400, v2: 200 } as const;

interface Progress {
  readonly feed: Feed;
  /** Number of applied steps of `feed.ready`. */
  done: number;
}

/**
 * Applies updates to trees, each as far as its sequence is complete. A missing update leaves a gap, a contradictory one makes the tree
 * diverge; further updates stay pending. `ids` are other trees that may continue now.
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
  for (const { feed, done } of all) await finish(context, feed, done);
  await pruneRoots(
    context,
    all.map(({ feed }) => books.trees.byId(feed.id)),
  );
}

/** Without a strict order every step is ready; of equal steps the first is used. */
function looseFeed(id: number, own: readonly TreeUpdate[]): Feed {
  const ready = [...own].sort((a, b) => a.seq - b.seq);
  return { id, ready, early: [], hasMore: false, isLoose: true };
}

/** The updates of one block are applied together, with one hashing pass over all trees. */
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

async function finish({ books }: TreeContext, feed: Feed, done: number): Promise<void> {
  const { id, ready, early, hasMore } = feed;
  const left = [...ready.slice(done), ...early];
  await storePending(books, id, left, feed.isLoose === true ? [] : ready.slice(0, done));
  const { status, type, reason } = books.trees.byId(id);
  if (status === 'diverged') return;
  if (left.length > 0 || hasMore) {
    if (status !== 'gap') books.trees.change(id, { status: 'gap', reason: null });
  } else if (status === 'gap' && reason !== HISTORY)
    books.trees.change(id, { status: isV1(type) ? 'unverified' : 'ok', reason: null });
}

/** Keeps only the newest roots: as many as the account. */
async function pruneRoots({ books }: TreeContext, trees: readonly TreeRow[]): Promise<void> {
  const limits = trees.flatMap(({ id, type, seq, root_capacity }) => {
    const capacity = root_capacity ?? (isV1(type) ? USUAL_CAPACITY.v1 : USUAL_CAPACITY.v2);
    return seq > capacity ? [{ id, last: seq - capacity }] : [];
  });
  if (limits.length === 0) return;
  const rows = await (books.tx.db as CompressionDb)
    .selectFrom('compression_roots')
    .selectAll()
    .where((is) => is.or(limits.map(({ id, last }) => is.and([is('tree', '=', id), is('seq', '<=', last)]))))
    .execute();
  books.roots.adopt(rows);
  for (const { id, last } of limits)
    for (const { tree, seq } of [...books.roots.rows()]) if (tree === id && seq <= last) books.roots.remove(tree, seq);
}

/** Pending updates applied per block; the others follow with the next one. */
const MAX_PENDING = 2_000;

/** Next steps of one tree. */
interface Feed {
  readonly id: number;
  /** Consecutive steps that follow the state of the tree, in order. */
  readonly ready: readonly TreeUpdate[];
  /** Steps of the block that depend on missing steps. */
  readonly early: readonly TreeUpdate[];
  /** Whether stored steps remain that are blocked by missing steps or exceeded the limit. */
  readonly hasMore: boolean;
  /** Order does not matter: stored rows are not earlier steps. */
  readonly isLoose?: true;
}

/** Sorts the updates of a tree, without applied ones, and keeps the first of each sequence number. */
function orderUpdates(updates: readonly TreeUpdate[], seq: number): TreeUpdate[] {
  const ordered = updates.filter((update) => update.seq > seq).sort((a, b) => a.seq - b.seq);
  return ordered.filter((update, i) => update.seq !== ordered[i - 1]?.seq);
}

function continuousFrom(seq: number, updates: readonly TreeUpdate[]): number {
  let end = 0;
  while (updates[end]?.seq === seq + end + 1) end += 1;
  return end;
}

/** Combines the steps of the block with pending ones. */
async function feedOf(books: BlockBooks, tree: TreeRow, updates: readonly TreeUpdate[]): Promise<Feed> {
  const { id, seq, status } = tree;
  const own = orderUpdates(updates, seq);
  if (status === 'diverged') return { id, ready: [], early: own, hasMore: true };
  if (status !== 'gap') {
    const end = continuousFrom(seq, own);
    return { id, ready: own.slice(0, end), early: own.slice(end), hasMore: false };
  }
  const waiting = await waitingFor(books, tree, own);
  // New updates replace pending ones: they may be read again because the old ones were wrong.
  const all = orderUpdates([...own, ...waiting.map(updateOf)], seq);
  const end = continuousFrom(seq, all);
  const endSeq = seq + end;
  // Only applied updates count as read: a backfilled block must not seem to depend on newer ones.
  books.pending.adopt(waiting.filter((row) => row.seq <= endSeq));
  return {
    id,
    ready: all.slice(0, end),
    early: own.filter((update) => update.seq > endSeq),
    hasMore: waiting.some((row) => row.seq > endSeq) || waiting.length === MAX_PENDING,
  };
}

async function waitingFor(books: BlockBooks, { id, seq }: TreeRow, own: readonly TreeUpdate[]): Promise<PendingRow[]> {
  const query = (books.tx.db as CompressionDb)
    .selectFrom('compression_pending')
    .selectAll()
    .where('tree', '=', id)
    .where('seq', '>', seq)
    .orderBy('seq')
    .orderBy('kind');
  const [first] = await query.limit(1).execute();
  if (first === undefined) return [];
  return first.seq > seq + continuousFrom(seq, own) + 1 ? [first] : await query.limit(MAX_PENDING).execute();
}

/** Stores updates for later, and deletes applied ones. */
async function storePending(
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

/** Updates of one tree from one block, in order. */
export interface TreeUpdateRun {
  readonly id: number;
  readonly updates: readonly TreeUpdate[];
}

interface Prepared {
  readonly tree: TreeRow;
  readonly run: TreeUpdateRun;
  readonly leaves: readonly LeafChange[];
  /** Writes the rows to the books after the tree has accepted the leaves. */
  readonly accept: () => void;
}

const ZERO = new Uint8Array(32);
const LEAVES_PER_QUERY = 500;
const MAX_EARLY = 10_000;

/** Applies one run of each of several V1 trees. Returns the trees that accepted their run. */
async function applyRuns(context: TreeContext, runs: readonly TreeUpdateRun[]): Promise<ReadonlySet<number>> {
  const { books, hashing } = context;
  const prepared: Prepared[] = [];
  for (const run of runs) {
    const tree = books.trees.byId(run.id);
    const ready =
      tree.type === TREE_TYPE.addressV1
        ? await prepareAddresses(context, tree, run)
        : await prepareLeaves(context, tree, run);
    if (ready !== null) prepared.push(ready);
  }
  const damaged = await books.pages.load(prepared.map(({ tree: { id, height }, leaves }) => ({ id, height, leaves })));
  for (const { tree } of prepared) if (damaged.has(tree.id)) diverge(context, tree.id, 'page');
  const sound = prepared.filter(({ tree }) => !damaged.has(tree.id));
  const updated = hashing.update(
    sound.map(({ tree: { id, height }, leaves }) => ({ height, page: (key) => books.pages.page(id, key), leaves })),
  );
  sound.forEach(({ tree, run, leaves, accept }, i) => {
    const change = updated[i];
    if (change === undefined) return;
    accept();
    books.pages.accept(tree.id, change);
    const last = run.updates.at(-1);
    books.trees.change(tree.id, {
      seq: Math.max(tree.seq, last?.seq ?? 0),
      root: Uint8Array.from(leaves.length === 0 ? tree.root : change.root),
      next_index: run.updates.reduce((next, { kind, ...update }) => {
        const index = kind !== 'nullify' && 'index' in update ? update.index + 1 : 0;
        return Math.max(next, index);
      }, tree.next_index),
    });
  });
  return new Set(sound.map(({ tree }) => tree.id));
}

async function prepareLeaves(context: TreeContext, tree: TreeRow, run: TreeUpdateRun): Promise<Prepared> {
  const { books, isStrict } = context;
  const indexes = run.updates.flatMap((update) =>
    'index' in update && update.kind === 'nullify' ? [update.index] : [],
  );
  await loadByLeaf(
    context,
    tree.id,
    isStrict ? indexes : run.updates.flatMap((one) => ('index' in one ? [one.index] : [])),
  );
  const early = isStrict ? new Map<number, TreeUpdate>() : await earlyNullifications(context, tree.id);
  const accounts = accountsByLeaf(context, tree.id);
  const leaves: LeafChange[] = [];
  const nullified = new Set<CompressedAccountRow>();
  const remembered: TreeUpdate[] = [];
  const recalled: TreeUpdate[] = [];
  for (const update of run.updates) {
    if (update.kind === 'leaf') {
      const before = early.get(update.index);
      const own = accounts.get(update.index) ?? [];
      if (before !== undefined) {
        recalled.push(before);
        for (const account of own) nullified.add(account);
      }
      const isGone = before !== undefined || (!isStrict && own.some((account) => account.nullified === 1));
      leaves.push({ index: update.index, hash: isGone ? ZERO : update.hash });
    } else if (update.kind === 'nullify') {
      const own = accounts.get(update.index) ?? [];
      for (const account of own) nullified.add(account);
      if (own.length === 0 && !isStrict) remembered.push(update);
      leaves.push({ index: update.index, hash: ZERO });
    }
  }
  const accept = () => {
    for (const account of nullified) if (account.nullified === 0) books.accounts.put({ ...account, nullified: 1 });
    for (const update of recalled) books.pending.remove(tree.id, update.seq, update.kind);
    for (const update of remembered)
      if (books.pending.peek(tree.id, update.seq, update.kind) == null) books.pending.put(pendingRow(tree.id, update));
  };
  return { tree, run, leaves, accept };
}

/** Without strict order a leaf may become zero before it is appended: the nullification waits as a pending row. */
async function earlyNullifications({ books }: TreeContext, tree: number): Promise<Map<number, TreeUpdate>> {
  const rows = await (books.tx.db as CompressionDb)
    .selectFrom('compression_pending')
    .selectAll()
    .where('tree', '=', tree)
    .where('kind', '=', 'nullify')
    .limit(MAX_EARLY)
    .execute();
  books.pending.adopt(rows);
  const found = new Map<number, TreeUpdate>();
  for (const row of books.pending.rows()) {
    if (row.tree !== tree || row.kind !== 'nullify') continue;
    const update = updateOf(row);
    if ('index' in update) found.set(update.index, update);
  }
  return found;
}

async function loadByLeaf({ books }: TreeContext, tree: number, indexes: readonly number[]): Promise<void> {
  for (let at = 0; at < indexes.length; at += LEAVES_PER_QUERY) {
    const rows = await (books.tx.db as CompressionDb)
      .selectFrom('compression_accounts')
      .selectAll()
      .where('tree', '=', tree)
      .where('leaf_index', 'in', indexes.slice(at, at + LEAVES_PER_QUERY))
      .execute();
    books.accounts.adopt(rows);
  }
}

function accountsByLeaf({ books }: TreeContext, tree: number): ReadonlyMap<number, readonly CompressedAccountRow[]> {
  const found = new Map<number, CompressedAccountRow[]>();
  for (const account of books.accounts.rows()) {
    if (account.tree !== tree) continue;
    const same = found.get(account.leaf_index);
    if (same === undefined) found.set(account.leaf_index, [account]);
    else same.push(account);
  }
  return found;
}

/** Null when a leaf does not match the hash of its values: the event contradicts our reading of it. */
async function prepareAddresses(context: TreeContext, tree: TreeRow, run: TreeUpdateRun): Promise<Prepared | null> {
  const { books, hashing } = context;
  const updates = run.updates.filter((update): update is IndexedUpdate => update.kind === 'indexed');
  const rows = updates.map(({ index, value, nextIndex, nextValue, seq }) => ({
    tree: tree.id,
    leaf_index: index,
    seq,
    next_index: nextIndex,
    value: Uint8Array.from(value),
    next_value: Uint8Array.from(nextValue),
  }));
  let hashes: readonly Uint8Array[];
  try {
    hashes = hashIndexedLeaves(hashing.poseidon, tree.type, rows);
  } catch {
    diverge(context, tree.id, 'decode');
    return null;
  }
  if (updates.some(({ hash }, i) => !equalBytes(hash, hashes[i] ?? ZERO))) {
    diverge(context, tree.id, 'decode');
    return null;
  }
  await books.leaves.load(rows.map(({ tree: id, leaf_index }) => [id, leaf_index]));
  // The newest change of a leaf is used, also compared with earlier blocks.
  const newest = rows.filter(({ leaf_index, seq }, i) => {
    const stored = books.leaves.get(tree.id, leaf_index);
    return (
      (stored === null || stored.seq <= seq) && !rows.slice(i + 1).some((later) => later.leaf_index === leaf_index)
    );
  });
  const leaves = newest.map((row) => ({ index: row.leaf_index, hash: updates[rows.indexOf(row)]?.hash ?? ZERO }));
  const accept = () => {
    for (const row of newest) books.leaves.put(row);
  };
  return { tree, run, leaves, accept };
}

/**
 * Applies one batch event of a V2 tree if that results in the root of the event. `incomplete`: queue elements that it takes are
 * missing; `refused`: the tree has diverged. In both cases only the status of the tree changes.
 */
async function applyBatch(
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
    seq: update.seq,
    root,
    verified_seq: update.seq,
    verified_slot: update.slot,
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
  const rows = await (books.tx.db as CompressionDb)
    .selectFrom('compression_accounts')
    .selectAll()
    .where('tree', '=', id)
    .where('queued', '=', 1)
    .where('leaf_index', '>=', oldNextIndex)
    .where('leaf_index', '<', newNextIndex)
    .execute();
  books.accounts.adopt(rows);
  const isIn = ({ tree, queued, leaf_index }: CompressedAccountRow) =>
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
  const rows = await (books.tx.db as CompressionDb)
    .selectFrom('compression_accounts')
    .selectAll()
    .where('tree', '=', id)
    .where('nullifier_index', '>=', oldNextIndex)
    .where('nullifier_index', '<', newNextIndex)
    .execute();
  books.accounts.adopt(rows);
  const isIn = ({ tree, nullifier_index }: CompressedAccountRow) =>
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

type LeafRow = CompressionTables['compression_indexed_leaves'];

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
  const rows = await (books.tx.db as CompressionDb)
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
    if (low === undefined || (next !== undefined && rowKeyText([next.value]) === rowKeyText([address]))) return null;
    const index = firstIndex + i;
    const own = {
      tree,
      leaf_index: index,
      seq,
      value: address,
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
