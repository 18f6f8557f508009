import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import type { Log, StoreTx } from '../../../src/plugin/plugin.ts';
import type { Counter } from '../../../src/ports/metrics.ts';
import { assetId } from '../../../src/solana/concurrent/tree.ts';
import type { UpdatedTree } from '../../../src/solana/merkle/update-trees.ts';
import type { RowBook } from '../store/row-book.ts';
import type { AssetRow, Db, Tables, TreeRow } from '../store/tables.ts';
import { HISTORY } from '../trees/hashing.ts';
import type { PageBook } from '../trees/page-book.ts';
import type { TreeBook } from '../trees/tree-book.ts';
import {
  type CnftBlock,
  CONCURRENT_TREE,
  type ConcurrentHashing,
  type LeafStep,
  pendingStep,
  STEP_KIND,
  stepOf,
} from './cnft-block.ts';

export interface CnftIndexer {
  /**
   * Changes trees, pages and assets in the books; the rows are the same whatever the order of blocks. `block` is null where nothing in it
   * concerns concurrent trees: steps that waited may be due all the same.
   */
  apply(books: CnftBooks, block: CnftBlock | null, options: CnftOptions): Promise<void>;
}

interface CnftOptions {
  readonly slot: number;
  /** Those that new trees had before, by `keyText` of their keys. */
  readonly ids?: ReadonlyMap<string, number>;
}

interface CnftIndexerParts {
  readonly hashing: ConcurrentHashing;
  readonly log: Log;
  /** Counts changes that cannot be read. */
  readonly faults: Pick<Counter, 'add'>;
  /** Counts changes that were applied. */
  readonly changes: Pick<Counter, 'add'>;
}

/** Steps of one tree that one block takes of those that waited. */
const MOST_WAITING = 1_000;
const MOST_READY = 4;
/** Another process may have filled a hole: so often it is looked for what is ready. */
const LOOK_SLOTS = 64;

export function createCnftIndexer({ hashing, log, faults, changes }: CnftIndexerParts): CnftIndexer {
  const admit = createTreeAdmission({ hashing, log, faults });
  /** Whether the next step of a tree may be among those that wait, as far as this thread knows. */
  let mayBeReady = true;

  /** Trees whose next step waits: more of them were due than one block takes. */
  async function ready({ tx, trees }: CnftBooks, { slot }: CnftOptions): Promise<number[]> {
    if (!(mayBeReady || slot % LOOK_SLOTS === 0)) return [];
    const keys = await treesThatAreReady(tx, MOST_READY);
    if (keys.length < MOST_READY)
      tx.onCommit(() => {
        mayBeReady = false;
      });
    await trees.load(keys);
    return keys.flatMap((key) => trees.find(key)?.id ?? []);
  }

  /** What waited comes behind what is new. */
  async function addWaiting(
    { tx, trees }: CnftBooks,
    id: number,
    fresh: readonly LeafStep[],
  ): Promise<readonly LeafStep[]> {
    const { seq, status } = trees.byId(id);
    if (status === 'diverged') return fresh;
    const next = endOfRun(seq, fresh);
    if (next === seq && fresh.length > 0) return fresh;
    const behind = await stepsBehind(tx, id, next, MOST_WAITING);
    if (behind.length === MOST_WAITING) mayBeReady = true;
    const known = new Set(fresh.map((step) => step.seq));
    return [...fresh, ...behind.filter((step) => !known.has(step.seq))].sort((a, b) => a.seq - b.seq);
  }

  /** Applies what follows on; the rest waits. */
  async function settle(books: CnftBooks, id: number, steps: readonly LeafStep[]): Promise<void> {
    const { trees, pending } = books;
    const before = trees.byId(id);
    const run = before.status === 'diverged' ? [] : steps.slice(0, endOfRun(before.seq, steps) - before.seq);
    const applied = applySteps(books, hashing, id, run);
    changes.add(applied);
    for (const { seq } of steps.slice(0, applied)) pending.remove(id, seq, STEP_KIND);
    wait(books, id, steps.slice(applied));
    const now = trees.byId(id);
    if (now.status === 'diverged') {
      if (before.status !== 'diverged') logDivergence(log, now);
      return;
    }
    // Only the account says where such a past ends.
    if (before.status === 'gap' && before.reason === HISTORY) return;
    const waits = steps.length > applied || (before.status === 'gap' && (await someWait(books.tx, id, now.seq)));
    trees.change(id, { status: waits ? 'gap' : 'ok', reason: null });
  }

  return {
    async apply(books, block, options) {
      if (block !== null) await admit(books, block, options.ids);
      const fresh = block === null ? new Map<number, readonly LeafStep[]>() : newSteps(books, block);
      const due = new Map<number, readonly LeafStep[]>();
      for (const id of new Set([...fresh.keys(), ...(await ready(books, options))]))
        due.set(id, await addWaiting(books, id, fresh.get(id) ?? []));
      if (due.size === 0) return;
      await loadFor(books, due);
      for (const [id, steps] of due) await settle(books, id, steps);
    },
  };
}

/** The sequence number that a tree gets to with steps that follow on. */
function endOfRun(seq: number, steps: readonly LeafStep[]): number {
  let end = seq;
  for (const step of steps) {
    if (step.seq !== end + 1) break;
    end += 1;
  }
  return end;
}

function wait({ pending }: CnftBooks, id: number, steps: readonly LeafStep[]): void {
  for (const step of steps) if (pending.get(id, step.seq, STEP_KIND) === null) pending.put(pendingStep(id, step));
}

/** Steps that are not applied yet, by tree, ascending, each once. */
function newSteps({ trees }: CnftBooks, { steps }: CnftBlock): Map<number, readonly LeafStep[]> {
  const byTree = new Map<number, Map<number, LeafStep>>();
  for (const { key, step } of steps) {
    const row = trees.find(key);
    if (row === null || row.type !== CONCURRENT_TREE || step.seq <= row.seq || isOver(row)) continue;
    const list = byTree.get(row.id) ?? new Map<number, LeafStep>();
    byTree.set(row.id, list.set(step.seq, step));
  }
  return new Map([...byTree].map(([id, list]) => [id, [...list.values()].sort((a, b) => a.seq - b.seq)]));
}

/** Nothing will ever bring such a tree back. */
const isOver = ({ status, reason }: TreeRow): boolean =>
  status === 'diverged' && (reason === 'closed' || reason === 'prepared');

async function loadFor(books: CnftBooks, due: ReadonlyMap<number, readonly LeafStep[]>): Promise<void> {
  const { trees, pages, assets, pending } = books;
  const lists = [...due];
  const damaged = await pages.load(
    lists.map(([id, steps]) => ({
      ...{ id, height: trees.byId(id).height },
      leaves: steps.map(({ leafIndex, leaf }) => ({ index: leafIndex, hash: leaf })),
    })),
  );
  for (const id of damaged)
    if (due.has(id) && trees.byId(id).status !== 'diverged') trees.change(id, { status: 'diverged', reason: 'page' });
  await assets.load(lists.flatMap(([, steps]) => steps.flatMap(({ asset }) => (asset === null ? [] : [[asset.id]]))));
  await pending.load(lists.flatMap(([id, steps]) => steps.map(({ seq }) => [id, seq, STEP_KIND])));
}

interface AdmissionParts {
  readonly hashing: ConcurrentHashing;
  readonly log: Log;
  readonly faults: Pick<Counter, 'add'>;
}

type TreeIds = ReadonlyMap<string, number>;

/** Ids of trees have 16 bits in the ids of pages; some are left to the Light programs. */
const MOST_TREES = 60_000;

/**
 * Adds the trees that a block names for the first time, and turns away from those that can no longer be followed. Afterwards all of them
 * are loaded.
 */
function createTreeAdmission({ hashing, log, faults }: AdmissionParts) {
  async function insert({ tx, trees }: CnftBooks, block: CnftBlock, ids?: TreeIds): Promise<void> {
    const fresh = new Map(
      block.trees.filter(({ key }) => trees.find(key) === null).map((tree) => [encode32(tree.key), tree]),
    );
    if (fresh.size === 0) return;
    const last = await (tx.db as Db)
      .selectFrom('compression_trees')
      .select((is) => is.fn.max('id').as('id'))
      .executeTakeFirst();
    if ((last?.id ?? 0) + fresh.size > MOST_TREES) {
      log.error({ most: MOST_TREES }, 'no more concurrent trees fit the index: name those that matter');
      return;
    }
    await trees.insert([...fresh.values()], ids);
    for (const { key, height } of fresh.values()) {
      const { id } = trees.find(key) as TreeRow;
      trees.change(id, { root: hashing.emptyRoot(height) });
    }
  }

  function suspect({ trees }: CnftBooks, { suspects, trees: named, slot }: CnftBlock): void {
    const odd = named.flatMap(({ key, height }) =>
      trees.find(key)?.height === height ? [] : [{ key, reason: 'height' }],
    );
    for (const { key, reason } of [...odd, ...suspects]) {
      const row = trees.find(key);
      if (row === null || row.type !== CONCURRENT_TREE || row.reason === reason) continue;
      trees.change(row.id, { status: 'diverged', reason });
      log.warn({ tree: encode32(key), slot, reason }, 'a concurrent tree can no longer be followed');
    }
  }

  return async (books: CnftBooks, block: CnftBlock, ids?: TreeIds): Promise<void> => {
    await books.trees.load([...block.trees, ...block.suspects].map(({ key }) => key));
    await insert(books, block, ids);
    suspect(books, block);
    for (const fault of block.faults)
      log.warn({ ...fault, slot: block.slot }, 'a change of a concurrent tree cannot be read');
    faults.add(block.faults.length);
  };
}

interface StepBooks {
  readonly trees: TreeBook;
  readonly pages: PageBook;
  readonly assets: RowBook<AssetRow>;
}

/**
 * Applies steps that follow each other from where the tree stands, up to the first that leads to another root than it says: that makes
 * the tree diverged. Returns how many it took. Pages and assets of the steps must be loaded.
 */
function applySteps(books: StepBooks, hashing: ConcurrentHashing, id: number, steps: readonly LeafStep[]): number {
  const update = (part: readonly LeafStep[]): UpdatedTree => {
    const leaves = part.map(({ leafIndex, leaf }) => ({ index: leafIndex, hash: leaf }));
    return hashing.update(books.trees.byId(id).height, leaves, (page) => books.pages.page(id, page));
  };
  const last = steps.at(-1);
  if (last === undefined) return 0;
  // The last root witnesses all steps before it; only when it does not, the bad one is looked for.
  const all = update(steps);
  if (equalBytes(all.root, last.root)) {
    accept(books, id, steps, all);
    return steps.length;
  }
  for (const [at, step] of steps.entries()) {
    const one = update([step]);
    if (!equalBytes(one.root, step.root)) {
      books.trees.change(id, {
        ...{ status: 'diverged', reason: 'root' },
        ...{ expected_root: Uint8Array.from(step.root), computed_root: Uint8Array.from(one.root) },
      });
      return at;
    }
    accept(books, id, [step], one);
  }
  throw new Error('steps that all lead to their roots do not lead to the last one');
}

function accept(books: StepBooks, id: number, steps: readonly LeafStep[], updated: UpdatedTree): void {
  books.pages.accept(id, updated);
  const tree = books.trees.byId(id);
  const last = steps.at(-1) as LeafStep;
  books.trees.change(id, {
    ...{ seq: last.seq, root: Uint8Array.from(updated.root), verified_seq: last.seq, verified_slot: last.slot },
    next_index: steps.reduce((next, { leafIndex }) => Math.max(next, leafIndex + 1), tree.next_index),
  });
  for (const step of steps) keepAsset(books, tree, step);
}

/** A leaf may claim to be any asset; it is one only when Bubblegum derives the id from this tree. */
function keepAsset({ assets }: StepBooks, tree: TreeRow, { asset, leafIndex, leaf, seq }: LeafStep): void {
  if (asset === null) return;
  const known = assets.get(asset.id);
  // One that is known here was derived before, and no other tree can have its id.
  if (known?.tree !== tree.id && !equalBytes(assetId(tree.key, asset.nonce), asset.id)) return;
  const [id, copy] = [Uint8Array.from(asset.id), Uint8Array.from(leaf)];
  assets.put({ id, tree: tree.id, leaf_index: leafIndex, leaf: copy, seq });
}

/** Steps that wait, as far as they follow `seq` without a hole, at most `most`. */
async function stepsBehind({ db }: StoreTx, tree: number, seq: number, most: number): Promise<LeafStep[]> {
  const rows = await (db as Db)
    .selectFrom('compression_pending')
    .selectAll()
    .where('tree', '=', tree)
    .where('seq', '>', seq)
    .where('seq', '<=', seq + most)
    .where('kind', '=', STEP_KIND)
    .orderBy('seq')
    .execute();
  return rows.filter((row, at) => row.seq === seq + 1 + at).map(stepOf);
}

/** Whether a step waits behind this one. */
async function someWait({ db }: StoreTx, tree: number, seq: number): Promise<boolean> {
  const row = await (db as Db)
    .selectFrom('compression_pending')
    .select('seq')
    .where('tree', '=', tree)
    .where('seq', '>', seq)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/** Keys of trees whose next step waits, at most `most`. */
async function treesThatAreReady({ db }: StoreTx, most: number): Promise<Uint8Array[]> {
  const rows = await (db as Db)
    .selectFrom('compression_trees as t')
    .innerJoin('compression_pending as p', (join) => join.onRef('p.tree', '=', 't.id'))
    .select('t.key')
    .where('t.type', '=', CONCURRENT_TREE)
    .where('t.status', '!=', 'diverged')
    .whereRef('p.seq', '=', (is) => is('t.seq', '+', 1))
    .limit(most)
    .execute();
  return rows.map(({ key }) => key);
}

/** The books of a block, as far as concurrent trees go. */
interface CnftBooks extends StepBooks {
  readonly tx: StoreTx;
  readonly pending: RowBook<Tables['compression_pending']>;
}

/** Says that a tree is not the chain's any more. */
function logDivergence(log: Log, { key, seq, reason, expected_root, computed_root }: TreeRow): void {
  const text = (root: Uint8Array | null) => (root === null ? null : encode32(root));
  log.error(
    { tree: encode32(key), seq, reason, expectedRoot: text(expected_root), computedRoot: text(computed_root) },
    'a concurrent tree has diverged from the chain',
  );
}
