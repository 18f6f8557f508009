import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import type { Clock, Log, Store, StoreTx } from '../../../src/plugin/plugin.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { canBeTakenBack } from '../indexing/block-books.ts';
import { type Db, readAtOneSlot, type TreeRow } from '../store/tables.ts';
import { emptyRoot, freshTree, type Hashing, HISTORY, isV1 } from '../trees/hashing.ts';
import { pageId, pageRange, writePages } from '../trees/page-book.ts';
import { doubtSpends, settleDoubts } from './contradictions.ts';
import type { MissingUpdates } from './missing-updates.ts';
import { QUEUE } from './queue-check.ts';
import { changeTree, lockTree, readLightTrees, type TreeReader } from './tree-reader.ts';

/** Brings trees back whose proofs are refused. */
export interface Repair {
  /** One look at all of them; each is tried at once, and every ten minutes when that did not help. Errors: those of the store. */
  pass(signal: AbortSignal): Promise<void>;
}

interface RepairParts {
  readonly store: Store;
  readonly hashing: Hashing;
  /** Null without an upstream: then only what is in the rows can be brought back. */
  readonly reader: Pick<TreeReader, 'rootAt'> | null;
  readonly missing: MissingUpdates | null;
  /** Makes the pages of a tree anew from its rows, in short pieces. Returns the root they have, or null when the tree moved meanwhile. */
  readonly rebuild: (tree: TreeRow, signal: AbortSignal) => Promise<Uint8Array | null>;
  /** Whether trees of which nothing is known yet may wait until somebody asks. */
  readonly leavesHistory: boolean;
  readonly clock: Clock;
  readonly log: Log;
}

const RETRY_MS = 600_000;
/** The first try is what is cheap; if it does not help, as the next checks tell, another one follows. */
const SECOND_TRY_MS = 20_000;
const QUICK_TRIES = 2;

function pauseMs(count: number): number {
  if (count === 0) return 0;
  return count < QUICK_TRIES ? SECOND_TRY_MS : RETRY_MS;
}

interface Tries {
  count: number;
  /** Newest slot when it was first found refused. */
  readonly sinceSlot: number;
  /** Monotonic ms of the last one. */
  at: number;
}

export function createRepair(parts: RepairParts): Repair {
  const { store, clock, log } = parts;
  const tries = new Map<number, Tries>();

  async function attempt(tree: TreeRow, made: Tries, signal: AbortSignal): Promise<void> {
    const { count } = made;
    const facts = { tree: encode32(tree.key), seq: tree.seq, status: tree.status, reason: tree.reason };
    if (count >= QUICK_TRIES) log.error({ ...facts, ...rootsOf(tree) }, 'a Merkle tree could not be repaired yet');
    made.count += 1;
    made.at = clock.monotonic();
    if (tree.status === 'gap') await fetchMissing(parts, tree, count);
    else if (!(await heal(parts, tree, { ...made, count }, signal))) made.count = count;
  }

  return {
    async pass(signal) {
      const { slot, value } = await readAtOneSlot(store, readLightTrees);
      const trees = value.filter(({ status }) => status === 'gap' || status === 'diverged');
      for (const id of tries.keys()) if (!trees.some((tree) => tree.id === id)) tries.delete(id);
      for (const tree of trees) {
        signal.throwIfAborted();
        const made = tries.get(tree.id) ?? { count: 0, at: clock.monotonic(), sinceSlot: slot };
        tries.set(tree.id, made);
        const isDue = clock.monotonic() - made.at >= pauseMs(made.count);
        if (!isDue || (await parts.missing?.isBeingRead(tree)) === true) continue;
        await attempt(tree, made, signal);
      }
      await settleDoubts(store, value, async (tree) => (await parts.missing?.isBeingRead(tree)) === true);
    },
  };
}

const rootsOf = ({ expected_root, computed_root }: TreeRow) => ({
  expected: expected_root === null ? null : encode32(expected_root),
  computed: computed_root === null ? null : encode32(computed_root),
});

async function fetchMissing({ missing, leavesHistory, log }: RepairParts, tree: TreeRow, count: number): Promise<void> {
  if (missing === null) return;
  if (leavesHistory && tree.verified_seq === null && tree.next_index <= FRESH_LEAVES) {
    const how = 'read it with backfill --by-address, or load a snapshot';
    log.warn({ tree: encode32(tree.key) }, `the past of a Merkle tree is not known, and not fetched by itself: ${how}`);
    return;
  }
  await missing.ask(tree, count === 0 ? 'near' : 'whole');
}

/** Leaves of a tree that nothing was written to. */
const FRESH_LEAVES = 2;

/** False when it has to wait. */
async function heal(parts: RepairParts, tree: TreeRow, made: Tries, signal: AbortSignal): Promise<boolean> {
  const { store, missing, hashing, log } = parts;
  if (missing !== null && (tree.reason === QUEUE || isBatchRefused(tree)))
    return await refillQueues(parts, missing, tree, made);
  const root = await parts.rebuild(tree, signal);
  if (root === null) return false;
  const verdict = await judge(parts, tree, root, signal);
  const name = encode32(tree.key);
  if (verdict === 'right') {
    // What came since may be right too, and is tried first; if it made the tree diverge it is fetched again.
    const refetch = made.count > 0 && missing !== null;
    if (refetch) await missing.ask(tree, 'near', (tx) => goOn(tx, tree, root, true));
    else await store.write((tx) => goOn(tx, tree, root, false));
    log.info({ tree: name, seq: tree.seq }, 'a Merkle tree was rebuilt from its rows');
    return true;
  }
  if (missing === null || verdict === 'unknown') return true;
  // Blocks that changed it and may still be taken back would put old rows over what is made anew.
  if (await canBeTakenBack(store.read as Db, made.sinceSlot)) return false;
  log.error({ tree: name, seq: tree.seq }, 'the rows of a Merkle tree are wrong: it is read again from its beginning');
  await missing.ask(tree, 'whole', async (tx) => {
    if (!(await isStill(tx, tree))) return;
    await resetTree(tx, tree, hashing);
    await doubtSpends(tx, tree, 0);
    await changeTree(tx, tree.id, { status: 'gap', reason: HISTORY });
  });
  return true;
}

/** A batch gave another root than its event told: the tree is as it was before, so what waits is wrong, or the event. */
const isBatchRefused = ({ type, reason, root, computed_root }: TreeRow): boolean =>
  !isV1(type) && reason === 'root' && (computed_root === null || !equalBytes(computed_root, root));

/** The tree itself is right: what was put into its queues, and its events, are read again. */
async function refillQueues(
  { store, log }: RepairParts,
  missing: MissingUpdates,
  tree: TreeRow,
  made: Tries,
): Promise<boolean> {
  // Blocks that may still be taken back would put old rows over what is read anew.
  if (await canBeTakenBack(store.read as Db, made.sinceSlot)) return false;
  log.warn({ tree: encode32(tree.key), seq: tree.seq }, 'what waits for a Merkle tree is read again');
  await missing.ask(tree, made.count === 0 ? 'near' : 'whole', async (tx, fromSlot) => {
    if (!(await isStill(tx, tree))) return;
    await doubtSpends(tx, tree, fromSlot);
    await emptyQueues(tx, tree);
    await changeTree(tx, tree.id, { status: 'gap', reason: HISTORY, expected_root: null, computed_root: null });
  });
  return true;
}

/** Whether the root that the rows give is the one of the chain. */
async function judge(
  { reader }: RepairParts,
  tree: TreeRow,
  root: Uint8Array,
  signal: AbortSignal,
): Promise<'right' | 'wrong' | 'unknown'> {
  const capacity = tree.root_capacity;
  const isAsItWas = equalBytes(root, tree.root);
  // A damaged page says nothing against the rows, and a batch that was refused left the tree as it was.
  const isTrusted = isAsItWas && tree.verified_seq === tree.seq;
  if (isTrusted) return 'right';
  if (reader === null || capacity === null) return isAsItWas && tree.reason === 'page' ? 'right' : 'unknown';
  const found = await reader.rootAt(tree, tree.seq, capacity, { signal });
  if (found.root === null || found.seq < tree.seq || found.seq - tree.seq >= capacity / 2)
    return isAsItWas && tree.reason === 'page' ? 'right' : 'unknown';
  return equalBytes(found.root, root) ? 'right' : 'wrong';
}

async function isStill(tx: StoreTx, tree: TreeRow): Promise<boolean> {
  const row = await lockTree(tx, tree.id);
  return row !== null && row.seq === tree.seq && row.status === 'diverged';
}

/** The tree takes updates again, from where it stands. */
async function goOn(tx: StoreTx, tree: TreeRow, root: Uint8Array, dropsPending: boolean): Promise<void> {
  if (!(await isStill(tx, tree))) return;
  const db = tx.db as Db;
  if (dropsPending) await db.deleteFrom('compression_pending').where('tree', '=', tree.id).execute();
  const waiting = await db
    .selectFrom('compression_pending')
    .select('seq')
    .where('tree', '=', tree.id)
    .limit(1)
    .executeTakeFirst();
  const isGap = dropsPending || waiting !== undefined;
  // What could not be read may have been an update: only the chain can say that none is missing.
  const isDoubtful = tree.reason === 'decode' || tree.reason === 'cpi-context';
  await changeTree(tx, tree.id, {
    ...{ root, status: isGap || isDoubtful ? 'gap' : 'unverified', reason: isDoubtful && !isGap ? HISTORY : null },
    ...{ expected_root: null, computed_root: null },
  });
}

/** Nullifiers are read again with the transactions that made them. */
const QUEUED = { queued: 1, seq: null, nullifier: null, nullifier_index: null, tx_hash: null };

/**
 * Makes a tree what it was before its first leaf, so that its updates can be applied again. Its accounts stay, as they were before any
 * batch and any nullification. The status is the caller's.
 */
async function resetTree(tx: StoreTx, tree: TreeRow, hashing: Hashing): Promise<void> {
  const db = tx.db as Db;
  const { id, height, type } = tree;
  const pages = pageRange(id);
  await db.deleteFrom('compression_pages').where('id', '>=', pages.from).where('id', '<=', pages.to).execute();
  for (const table of [
    'compression_roots',
    'compression_pending',
    'compression_indexed_leaves',
    'compression_address_queue',
  ] as const)
    await db.deleteFrom(table).where('tree', '=', id).execute();
  const isQueued = type === TREE_TYPE.stateV2;
  await db
    .updateTable('compression_accounts')
    .set(isQueued ? { ...QUEUED, nullified: 0 } : { nullified: 0 })
    .where('tree', '=', id)
    .execute();
  const { seq, nextIndex, values, leaves } = freshTree(hashing, type);
  const rows = values.map((value, leaf) => [id, leaf, value.value, value.next_index, value.next_value, seq]);
  const columns = ['tree', 'leaf_index', 'value', 'next_index', 'next_value', 'seq'];
  await tx.insertMany('compression_indexed_leaves', columns, rows);
  const [planted] = leaves.length === 0 ? [] : hashing.update([{ height, page: () => null, leaves }]);
  await writePages(
    tx,
    [...(planted?.pages ?? [])].map(([key, nodes]) => ({ id: pageId(id, key), nodes })),
  );
  await changeTree(tx, id, {
    ...{ seq, next_index: nextIndex, root: Uint8Array.from(planted?.root ?? emptyRoot(hashing, height)) },
    ...{ expected_root: null, computed_root: null, verified_seq: null, verified_slot: null },
  });
}

/**
 * Forgets what waits for a tree where only reading it again can tell what it is: its events and addresses. Accounts that wait stay;
 * reading them again drops those that never were.
 */
async function emptyQueues({ db }: StoreTx, { id }: TreeRow): Promise<void> {
  await (db as Db).deleteFrom('compression_pending').where('tree', '=', id).execute();
  await (db as Db).deleteFrom('compression_address_queue').where('tree', '=', id).execute();
}
