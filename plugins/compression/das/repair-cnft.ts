import { encode32 } from '../../../src/lib/base58.ts';
import type { Clock, Log, Store, StoreTx } from '../../../src/plugin/plugin.ts';
import type { GapBook } from '../../../src/ports/gaps.ts';
import { isBeingRead, noteFill } from '../chain/missing-updates.ts';
import { canBeTakenBack } from '../indexing/block-books.ts';
import type { Db, TreeRow } from '../store/tables.ts';
import { HISTORY } from '../trees/hashing.ts';
import { pageRange } from '../trees/page-book.ts';
import { CONCURRENT_TREE, type ConcurrentHashing } from './cnft-block.ts';
import type { TreeHistory } from './tree-history.ts';

export interface CnftRepairParts {
  readonly store: Store;
  readonly gaps: GapBook;
  readonly hashing: ConcurrentHashing;
  readonly processor: { readonly name: string; readonly version: number };
  /** Changes of one tree that are fetched without being asked for. */
  readonly maxUpdates: number;
  readonly history: TreeHistory;
  /** Trees that are to be there whether a block names them or not. */
  readonly named: readonly Uint8Array[];
  readonly clock: Clock;
  readonly log: Log;
}

/** Brings concurrent trees back whose proofs are refused: has the transactions that name them read again. */
export interface CnftRepair {
  /** One look at all of them. Errors: those of the store. */
  pass(signal: AbortSignal): Promise<void>;
}

const RETRY_MS = 600_000;
/** Each try waits twice as long, up to this many times. */
const MOST_DOUBLINGS = 7;
const TREES_PER_PASS = 100;

interface Tries {
  count: number;
  /** Monotonic ms of the last one. */
  at: number;
  /** Newest slot when the tree was first seen like this. */
  readonly sinceSlot: number;
}

export function createCnftRepair(parts: CnftRepairParts): CnftRepair {
  const { store, gaps, clock, log } = parts;
  const tries = new Map<number, Tries>();

  let plantedAt: number | null = null;

  /** Not each time: a name may be wrong. */
  async function plantNamed(signal: AbortSignal): Promise<void> {
    if (plantedAt !== null && clock.monotonic() - plantedAt < RETRY_MS) return;
    await parts.history.plant(parts.named, signal);
    plantedAt = clock.monotonic();
  }

  /** Whether it was tried. */
  async function attempt(tree: TreeRow, { sinceSlot }: Tries, headSlot: number, goal: number | null): Promise<boolean> {
    const name = encode32(tree.key);
    const isWhole = tree.status === 'diverged';
    // Blocks that changed it and may still be taken back would put old rows over what is made anew.
    if (isWhole && (await canBeTakenBack(store.read as Db, sinceSlot))) return false;
    const missing = isWhole ? tree.seq : goal === null ? await countMissing(store.read as Db, tree) : goal - tree.seq;
    if (missing > parts.maxUpdates) {
      log.error(
        { tree: name, seq: tree.seq, missing },
        'a concurrent tree lacks more changes than are fetched unasked: run backfill',
      );
      return true;
    }
    const fromSlot = isWhole ? 0 : (tree.verified_slot ?? 0);
    const gap = await store.write(async (tx) => {
      if (isWhole) await resetTree(tx, parts.hashing, tree);
      const wish = { fromSlot, toSlot: Math.max(fromSlot, headSlot), addresses: [name] };
      const id = await gaps.request(tx, { chain: 'main', processor: parts.processor, ...wish });
      await noteFill(tx, tree, id);
      return id;
    });
    const facts = { tree: name, status: tree.status, reason: tree.reason, seq: tree.seq, fromSlot, gap };
    log.warn(facts, 'missing changes of a concurrent tree are fetched');
    return true;
  }

  return {
    async pass(signal) {
      const db = store.read as Db;
      await plantNamed(signal);
      const trees = await refusedTrees(db);
      for (const id of tries.keys()) if (!trees.some((tree) => tree.id === id)) tries.delete(id);
      const head = await db.selectFrom('compression_head').select('slot').executeTakeFirst();
      const headSlot = head?.slot ?? 0;
      for (const tree of trees) {
        signal.throwIfAborted();
        const isPast = tree.status === 'gap' && tree.reason === HISTORY;
        const goal = isPast ? await parts.history.goal(tree, signal) : null;
        if (goal !== null && tree.seq >= goal) await parts.history.complete(tree);
        if (isPast && (goal === null || tree.seq >= goal)) continue;
        const made = tries.get(tree.id) ?? { count: 0, at: 0, sinceSlot: headSlot };
        tries.set(tree.id, made);
        const waitMs = RETRY_MS * 2 ** Math.min(made.count - 1, MOST_DOUBLINGS);
        if (made.count > 0 && clock.monotonic() - made.at < waitMs) continue;
        if (await isBeingRead({ store, gaps, processor: parts.processor }, tree)) continue;
        if (!(await attempt(tree, made, headSlot, goal))) continue;
        made.count += 1;
        made.at = clock.monotonic();
      }
    },
  };
}

/** Those that something can be done for. */
async function refusedTrees(db: Db): Promise<TreeRow[]> {
  return await db
    .selectFrom('compression_trees')
    .selectAll()
    .where('type', '=', CONCURRENT_TREE)
    .where('status', 'in', ['gap', 'diverged'])
    .where((is) => is.or([is('reason', 'is', null), is('reason', 'not in', ['closed', 'prepared'])]))
    .orderBy('id')
    .limit(TREES_PER_PASS)
    .execute();
}

/** How many are lacking before the first that waits. */
async function countMissing(db: Db, { id, seq }: TreeRow): Promise<number> {
  const first = await db
    .selectFrom('compression_pending')
    .select((is) => is.fn.min('seq').as('seq'))
    .where('tree', '=', id)
    .where('seq', '>', seq)
    .executeTakeFirst();
  return Math.max(0, (first?.seq ?? seq) - seq - 1);
}

/**
 * Makes a tree empty again, as it was before its first change, so that all its changes can be read anew. Nothing else brings a diverged
 * concurrent tree back: what its leaves were is nowhere but in its pages. Steps that wait stay. Until its past has been read it has no proofs.
 */
export async function resetTree(
  { db: queries }: StoreTx,
  hashing: ConcurrentHashing,
  tree: { readonly id: number; readonly height: number },
): Promise<void> {
  const db = queries as Db;
  const { from, to } = pageRange(tree.id);
  await db.deleteFrom('compression_pages').where('id', '>=', from).where('id', '<=', to).execute();
  await db.deleteFrom('compression_assets').where('tree', '=', tree.id).execute();
  await db
    .updateTable('compression_trees')
    .set({
      ...{ seq: 0, root: hashing.emptyRoot(tree.height), next_index: 0, status: 'gap', reason: HISTORY },
      ...{ expected_root: null, computed_root: null, verified_seq: null, verified_slot: null },
    })
    .where('id', '=', tree.id)
    .execute();
}
