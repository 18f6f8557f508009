import type { Log, Store } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import { readAtOneSlot } from '../store/snapshot-read.ts';
import type { TreeRow } from '../store/tables.ts';
import { HISTORY } from '../trees/history.ts';
import type { ChainRoot, TreeReader } from './tree-reader.ts';
import { changeTree, lockTree, readLightTrees } from './tree-rows.ts';

/** Compares the trees with what the chain holds. */
export interface RootCheck {
  /** One look at every tree that changed since it was last found right. Errors: those of the store and of the reader. */
  pass(signal: AbortSignal): Promise<void>;
  /** What the chain's account said: whoever has indexed `slot` has to have come as far. */
  expect(key: Uint8Array, seq: number, slot: number): void;
}

export interface RootCheckParts {
  readonly store: Store;
  readonly reader: Pick<TreeReader, 'one' | 'rootAt'>;
  /** Whether something beside its root speaks against a tree: then the root alone does not bring it back. */
  readonly isDoubted?: (tree: TreeRow) => boolean;
  readonly log: Log;
}

/** Nodes keep the newest roots; while we read, the tree goes on. */
const MOST_MARGIN = 100;

type Verdict = 'right' | 'wrong' | 'ahead' | 'unknown';

export function createRootCheck(parts: RootCheckParts): RootCheck {
  /** By tree: the sequence number at which it was last found wrong. Once can be a fork, or a node on another one. */
  const doubts = new Map<number, number>();
  const expected = new Map<string, { readonly seq: number; readonly slot: number }>();

  function expect(key: Uint8Array, seq: number, slot: number): void {
    const name = encode32(key);
    const known = expected.get(name);
    // The oldest one that is not met yet says soonest that something is missing.
    if (known === undefined) expected.set(name, { seq, slot });
  }

  async function check(tree: TreeRow, headSlot: number, signal: AbortSignal): Promise<void> {
    const capacity = tree.root_capacity ?? (await learnCapacity(parts, tree, signal));
    if (capacity === null) return;
    const found = await parts.reader.rootAt(tree, tree.seq, capacity, { signal, minSlot: headSlot });
    expect(tree.key, found.seq, found.slot);
    const verdict = judge(tree, found, capacity);
    const isDoubted = doubts.get(tree.id) === tree.seq;
    if (verdict === 'right' || verdict === 'unknown') doubts.delete(tree.id);
    else doubts.set(tree.id, tree.seq);
    if (verdict === 'right') await confirm(parts, tree, headSlot);
    else if (verdict !== 'unknown' && isDoubted) await refuse(parts, tree, found);
  }

  /** Whether we have come as far as the chain was seen to be; null while that cannot be said. */
  function hasCome(tree: TreeRow, headSlot: number): boolean | null {
    const name = encode32(tree.key);
    const goal = expected.get(name);
    if (goal === undefined || goal.slot > headSlot) return null;
    expected.delete(name);
    return tree.seq >= goal.seq;
  }

  async function look(tree: TreeRow, headSlot: number, signal: AbortSignal): Promise<void> {
    const hasAll = hasCome(tree, headSlot);
    if (hasAll === false) await reportMissing(parts, tree);
    if (tree.status === 'gap' && tree.reason === HISTORY) {
      if (hasAll === true) await check(tree, headSlot, signal);
      else if (hasAll === false || !expected.has(encode32(tree.key))) await askGoal(tree, signal);
      return;
    }
    const isDue = tree.status === 'unverified' || (tree.status === 'ok' && tree.verified_seq !== tree.seq);
    if (isDue && hasAll !== false) await check(tree, headSlot, signal);
  }

  async function askGoal(tree: TreeRow, signal: AbortSignal): Promise<void> {
    const answer = await parts.reader.one(tree.key, { signal });
    if (answer.kind === 'tree') expect(tree.key, answer.tree.seq, answer.slot);
  }

  return {
    expect,
    async pass(signal) {
      const { slot, value } = await readAtOneSlot(parts.store, readLightTrees);
      for (const tree of slot > 0 ? value : []) {
        signal.throwIfAborted();
        await look(tree, slot, signal);
      }
    },
  };
}

function judge(tree: TreeRow, { seq, root }: ChainRoot, capacity: number): Verdict {
  if (root === null) return 'unknown';
  if (seq < tree.seq) return 'ahead';
  if (seq - tree.seq >= capacity - Math.min(MOST_MARGIN, capacity / 2)) return 'unknown';
  return equalBytes(root, tree.root) ? 'right' : 'wrong';
}

async function learnCapacity({ reader, store }: RootCheckParts, tree: TreeRow, signal: AbortSignal) {
  const answer = await reader.one(tree.key, { signal });
  if (answer.kind !== 'tree') return null;
  const { rootCapacity, nextTree } = answer.tree;
  await store.write((tx) => changeTree(tx, tree.id, { root_capacity: rootCapacity, next_tree: nextTree }));
  return rootCapacity;
}

const isSame = (row: TreeRow | null, tree: TreeRow): row is TreeRow =>
  row !== null && row.seq === tree.seq && equalBytes(row.root, tree.root);

async function confirm({ store, log, isDoubted }: RootCheckParts, tree: TreeRow, headSlot: number): Promise<void> {
  await store.write(async (tx) => {
    const row = await lockTree(tx, tree.id);
    if (row === null || row.seq < tree.seq || row.status === 'diverged') return;
    // Of a past that is being filled in only the end proves that nothing is missing.
    if (row.status === 'gap' && !(row.reason === HISTORY && isSame(row, tree))) return;
    if (row.status === 'gap' && isDoubted?.(tree) === true) return;
    if (row.status === 'gap') log.info({ tree: encode32(tree.key), seq: tree.seq }, 'the tree is complete');
    await changeTree(tx, tree.id, {
      ...{ status: 'ok', reason: null, expected_root: null, computed_root: null },
      ...{ verified_seq: tree.seq, verified_slot: headSlot },
    });
  });
}

async function refuse({ store, log }: RootCheckParts, tree: TreeRow, found: ChainRoot): Promise<void> {
  const isDone = await store.write(async (tx) => {
    const row = await lockTree(tx, tree.id);
    // A roll-back, or a repair, may have taken away what was found wrong.
    if (row === null || row.seq < tree.seq || row.status === 'diverged' || row.status === 'gap') return false;
    if (row.seq === tree.seq && !isSame(row, tree)) return false;
    const { root: expected_root } = found;
    await changeTree(tx, tree.id, { status: 'diverged', reason: 'root', expected_root, computed_root: tree.root });
    return true;
  });
  if (!isDone) return;
  const expected = found.root === null ? null : encode32(found.root);
  const facts = {
    tree: encode32(tree.key),
    seq: tree.seq,
    chainSeq: found.seq,
    expected,
    computed: encode32(tree.root),
  };
  log.error(facts, 'a Merkle tree has diverged from the chain; its proofs are withheld');
}

async function reportMissing({ store, log }: RootCheckParts, tree: TreeRow): Promise<void> {
  const isDone = await store.write(async (tx) => {
    const row = await lockTree(tx, tree.id);
    if (row === null || row.seq > tree.seq || row.status === 'diverged' || row.status === 'gap') return false;
    await changeTree(tx, tree.id, { status: 'gap', reason: HISTORY });
    return true;
  });
  if (isDone) log.warn({ tree: encode32(tree.key), seq: tree.seq }, 'updates of a Merkle tree are missing');
}
