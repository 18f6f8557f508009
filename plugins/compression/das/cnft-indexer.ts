import type { Log } from '../../../src/kernel/plugin.ts';
import type { Counter } from '../../../src/ports/metrics.ts';
import type { TreeRow } from '../store/tables.ts';
import { HISTORY } from '../trees/history.ts';
import { createTreeAdmission } from './admit-trees.ts';
import { applySteps } from './apply-steps.ts';
import type { CnftBlock } from './cnft-block.ts';
import type { CnftBooks } from './cnft-books.ts';
import { CONCURRENT_TREE, type ConcurrentHashing } from './concurrent-tree.ts';
import { type LeafStep, pendingStep, STEP_KIND } from './leaf-step.ts';
import { logDivergence } from './log-divergence.ts';
import { someWait, stepsBehind, treesThatAreReady } from './waiting-steps.ts';

export interface CnftIndexer {
  /**
   * Changes trees, pages and assets in the books; the rows are the same whatever the order of blocks. `block` is null where nothing in it
   * concerns concurrent trees: steps that waited may be due all the same.
   */
  apply(books: CnftBooks, block: CnftBlock | null, options: CnftOptions): Promise<void>;
}

export interface CnftOptions {
  readonly slot: number;
  /** Those that new trees had before, by `keyText` of their keys. */
  readonly ids?: ReadonlyMap<string, number>;
}

export interface CnftIndexerParts {
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
