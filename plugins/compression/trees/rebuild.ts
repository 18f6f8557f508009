import type { Store, StoreTx } from '../../../src/plugin/plugin.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { pathPages } from '../../../src/solana/merkle/path.ts';
import type { LeafChange } from '../../../src/solana/merkle/update-trees.ts';
import type { CompressionDb, TreeRow } from '../store/tables.ts';
import { emptyRoot, type Hashing, hashIndexedLeaves, isStateTree } from './hashing.ts';
import { DAMAGED, pageId, pageRange, readTreePages, writePages } from './page-book.ts';

interface RebuildParts {
  readonly store: Store;
  readonly hashing: Hashing;
}

/** Hashed without a yield: a few milliseconds. */
const LEAVES_AT_ONCE = 256;
/** Small, so that other writers are not blocked. */
const SLICES_PER_WRITE = 8;

/**
 * Rebuilds all pages of a diverged tree from its rows, in short transactions. Returns their root,
 * or null when the tree is no longer diverged, moved, or a block was reverted. The row of the tree stays. Errors: those of the store, the
 * reason of the signal.
 */
export async function rebuildTree(
  { store, hashing }: RebuildParts,
  tree: TreeRow,
  signal: AbortSignal,
): Promise<Uint8Array | null> {
  let next: number | null = 0;
  let root: Uint8Array = emptyRoot(hashing, tree.height);
  for (let isFirst = true; next !== null; isFirst = false) {
    const from: number = next;
    signal.throwIfAborted();
    const done = await store.write(async (tx) => {
      const db = tx.db as CompressionDb;
      if (!(await isStill(db, tree))) return null;
      if (isFirst) await begin(tx, tree.id);
      else if (!(await isNoted(db, tree.id))) return null;
      const slices = await rebuildSlices(tx, hashing, tree, from);
      if (slices.next === null) await forget(db, tree.id);
      return slices;
    });
    if (done === null) return null;
    next = done.next;
    root = done.root ?? root;
  }
  return root;
}

async function isStill(db: CompressionDb, { id, seq }: TreeRow): Promise<boolean> {
  const row = await db
    .selectFrom('compression_trees')
    .select(['seq', 'status'])
    .where('id', '=', id)
    .executeTakeFirst();
  return row?.seq === seq && row.status === 'diverged';
}

/** While this note exists, a rollback marks the tree diverged and deletes the note: pages do not match its row. */
const noteOf = (id: number): string => `${REBUILD_NOTE}${id}`;

async function begin(tx: StoreTx, id: number): Promise<void> {
  await removePages(tx.db as CompressionDb, id);
  await tx.insertMany('compression_notes', ['name', 'value'], [[noteOf(id), '']], 'ignore');
}

async function isNoted(db: CompressionDb, id: number): Promise<boolean> {
  const note = db.selectFrom('compression_notes').select('name').where('name', '=', noteOf(id));
  return (await note.executeTakeFirst()) !== undefined;
}

async function forget(db: CompressionDb, id: number): Promise<void> {
  await db.deleteFrom('compression_notes').where('name', '=', noteOf(id)).execute();
}

async function removePages(db: CompressionDb, id: number): Promise<void> {
  const { from, to } = pageRange(id);
  await db.deleteFrom('compression_pages').where('id', '>=', from).where('id', '<=', to).execute();
}

async function rebuildSlices(tx: StoreTx, hashing: Hashing, tree: TreeRow, fromIndex: number) {
  let root: Uint8Array | null = null;
  let next = fromIndex;
  for (let slice = 0; slice < SLICES_PER_WRITE; slice += 1) {
    const leaves = await readStoredLeaves(tx.db as CompressionDb, hashing, tree, next, LEAVES_AT_ONCE);
    const last = leaves.at(-1);
    if (last === undefined) return { next: null, root };
    root = await setLeaves(tx, hashing, tree, leaves);
    next = last.index + 1;
  }
  return { next, root };
}

async function setLeaves(
  tx: StoreTx,
  hashing: Hashing,
  { id, height }: TreeRow,
  leaves: readonly LeafChange[],
): Promise<Uint8Array> {
  const ids = new Set(leaves.flatMap(({ index }) => pathPages(height, index).map((key) => pageId(id, key))));
  const stored = await readTreePages(tx.db as CompressionDb, [...ids]);
  const page = (key: number): Uint8Array | null => {
    const nodes = stored.get(pageId(id, key)) ?? null;
    // This rebuild wrote the page.
    if (nodes === DAMAGED) throw new Error(`page ${key} of tree ${id} is damaged while it is rebuilt`);
    return nodes;
  };
  const [updated] = hashing.update([{ height, page, leaves }]);
  if (updated === undefined) throw new Error('an update of one tree gives one tree');
  await writePages(
    tx,
    [...updated.pages].map(([key, nodes]) => ({ id: pageId(id, key), nodes })),
  );
  return Uint8Array.from(updated.root);
}

/**
 * The leaves of a tree according to its rows, ascending from an index on, at most `limit`; omitted leaves are zero. Only
 * updates up to the tree's sequence number count. Errors: those of the store.
 */
export async function readStoredLeaves(
  db: CompressionDb,
  hashing: Hashing,
  tree: Pick<TreeRow, 'id' | 'type' | 'seq'>,
  fromIndex: number,
  limit: number,
): Promise<LeafChange[]> {
  if (!isStateTree(tree.type)) return await indexedLeaves(db, hashing, tree, fromIndex, limit);
  const all = db
    .selectFrom('compression_accounts')
    .select(['leaf_index', 'hash', 'nullifier', 'nullified'])
    .where('tree', '=', tree.id)
    .where('leaf_index', '>=', fromIndex)
    .orderBy('leaf_index')
    .limit(limit);
  if (tree.type === TREE_TYPE.stateV1) {
    const rows = await all.where('nullified', '=', 0).where('seq', '<=', tree.seq).execute();
    return rows.map(({ leaf_index, hash }) => ({ index: leaf_index, hash }));
  }
  const rows = await all.where((is) => is.or([is('queued', '=', 0), is('nullified', '=', 1)])).execute();
  return rows.flatMap(({ leaf_index, hash, nullifier, nullified }) => {
    const leaf = nullified === 1 ? nullifier : hash;
    return leaf === null ? [] : [{ index: leaf_index, hash: leaf }];
  });
}

async function indexedLeaves(
  db: CompressionDb,
  { poseidon }: Hashing,
  { id, type }: Pick<TreeRow, 'id' | 'type'>,
  fromIndex: number,
  limit: number,
): Promise<LeafChange[]> {
  const rows = await db
    .selectFrom('compression_indexed_leaves')
    .select(['leaf_index', 'value', 'next_index', 'next_value'])
    .where('tree', '=', id)
    .where('leaf_index', '>=', fromIndex)
    .orderBy('leaf_index')
    .limit(limit)
    .execute();
  return hashIndexedLeaves(poseidon, type, rows).map((hash, i) => ({ index: rows[i]?.leaf_index ?? 0, hash }));
}

/** Prefix of notes of running rebuilds, before the id of the tree: a rebuild cannot continue from another state. */
export const REBUILD_NOTE = 'rebuild:';
