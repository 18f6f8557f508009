import { encode32 } from '../../../src/lib/base58.ts';
import { LayoutError } from '../../../src/lib/bytes.ts';
import {
  type ChainReader,
  type Clock,
  type Log,
  messageOf,
  type Store,
  type StoreTx,
} from '../../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import type { GapRecords } from '../../../src/ports/following.ts';
import { backoffMs } from '../../../src/runtime/waiting.ts';
import {
  CONCURRENT_HEADER_BYTES,
  CONCURRENT_PROGRAMS,
  readConcurrentTree,
} from '../../../src/solana/concurrent/tree.ts';
import { canBeReverted } from '../indexing/block-books.ts';
import { CONCURRENT_TREE, type ConcurrentHashing } from '../indexing/cnft.ts';
import { createRowBook, INDEXED_LEAVES, TREES } from '../store/row-book.ts';
import { absentNote, type CompressionDb, LEAF_STATE, type TreeRow, writeNote } from '../store/tables.ts';
import { type Hashing, HISTORY } from '../trees/hashing.ts';
import { createPageBook, pageRange } from '../trees/page-book.ts';
import { createTreeBook } from '../trees/tree-book.ts';
import { isBeingRead, noteFill } from './repair.ts';

export interface CnftRepairParts {
  readonly store: Store;
  readonly gaps: GapRecords;
  readonly hashing: ConcurrentHashing;
  readonly processor: { readonly name: string; readonly version: number };
  /** Maximum number of changes of one tree that are fetched automatically. */
  readonly maxUpdates: number;
  readonly history: TreeHistory;
  /** Trees that are indexed before a block names them. */
  readonly named: readonly Uint8Array[];
  readonly clock: Clock;
  readonly log: Log;
}

/** Repairs concurrent trees whose proofs are withheld: requests their transactions again. */
export interface CnftRepair {
  /** One pass over all of them. Errors: those of the store. */
  pass(signal: AbortSignal): Promise<void>;
}

const RETRY_MS = 600_000;
const RETRY_BACKOFF = { firstMs: RETRY_MS, longestMs: 128 * RETRY_MS };
const TREES_PER_PASS = 100;

interface Tries {
  count: number;
  /** Monotonic ms of the last attempt. */
  at: number;
  /** Newest slot when the tree was first seen in this state. */
  readonly sinceSlot: number;
}

export function createCnftRepair(parts: CnftRepairParts): CnftRepair {
  const { store, gaps, clock, log } = parts;
  const tries = new Map<number, Tries>();

  let plantedAt: number | null = null;

  /** Not each time: a configured tree may not exist. */
  async function plantNamed(signal: AbortSignal): Promise<void> {
    if (plantedAt !== null && clock.monotonic() - plantedAt < RETRY_MS) return;
    await parts.history.plant(parts.named, signal);
    plantedAt = clock.monotonic();
  }

  /** Whether an attempt was made. */
  async function attempt(tree: TreeRow, { sinceSlot }: Tries, headSlot: number, goal: number | null): Promise<boolean> {
    const name = encode32(tree.key);
    const isWhole = tree.status === 'diverged';
    // Reverting blocks would restore old rows over the rebuilt ones.
    if (isWhole && (await canBeReverted(store.read as CompressionDb, sinceSlot))) return false;
    const missing = isWhole
      ? tree.seq
      : goal === null
        ? await countMissing(store.read as CompressionDb, tree)
        : goal - tree.seq;
    if (missing > parts.maxUpdates) {
      log.error(
        { tree: name, seq: tree.seq, missing },
        'a concurrent tree lacks more changes than are fetched automatically: run backfill',
      );
      return true;
    }
    const fromSlot = isWhole ? 0 : (tree.verified_slot ?? 0);
    const gap = await store.write(async (tx) => {
      if (isWhole) await resetTree(tx, parts.hashing, tree);
      const request = { fromSlot, toSlot: Math.max(fromSlot, headSlot), addresses: [name] };
      const id = await gaps.request(tx, { chain: 'main', processor: parts.processor, ...request });
      await noteFill(tx, tree, id);
      return id;
    });
    const facts = { tree: name, status: tree.status, reason: tree.reason, seq: tree.seq, fromSlot, gap };
    log.warn(facts, 'missing changes of a concurrent tree are fetched');
    return true;
  }

  return {
    async pass(signal) {
      const db = store.read as CompressionDb;
      await plantNamed(signal);
      const missingTo = await gaps.missingTo(store.read, 'main', parts.processor.name);
      if (missingTo !== null) await parts.history.verifyIdle(missingTo, signal);
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
        if (made.count > 0 && clock.monotonic() - made.at < backoffMs(made.count, null, RETRY_BACKOFF)) continue;
        if (await isBeingRead({ store, gaps, processor: parts.processor }, tree)) continue;
        if (!(await attempt(tree, made, headSlot, goal))) continue;
        made.count += 1;
        made.at = clock.monotonic();
      }
    },
  };
}

/** Trees that can be repaired. */
async function refusedTrees(db: CompressionDb): Promise<TreeRow[]> {
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

/** Number of missing changes before the first pending one. */
async function countMissing(db: CompressionDb, { id, seq }: TreeRow): Promise<number> {
  const first = await db
    .selectFrom('compression_pending')
    .select((is) => is.fn.min('seq').as('seq'))
    .where('tree', '=', id)
    .where('seq', '>', seq)
    .executeTakeFirst();
  return Math.max(0, (first?.seq ?? seq) - seq - 1);
}

/**
 * Resets a tree to before its first change, so that all its changes can be read again. A diverged
 * concurrent tree has no other repair: its leaves are only in its pages. Pending steps stay. It has no proofs until its past has been read.
 */
export async function resetTree(
  { db: queries }: StoreTx,
  hashing: ConcurrentHashing,
  tree: { readonly id: number; readonly height: number },
): Promise<void> {
  const db = queries as CompressionDb;
  const { from, to } = pageRange(tree.id);
  await db.deleteFrom('compression_pages').where('id', '>=', from).where('id', '<=', to).execute();
  // Known ids stay, so that they are withheld and not unknown until their changes have been read again.
  await db
    .updateTable('compression_assets')
    .set({ state: LEAF_STATE.unknown, seq: 0, leaf_seq: 0 })
    .where('tree', '=', tree.id)
    .execute();
  await db.deleteFrom('compression_changes').where('tree', '=', tree.id).execute();
  await db
    .updateTable('compression_trees')
    .set({
      seq: 0,
      root: hashing.emptyRoot(tree.height),
      next_index: 0,
      status: 'gap',
      reason: HISTORY,
      expected_root: null,
      computed_root: null,
      verified_seq: null,
      verified_slot: null,
    })
    .where('id', '=', tree.id)
    .execute();
}

interface TreeHistoryParts {
  readonly store: Store;
  readonly account: TreeAccountReader;
  readonly hashing: ConcurrentHashing;
  readonly lightHashing: Hashing;
  readonly log: Log;
}

/** Determines where the past of trees ends. */
export interface TreeHistory {
  /** Adds trees that no block has named yet, from the chain. Errors: those of the store; an unreachable chain is retried. */
  plant(keys: readonly Uint8Array[], signal: AbortSignal): Promise<void>;
  /**
   * Looks up the trees whose newest known change lies below `missing`, the newest slot of a missing block: one that the chain shows with the
   * same sequence number is known up to now, and one with a greater one lacks changes. Errors: those of the store.
   */
  verifyIdle(missing: number, signal: AbortSignal): Promise<void>;
  /** The sequence number at which the past of a tree ends; null when the chain does not report it. */
  goal(tree: TreeRow, signal: AbortSignal): Promise<number | null>;
  /** The past of the tree has been read: its proofs are available again. */
  complete(tree: TreeRow): Promise<void>;
}

export function createTreeHistory({ store, account, hashing, lightHashing, log }: TreeHistoryParts): TreeHistory {
  /** By key: the sequence number of the account at the first look-up. */
  const goals = new Map<string, number>();

  /** Undefined while the chain cannot be asked. */
  async function ask(key: Uint8Array, signal: AbortSignal): Promise<TreeNow | undefined> {
    try {
      return await account(key, signal);
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ tree: encode32(key), error: messageOf(error) }, 'the account of a concurrent tree cannot be read');
      return undefined;
    }
  }

  async function plantOne(key: Uint8Array, { height, seq }: TreeState, slot: number): Promise<void> {
    await store.write(async (tx) => {
      const [treeRows, leaves, pages] = [
        createRowBook(tx, TREES),
        createRowBook(tx, INDEXED_LEAVES),
        createPageBook(tx),
      ];
      const trees = createTreeBook({ tx, hashing: lightHashing, trees: treeRows, leaves, pages });
      await trees.load([key]);
      if (trees.find(key) !== null) return;
      await trees.insert([{ key, type: CONCURRENT_TREE, queue: null, height, rootCapacity: null, nextTree: null }]);
      const { id } = trees.find(key) as TreeRow;
      const status = seq === 0 ? { status: 'unverified', verified_slot: slot } : { status: 'gap', reason: HISTORY };
      trees.change(id, { root: hashing.emptyRoot(height), ...status });
      await treeRows.flush();
    });
  }

  return {
    async plant(keys, signal) {
      if (keys.length === 0) return;
      const rows = await (store.read as CompressionDb)
        .selectFrom('compression_trees')
        .select('key')
        .where('key', 'in', [...keys])
        .execute();
      const known = new Set(rows.map((row) => encode32(row.key)));
      for (const key of keys) {
        const found = known.has(encode32(key)) ? undefined : await ask(key, signal);
        if (found === undefined) continue;
        const { state, slot } = found;
        if (state !== null) await plantOne(key, state, slot);
        else await store.write((tx) => writeNote(tx, absentNote(key), String(slot)));
      }
    },
    async verifyIdle(missing, signal) {
      const trees = await idleTrees(store.read as CompressionDb, missing);
      for (const tree of trees) {
        const found = await ask(tree.key, signal);
        if (found?.state == null) continue;
        const { slot, seq } = { slot: found.slot, seq: found.state.seq };
        await store.write(async (tx) => {
          const db = tx.db as CompressionDb;
          const head = await db.selectFrom('compression_head').select('slot').executeTakeFirst();
          // What the account shows may not have been indexed yet.
          if (head === undefined || head.slot < slot) return;
          const same = db
            .updateTable('compression_trees')
            .where('id', '=', tree.id)
            .where('status', 'in', ['ok', 'unverified']);
          if (await same.set({ verified_slot: slot }).where('seq', '=', seq).executeTakeFirst().then(wasUpdated))
            return;
          const isBehind = await same.set({ status: 'gap', reason: HISTORY }).where('seq', '<', seq).executeTakeFirst();
          if (wasUpdated(isBehind))
            log.warn(
              { tree: encode32(tree.key), seq: tree.seq, onChain: seq },
              'changes of a concurrent tree are missing',
            );
        });
      }
    },
    async goal(tree, signal) {
      const name = encode32(tree.key);
      const known = goals.get(name);
      if (known !== undefined) return known;
      const state = (await ask(tree.key, signal))?.state ?? null;
      if (state !== null) goals.set(name, state.seq);
      return state?.seq ?? null;
    },
    async complete({ id, key, seq }) {
      const { numUpdatedRows } = await store.write(async (tx) => {
        const updated = await (tx.db as CompressionDb)
          .updateTable('compression_trees')
          .set({ status: 'ok', reason: null })
          .where('id', '=', id)
          .where('status', '=', 'gap')
          .where('reason', '=', HISTORY)
          .where('seq', '>=', seq)
          .executeTakeFirst();
        // Assets that were known before a reset, and that no change has named since.
        if (wasUpdated(updated))
          await (tx.db as CompressionDb)
            .deleteFrom('compression_assets')
            .where('tree', '=', id)
            .where('seq', '=', 0)
            .execute();
        return updated;
      });
      goals.delete(encode32(key));
      if (numUpdatedRows > 0n) log.info({ tree: encode32(key), seq }, 'the past of a concurrent tree is complete');
    },
  };
}

const wasUpdated = ({ numUpdatedRows }: { readonly numUpdatedRows: bigint }): boolean => numUpdatedRows > 0n;

/** Trees whose newest known change lies below a block that is missing. */
async function idleTrees(db: CompressionDb, missing: number): Promise<TreeRow[]> {
  return await db
    .selectFrom('compression_trees')
    .selectAll()
    .where('type', '=', CONCURRENT_TREE)
    .where('status', 'in', ['ok', 'unverified'])
    .where((is) => is.or([is('verified_slot', 'is', null), is('verified_slot', '<', missing)]))
    .orderBy('id')
    .limit(TREES_PER_PASS)
    .execute();
}

/** Current contents of a concurrent tree account. */
interface TreeState {
  readonly height: number;
  readonly seq: number;
}

interface TreeNow {
  /** Slot at which the account was read. */
  readonly slot: number;
  /** Null when the tree does not exist. */
  readonly state: TreeState | null;
}

/** Errors: CHAIN_RPC_ERROR, CHAIN_UNREACHABLE, CHAIN_TIMEOUT. */
export type TreeAccountReader = (key: Uint8Array, signal: AbortSignal) => Promise<TreeNow>;

const TIMEOUT_MS = 10_000;

export function createTreeAccountReader(chain: ChainReader, commitment: 'confirmed' | 'finalized'): TreeAccountReader {
  const dataSlice = { offset: 0, length: CONCURRENT_HEADER_BYTES };
  return async (key, signal) => {
    const { context, value } = await chain.call<{
      readonly context: { readonly slot: number };
      readonly value: { readonly data: [string, string]; readonly owner: string } | null;
    }>('getAccountInfo', [encode32(key), { encoding: 'base64', commitment, dataSlice }], {
      signal,
      timeoutMs: TIMEOUT_MS,
      tenant: OWN_WORK,
    });
    const { slot } = context;
    if (value === null || !CONCURRENT_PROGRAMS.includes(value.owner)) return { slot, state: null };
    try {
      const { height, seq } = readConcurrentTree(Buffer.from(value.data[0], 'base64'));
      return { slot, state: { height, seq: Number(seq) } };
    } catch (error) {
      if (error instanceof LayoutError) return { slot, state: null };
      throw error;
    }
  };
}
