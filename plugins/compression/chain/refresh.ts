import { codeOf, type Log, messageOf, type Store } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/equal-bytes.ts';
import type { TreeRow } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { seedTrees } from '../trees/seed-trees.ts';
import type { RootCheck } from './root-check.ts';
import type { ChainTree, TreeReader } from './tree-reader.ts';
import { changeTree, lockTree, readLightTrees } from './tree-rows.ts';

export interface RefreshParts {
  readonly store: Store;
  readonly reader: Pick<TreeReader, 'one' | 'all'>;
  /** Newest slot that any upstream tells. */
  readonly newestSlot: () => Promise<number>;
  readonly hashing: Hashing;
  readonly check: Pick<RootCheck, 'expect'>;
  readonly log: Log;
}

/** Nodes of one pool do not stand at one slot. */
const SPREAD_SLOTS = 32;

/**
 * Reads all tree accounts: trees that are not known yet are added, height, capacity, queue and successor of the others brought up to
 * date. Where a node refuses to list them, those that are known are read one by one. Errors: those of store and reader.
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

const isSame = (a: Uint8Array | null, b: Uint8Array | null) => (a === null || b === null ? a === b : equalBytes(a, b));

const isCurrent = (row: TreeRow, tree: ChainTree): boolean =>
  row.height === tree.height &&
  row.root_capacity === tree.rootCapacity &&
  isSame(row.queue, tree.queue) &&
  isSame(row.next_tree, tree.nextTree);

async function update({ store, log }: RefreshParts, { id, key, height }: TreeRow, tree: ChainTree): Promise<void> {
  await store.write(async (tx) => {
    if ((await lockTree(tx, id)) === null) return;
    const { rootCapacity: root_capacity, queue, nextTree: next_tree } = tree;
    const facts = { root_capacity, queue, next_tree };
    // A tree that is higher than it was believed to be has another root: what we have of it is of no use.
    const wrong = { ...facts, height: tree.height, status: 'diverged', reason: 'height' } as const;
    await changeTree(tx, id, tree.height === height ? facts : wrong);
  });
  if (tree.height !== height) log.error({ tree: encode32(key), height: tree.height }, 'the height of a tree was wrong');
}
