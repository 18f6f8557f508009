import { encode32 } from '../../../../src/lib/base58.ts';
import { type LowElement, lowElements } from '../../proofs/low-elements.ts';
import type { PathPages, PathReader } from '../../proofs/path-reader.ts';
import type { UnseenTree } from '../../proofs/unseen-trees.ts';
import type { Db, TreeRow } from '../../store/tables.ts';
import type { Hashing } from '../../trees/hashing.ts';
import { type QueueWish, requireStart } from './fields.ts';
import { hashChains } from './hash-chains.ts';
import { nodesOf, nodeTexts } from './node-texts.ts';

/** The addresses that an address tree still has to take in. */
export interface ReadAddressQueue {
  readonly wish: QueueWish;
  readonly tree: TreeRow;
  readonly entries: readonly { readonly queue_index: number; readonly address: Uint8Array }[];
  readonly low: readonly LowElement[];
  readonly pages: readonly PathPages[];
  /** Of the last leaf; null in a tree without leaves. */
  readonly lastPath: PathPages | null;
}

/** Reads them of one state of the store. Errors: -32602; DamagedPage; those of the store. */
export async function readAddressQueue(
  db: Db,
  reader: PathReader,
  tree: TreeRow,
  wish: QueueWish,
): Promise<ReadAddressQueue> {
  const entries = await db
    .selectFrom('compression_address_queue')
    .select(['queue_index', 'address'])
    .where('tree', '=', tree.id)
    .where('queue_index', '>=', wish.startIndex ?? 0)
    .orderBy('queue_index')
    .limit(wish.limit)
    .execute();
  requireStart(wish, entries[0]?.queue_index);
  const low = await lowElements(
    db,
    tree.id,
    entries.map(({ address }) => address),
  );
  const places = low.map(({ leaf_index: leafIndex }) => ({ tree, leafIndex }));
  const pages = await reader.paths(db, places);
  const [lastPath = null] =
    tree.next_index === 0 ? [] : await reader.paths(db, [{ tree, leafIndex: tree.next_index - 1 }]);
  return { wish, tree, entries, low, pages, lastPath };
}

/** That of a tree which no block has named yet. */
export function emptyAddressQueue(wish: QueueWish, { tree, path }: UnseenTree): ReadAddressQueue {
  return { wish, tree, entries: [], low: [], pages: [], lastPath: path(tree.next_index - 1) };
}

/** The text of `addressQueue`. */
export async function addressQueueText(queue: ReadAddressQueue, hashing: Hashing): Promise<string> {
  const { tree, entries, low, pages, wish } = queue;
  const isEmpty = entries.length === 0;
  const nodes = await nodeTexts({
    ...{ height: tree.height, root: tree.root, zeros: hashing.zeros, pages },
    leafIndexes: low.map(({ leaf_index }) => leaf_index),
  });
  const chains = await hashChains(
    () => hashing.poseidon,
    entries.map(({ address }) => address),
    wish.zkpBatchSize,
  );
  const rest = {
    addresses: entries.map(({ address }) => encode32(address)),
    queueIndices: entries.map(({ queue_index }) => queue_index),
    lowElementIndices: low.map(({ leaf_index }) => leaf_index),
    lowElementValues: low.map(({ value }) => encode32(value)),
    lowElementNextIndices: low.map(({ next_index }) => next_index),
    lowElementNextValues: low.map(({ next_value }) => encode32(next_value)),
    leavesHashChains: chains.map((chain) => encode32(chain)),
    initialRoot: encode32(isEmpty ? new Uint8Array(32) : tree.root),
    startIndex: tree.next_index,
    subtrees: subtreesOf(queue, hashing).map((node) => encode32(node)),
    rootSeq: isEmpty ? 0 : tree.seq,
  };
  return `{"nodes":[${nodes.join(',')}],${JSON.stringify(rest).slice(1)}`;
}

/** By level: the last node at an even position, which is what a later leaf is hashed with; the empty hash where there is none. */
function subtreesOf({ tree, lastPath }: ReadAddressQueue, { zeros }: Hashing): readonly Uint8Array[] {
  const { height, root, next_index: count } = tree;
  const nodeAt = nodesOf({
    ...{ height, root, zeros },
    leafIndexes: lastPath === null ? [] : [count - 1],
    pages: lastPath === null ? [] : [lastPath],
  });
  return Array.from({ length: height }, (_, level) => {
    const last = Math.max(0, Math.ceil(count / 2 ** level) - 1);
    return nodeAt(level, last - (last % 2));
  });
}
