import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import type { LeafChange } from '../../../src/solana/merkle/update-trees.ts';
import { diverge, type TreeContext } from '../indexing/block-books.ts';
import type { AccountRow, Db, TreeRow } from '../store/tables.ts';
import { hashIndexedLeaves } from './hashing.ts';
import { type IndexedUpdate, pendingRow, type TreeUpdate, updateOf } from './tree-update.ts';

/** Steps of one tree that one block told, in order. */
export interface Run {
  readonly id: number;
  readonly updates: readonly TreeUpdate[];
}

interface Prepared {
  readonly tree: TreeRow;
  readonly run: Run;
  readonly leaves: readonly LeafChange[];
  /** Puts the rows into the books, once the tree has taken the leaves. */
  readonly accept: () => void;
}

const ZERO = new Uint8Array(32);
const LEAVES_PER_QUERY = 500;
const MOST_EARLY = 10_000;

/** Applies one run of each of several V1 trees. Returns the trees that took theirs. */
export async function applyRuns(context: TreeContext, runs: readonly Run[]): Promise<ReadonlySet<number>> {
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

async function prepareLeaves(context: TreeContext, tree: TreeRow, run: Run): Promise<Prepared> {
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
  const nullified = new Set<AccountRow>();
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

/** Without strict order a leaf may become zero before it is appended: that waits as a pending row. */
async function earlyNullifications({ books }: TreeContext, tree: number): Promise<Map<number, TreeUpdate>> {
  const rows = await (books.tx.db as Db)
    .selectFrom('compression_pending')
    .selectAll()
    .where('tree', '=', tree)
    .where('kind', '=', 'nullify')
    .limit(MOST_EARLY)
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
    const rows = await (books.tx.db as Db)
      .selectFrom('compression_accounts')
      .selectAll()
      .where('tree', '=', tree)
      .where('leaf_index', 'in', indexes.slice(at, at + LEAVES_PER_QUERY))
      .execute();
    books.accounts.adopt(rows);
  }
}

function accountsByLeaf({ books }: TreeContext, tree: number): ReadonlyMap<number, readonly AccountRow[]> {
  const found = new Map<number, AccountRow[]>();
  for (const account of books.accounts.rows()) {
    if (account.tree !== tree) continue;
    const same = found.get(account.leaf_index);
    if (same === undefined) found.set(account.leaf_index, [account]);
    else same.push(account);
  }
  return found;
}

/** Null when a leaf is not the hash of its values: what the event says and what we read of it differ. */
async function prepareAddresses(context: TreeContext, tree: TreeRow, run: Run): Promise<Prepared | null> {
  const { books, hashing } = context;
  const updates = run.updates.filter((update): update is IndexedUpdate => update.kind === 'indexed');
  const rows = updates.map(({ index, value, nextIndex, nextValue, seq }) => ({
    ...{ tree: tree.id, leaf_index: index, seq, next_index: nextIndex },
    ...{ value: Uint8Array.from(value), next_value: Uint8Array.from(nextValue) },
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
  // The newest of a leaf counts, also against what an earlier block brought.
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
