import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import type { Clock, Log, Store, StoreTx } from '../../../src/plugin/plugin.ts';
import type { ChainGap, GapRecords } from '../../../src/ports/following.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { canBeReverted } from '../indexing/block-books.ts';
import { markSpendsUnverified, noteVerifiedTrees } from '../indexing/corrections.ts';
import { type CompressionDb, readAtOneSlot, readNote, type TreeRow, writeNote } from '../store/tables.ts';
import { emptyRoot, freshTree, type Hashing, HISTORY, isV1 } from '../trees/hashing.ts';
import { pageId, pageRange, writePages } from '../trees/page-book.ts';
import { changeTree, lockTree, readLightTrees, type TreeReader } from '../trees/tree-reader.ts';
import { QUEUE } from './queue-check.ts';

/** Repairs trees whose proofs are withheld. */
export interface Repair {
  /** One pass over all of them; each is tried at once, then every ten minutes. Errors: those of the store. */
  pass(signal: AbortSignal): Promise<void>;
}

interface RepairParts {
  readonly store: Store;
  readonly hashing: Hashing;
  /** Null without an upstream: trees can then only be rebuilt from rows. */
  readonly reader: Pick<TreeReader, 'rootAt'> | null;
  readonly missing: MissingUpdates | null;
  /** Rebuilds the pages of a tree from its rows, in short transactions. Returns their root, or null when the tree has moved. */
  readonly rebuild: (tree: TreeRow, signal: AbortSignal) => Promise<Uint8Array | null>;
  /** Whether trees without history stay empty until a backfill is requested. */
  readonly leavesHistory: boolean;
  readonly clock: Clock;
  readonly log: Log;
}

const RETRY_MS = 600_000;
/** The first attempt is the cheap one; if the next checks still fail, another one follows. */
const SECOND_TRY_MS = 20_000;
const QUICK_TRIES = 2;

function pauseMs(count: number): number {
  if (count === 0) return 0;
  return count < QUICK_TRIES ? SECOND_TRY_MS : RETRY_MS;
}

interface Tries {
  count: number;
  /** Newest slot when its proofs were first withheld. */
  readonly sinceSlot: number;
  /** Monotonic ms of the last attempt. */
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
    else if (!(await repairDiverged(parts, tree, { ...made, count }, signal))) made.count = count;
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
      await noteVerifiedTrees(store, value, async (tree) => (await parts.missing?.isBeingRead(tree)) === true);
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
    log.warn(
      { tree: encode32(tree.key) },
      `the past of a Merkle tree is unknown and is not fetched automatically: ${how}`,
    );
    return;
  }
  await missing.ask(tree, count === 0 ? 'near' : 'whole');
}

/** Leaves of a tree without updates. */
const FRESH_LEAVES = 2;

/** False when it has to wait. */
async function repairDiverged(parts: RepairParts, tree: TreeRow, made: Tries, signal: AbortSignal): Promise<boolean> {
  const { store, missing, hashing, log } = parts;
  if (missing !== null && (tree.reason === QUEUE || isBatchRefused(tree)))
    return await refillQueues(parts, missing, tree, made);
  const root = await parts.rebuild(tree, signal);
  if (root === null) return false;
  const verdict = await judge(parts, tree, root, signal);
  const name = encode32(tree.key);
  if (verdict === 'right') {
    // Pending updates are applied first; if they made the tree diverge they are fetched again.
    const refetch = made.count > 0 && missing !== null;
    if (refetch) await missing.ask(tree, 'near', (tx) => goOn(tx, tree, root, true));
    else await store.write((tx) => goOn(tx, tree, root, false));
    log.info({ tree: name, seq: tree.seq }, 'a Merkle tree was rebuilt from its rows');
    return true;
  }
  if (missing === null || verdict === 'unknown') return true;
  // Reverting blocks would restore old rows over the new ones.
  if (await canBeReverted(store.read as CompressionDb, made.sinceSlot)) return false;
  log.error(
    { tree: name, seq: tree.seq },
    'the rows of a Merkle tree are wrong: the tree is indexed again from its beginning',
  );
  await missing.ask(tree, 'whole', async (tx) => {
    if (!(await isStill(tx, tree))) return;
    await resetTree(tx, tree, hashing);
    await markSpendsUnverified(tx, tree, 0);
    await changeTree(tx, tree.id, { status: 'gap', reason: HISTORY });
  });
  return true;
}

/** A batch resulted in another root than its event: the tree is unchanged, so the queue or the event is wrong. */
const isBatchRefused = ({ type, reason, root, computed_root }: TreeRow): boolean =>
  !isV1(type) && reason === 'root' && (computed_root === null || !equalBytes(computed_root, root));

/** The tree itself is correct: reads its queues and events again. */
async function refillQueues(
  { store, log }: RepairParts,
  missing: MissingUpdates,
  tree: TreeRow,
  made: Tries,
): Promise<boolean> {
  // Reverting blocks would restore old rows over the new ones.
  if (await canBeReverted(store.read as CompressionDb, made.sinceSlot)) return false;
  log.warn({ tree: encode32(tree.key), seq: tree.seq }, 'the queues of a Merkle tree are read again');
  await missing.ask(tree, made.count === 0 ? 'near' : 'whole', async (tx, fromSlot) => {
    if (!(await isStill(tx, tree))) return;
    await markSpendsUnverified(tx, tree, fromSlot);
    await emptyQueues(tx, tree);
    await changeTree(tx, tree.id, { status: 'gap', reason: HISTORY, expected_root: null, computed_root: null });
  });
  return true;
}

/** Whether the rebuilt root matches the chain. */
async function judge(
  { reader }: RepairParts,
  tree: TreeRow,
  root: Uint8Array,
  signal: AbortSignal,
): Promise<'right' | 'wrong' | 'unknown'> {
  const capacity = tree.root_capacity;
  const isAsItWas = equalBytes(root, tree.root);
  // A damaged page does not imply wrong rows, and a refused batch left the tree unchanged.
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

/** The tree accepts updates again from its current state. */
async function goOn(tx: StoreTx, tree: TreeRow, root: Uint8Array, dropsPending: boolean): Promise<void> {
  if (!(await isStill(tx, tree))) return;
  const db = tx.db as CompressionDb;
  if (dropsPending) await db.deleteFrom('compression_pending').where('tree', '=', tree.id).execute();
  const waiting = await db
    .selectFrom('compression_pending')
    .select('seq')
    .where('tree', '=', tree.id)
    .limit(1)
    .executeTakeFirst();
  const isGap = dropsPending || waiting !== undefined;
  // The unreadable event may have been an update: only the chain can confirm that none is missing.
  const mayLackUpdates = tree.reason === 'decode' || tree.reason === 'cpi-context';
  await changeTree(tx, tree.id, {
    root,
    status: isGap || mayLackUpdates ? 'gap' : 'unverified',
    reason: mayLackUpdates && !isGap ? HISTORY : null,
    expected_root: null,
    computed_root: null,
  });
}

/** Nullifiers are read again with their transactions. */
const QUEUED = { queued: 1, seq: null, nullifier: null, nullifier_index: null, tx_hash: null };

/**
 * Resets a tree to before its first leaf, so that its updates can be applied again. Its accounts stay, in their state before any
 * batch and any nullification. The caller sets the status.
 */
async function resetTree(tx: StoreTx, tree: TreeRow, hashing: Hashing): Promise<void> {
  const db = tx.db as CompressionDb;
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
    seq,
    next_index: nextIndex,
    root: Uint8Array.from(planted?.root ?? emptyRoot(hashing, height)),
    expected_root: null,
    computed_root: null,
    verified_seq: null,
    verified_slot: null,
  });
}

/**
 * Deletes the pending events and queued addresses of a tree, which are read again. Queued accounts stay;
 * reading them again drops those that never existed.
 */
async function emptyQueues({ db }: StoreTx, { id }: TreeRow): Promise<void> {
  await (db as CompressionDb).deleteFrom('compression_pending').where('tree', '=', id).execute();
  await (db as CompressionDb).deleteFrom('compression_address_queue').where('tree', '=', id).execute();
}

interface MissingParts {
  readonly store: Store;
  readonly gaps: GapRecords;
  readonly reader: Pick<TreeReader, 'one'>;
  readonly processor: { readonly name: string; readonly version: number };
  /** Maximum number of updates that are fetched automatically. */
  readonly maxUpdates: number;
  /** First slot with a tree on this chain. */
  readonly firstSlot: () => Promise<number>;
  readonly log: Log;
}

/** Range to read: from the tree's current state, or its whole history. */
type Width = 'near' | 'whole';

/** Requests the transactions of trees after the ones in their rows. */
export interface MissingUpdates {
  /**
   * Requests the blocks after the rows of a tree, in one transaction with `also`, which gets the first requested slot.
   * False when the limit of automatic fetching is exceeded. Errors: those of store and reader.
   */
  ask(tree: TreeRow, width: Width, also?: (tx: StoreTx, fromSlot: number) => Promise<void>): Promise<boolean>;
  /** Whether the requested range is still being read. */
  isBeingRead(tree: TreeRow): Promise<boolean>;
}

export function createMissingUpdates(parts: MissingParts): MissingUpdates {
  const { store, gaps, processor, log } = parts;

  return {
    async ask(tree, width, also) {
      const count = await countMissing(parts, tree, width);
      const name = encode32(tree.key);
      if (count > parts.maxUpdates) {
        log.error(
          { tree: name, seq: tree.seq, missing: count },
          'a Merkle tree lacks more updates than are fetched automatically: load a snapshot, or run backfill',
        );
        return false;
      }
      const near = width === 'near' ? await nearSlot(store.read as CompressionDb, tree) : null;
      const fromSlot = near ?? (await parts.firstSlot());
      const gap = await store.write(async (tx) => {
        await also?.(tx, fromSlot);
        const db = tx.db as CompressionDb;
        const head = await db.selectFrom('compression_head').select('slot').executeTakeFirst();
        const toSlot = Math.max(fromSlot, head?.slot ?? 0);
        const request = { chain: 'main', processor, fromSlot, toSlot, addresses: addressesOf(tree) } as const;
        const id = await gaps.request(tx, request);
        await noteFill(tx, tree, id);
        return id;
      });
      log.warn({ tree: name, seq: tree.seq, fromSlot, gap }, 'missing updates of a Merkle tree are fetched');
      return true;
    },

    isBeingRead: (tree) => isBeingRead(parts, tree),
  };
}

/** Transactions that append to a V2 tree name only its queue. */
export function addressesOf({ key, queue, type }: Pick<TreeRow, 'key' | 'queue' | 'type'>): string[] {
  const tree = encode32(key);
  return type === TREE_TYPE.stateV2 && queue !== null ? [tree, encode32(queue)] : [tree];
}

/** An upper bound: some transactions change nothing. */
async function countMissing({ reader }: MissingParts, tree: TreeRow, width: Width): Promise<number> {
  const answer = await reader.one(tree.key);
  if (answer.kind !== 'tree') return 0;
  const { seq, nextIndex } = answer.tree;
  const isV1 = tree.type === TREE_TYPE.stateV1 || tree.type === TREE_TYPE.addressV1;
  const [theirs, ours] = isV1 ? [seq, tree.seq] : [nextIndex, tree.next_index];
  return Math.max(0, width === 'whole' ? theirs : theirs - ours);
}

/** A slot not after the first update missing in the rows; null when nothing is known of the tree yet. */
async function nearSlot(db: CompressionDb, tree: TreeRow): Promise<number | null> {
  const isV1 = tree.type === TREE_TYPE.stateV1 || tree.type === TREE_TYPE.addressV1;
  // Values were queued before they enter a V2 tree, for at most as long as the kept roots reach back.
  const root = await db
    .selectFrom('compression_roots')
    .select('slot')
    .where('tree', '=', tree.id)
    .orderBy('seq', isV1 ? 'desc' : 'asc')
    .limit(1)
    .executeTakeFirst();
  return root?.slot ?? null;
}

const noteOf = ({ id }: Pick<TreeRow, 'id'>): string => `fill:${id}`;

/** Stores the gap that was requested for a tree. */
export async function noteFill(tx: StoreTx, tree: Pick<TreeRow, 'id'>, gap: number): Promise<void> {
  await writeNote(tx, noteOf(tree), String(gap));
}

export interface ReadingParts {
  readonly store: Store;
  readonly gaps: GapRecords;
  readonly processor: { readonly name: string };
}

/** Whether the requested range is still being read. Errors: those of the store. */
export async function isBeingRead(parts: ReadingParts, tree: Pick<TreeRow, 'id'>): Promise<boolean> {
  return (await rangesBeingRead(parts, [tree])).size > 0;
}

/** The ranges that are being read for these trees, by the id of the tree. Errors: those of the store. */
export async function rangesBeingRead(
  { store, gaps, processor }: ReadingParts,
  trees: readonly Pick<TreeRow, 'id'>[],
): Promise<ReadonlyMap<number, ChainGap>> {
  const noted = await Promise.all(
    trees.map(async (tree) => [tree.id, await readNote(store.read as CompressionDb, noteOf(tree))] as const),
  );
  const asked = noted.flatMap(([tree, gap]) => (gap === null ? [] : [[tree, Number(gap)] as const]));
  if (asked.length === 0) return new Map();
  const open = await gaps.list({ chain: 'main', processor: processor.name, isOpen: true, limit: 1_000 });
  const byId = new Map(open.map((gap) => [gap.id, gap]));
  return new Map(
    asked.flatMap(([tree, id]) => {
      const gap = byId.get(id);
      return gap === undefined ? [] : [[tree, gap] as const];
    }),
  );
}
