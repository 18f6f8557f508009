import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import { codeOf, type Log, messageOf, type Store } from '../../../src/plugin/plugin.ts';
import { readAtOneSlot, type TreeRow } from '../store/tables.ts';
import { type Hashing, HISTORY } from '../trees/hashing.ts';
import { seedTrees } from '../trees/tree-book.ts';
import {
  type ChainRoot,
  type ChainTree,
  changeTree,
  lockTree,
  readLightTrees,
  type TreeReader,
} from '../trees/tree-reader.ts';

/** Compares the trees with the chain. */
export interface RootCheck {
  /** One pass over every tree that changed since it was last verified. Errors: those of the store and of the reader. */
  pass(signal: AbortSignal): Promise<void>;
  /** Records the sequence number of the account at a slot: an index at `slot` must have reached it. */
  expect(key: Uint8Array, seq: number, slot: number): void;
}

interface RootCheckParts {
  readonly store: Store;
  readonly reader: Pick<TreeReader, 'one' | 'rootAt'>;
  /** Whether a tree has a wrong queue: a matching root alone is then not sufficient. */
  readonly isSuspect?: (tree: TreeRow) => boolean;
  readonly log: Log;
}

/** Accounts keep only the newest roots, and the tree advances while we read. */
const MAX_MARGIN = 100;

type Verdict = 'right' | 'wrong' | 'ahead' | 'unknown';

export function createRootCheck(parts: RootCheckParts): RootCheck {
  /** By tree: the sequence number of its last mismatch. A single one can be a reorg, or a node on another fork. */
  const doubts = new Map<number, number>();
  const expected = new Map<string, { readonly seq: number; readonly slot: number }>();

  function expect(key: Uint8Array, seq: number, slot: number): void {
    const name = encode32(key);
    const known = expected.get(name);
    // The oldest expectation that is not reached shows missing updates soonest.
    if (known === undefined) expected.set(name, { seq, slot });
  }

  async function check(tree: TreeRow, headSlot: number, signal: AbortSignal): Promise<void> {
    const capacity = tree.root_capacity ?? (await learnCapacity(parts, tree, signal));
    if (capacity === null) return;
    const found = await parts.reader.rootAt(tree, tree.seq, capacity, { signal, minSlot: headSlot });
    expect(tree.key, found.seq, found.slot);
    const verdict = judge(tree, found, capacity);
    const isSuspect = doubts.get(tree.id) === tree.seq;
    if (verdict === 'right' || verdict === 'unknown') doubts.delete(tree.id);
    else doubts.set(tree.id, tree.seq);
    if (verdict === 'right') await confirm(parts, tree, headSlot);
    else if (verdict !== 'unknown' && isSuspect) await refuse(parts, tree, found);
  }

  /** Whether the index has reached the expected sequence number; null while that is unknown. */
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
  if (seq - tree.seq >= capacity - Math.min(MAX_MARGIN, capacity / 2)) return 'unknown';
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

async function confirm({ store, log, isSuspect }: RootCheckParts, tree: TreeRow, headSlot: number): Promise<void> {
  await store.write(async (tx) => {
    const row = await lockTree(tx, tree.id);
    if (row === null || row.seq < tree.seq || row.status === 'diverged') return;
    // While the past is being filled only its end proves that nothing is missing.
    if (row.status === 'gap' && !(row.reason === HISTORY && isSame(row, tree))) return;
    if (row.status === 'gap' && isSuspect?.(tree) === true) return;
    if (row.status === 'gap') log.info({ tree: encode32(tree.key), seq: tree.seq }, 'the tree is complete');
    await changeTree(tx, tree.id, {
      status: 'ok',
      reason: null,
      expected_root: null,
      computed_root: null,
      verified_seq: tree.seq,
      verified_slot: headSlot,
    });
  });
}

async function refuse({ store, log }: RootCheckParts, tree: TreeRow, found: ChainRoot): Promise<void> {
  const isDone = await store.write(async (tx) => {
    const row = await lockTree(tx, tree.id);
    // A revert or a repair may have removed the mismatch.
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

export interface RefreshParts {
  readonly store: Store;
  readonly reader: Pick<TreeReader, 'one' | 'all'>;
  /** Newest slot of any upstream. */
  readonly newestSlot: () => Promise<number>;
  readonly hashing: Hashing;
  readonly check: Pick<RootCheck, 'expect'>;
  readonly log: Log;
}

/** Nodes of one pool differ by a few slots. */
const SPREAD_SLOTS = 32;

/**
 * Reads all tree accounts: adds unknown trees, and updates height, capacity, queue and successor of the others.
 * When a node refuses to list them, known trees are read one by one. Errors: those of store and reader.
 */
export async function refreshTrees(parts: RefreshParts, signal: AbortSignal): Promise<void> {
  const { store, check, newestSlot } = parts;
  const known = await readLightTrees(store.read);
  const trees = await readTrees(parts, known, signal);
  const slot = (await newestSlot()) + SPREAD_SLOTS;
  const names = new Set(known.map(({ key }) => encode32(key)));
  const missing = trees.filter(({ key }) => !names.has(encode32(key)));
  if (missing.length > 0) await store.write((tx) => seedTrees(tx, parts.hashing, missing));
  for (const row of known) {
    const tree = trees.find(({ key }) => equalBytes(key, row.key));
    if (tree !== undefined && !isCurrent(row, tree)) await update(parts, row, tree);
  }
  for (const { key, seq } of trees) check.expect(key, seq, slot);
}

async function readTrees(
  { reader, log }: RefreshParts,
  known: readonly TreeRow[],
  signal: AbortSignal,
): Promise<readonly ChainTree[]> {
  try {
    return await reader.all({ signal });
  } catch (error) {
    if (codeOf(error) !== 'CHAIN_RPC_ERROR') throw error;
    log.info({ error: messageOf(error) }, 'the upstream does not list the trees; known ones are read one by one');
  }
  const trees: ChainTree[] = [];
  for (const { key } of known) {
    const answer = await reader.one(key, { signal });
    if (answer.kind === 'tree') trees.push(answer.tree);
  }
  return trees;
}

const isSameKey = (a: Uint8Array | null, b: Uint8Array | null) =>
  a === null || b === null ? a === b : equalBytes(a, b);

const isCurrent = (row: TreeRow, tree: ChainTree): boolean =>
  row.height === tree.height &&
  row.root_capacity === tree.rootCapacity &&
  isSameKey(row.queue, tree.queue) &&
  isSameKey(row.next_tree, tree.nextTree);

async function update({ store, log }: RefreshParts, { id, key, height }: TreeRow, tree: ChainTree): Promise<void> {
  await store.write(async (tx) => {
    if ((await lockTree(tx, id)) === null) return;
    const { rootCapacity: root_capacity, queue, nextTree: next_tree } = tree;
    const facts = { root_capacity, queue, next_tree };
    // Pages stored for another height cannot be used: the root differs.
    const wrong = { ...facts, height: tree.height, status: 'diverged', reason: 'height' } as const;
    await changeTree(tx, id, tree.height === height ? facts : wrong);
  });
  if (tree.height !== height) log.error({ tree: encode32(key), height: tree.height }, 'the height of a tree was wrong');
}
