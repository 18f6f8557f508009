import { encode32 } from '../../../../src/lib/base58.ts';
import { type LowElement, lowElements } from '../../proofs/low-elements.ts';
import type { PathPages, PathReader } from '../../proofs/path-reader.ts';
import type { UnseenTree } from '../../proofs/unseen-trees.ts';
import type { Db, TreeRow } from '../../store/tables.ts';
import type { Hashing } from '../../trees/hashing.ts';
import { type QueueWish, requireStart } from './fields.ts';
import { hashChains } from './hash-chains.ts';
import { hashesText, inTurns, objectText, readInTurns } from './in-turns.ts';
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
  const read = (from: number, count: number) =>
    db
      .selectFrom('compression_address_queue')
      .select(['queue_index', 'address'])
      .where('tree', '=', tree.id)
      .where('queue_index', '>=', from)
      .orderBy('queue_index')
      .limit(count)
      .execute();
  const entries = await readInTurns(wish.limit, wish.startIndex ?? 0, read, ({ queue_index }) => queue_index);
  requireStart(wish, entries[0]?.queue_index);
  const low = await inTurns(entries, (piece) =>
    lowElements(
      db,
      tree.id,
      piece.map(({ address }) => address),
    ),
  );
  const pages = await inTurns(low, (piece) =>
    reader.paths(
      db,
      piece.map(({ leaf_index: leafIndex }) => ({ tree, leafIndex })),
    ),
  );
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
  return objectText({
    nodes: `[${nodes.join(',')}]`,
    addresses: await hashesText(entries, ({ address }) => address),
    queueIndices: JSON.stringify(entries.map(({ queue_index }) => queue_index)),
    lowElementIndices: JSON.stringify(low.map(({ leaf_index }) => leaf_index)),
    lowElementValues: await hashesText(low, ({ value }) => value),
    lowElementNextIndices: JSON.stringify(low.map(({ next_index }) => next_index)),
    lowElementNextValues: await hashesText(low, ({ next_value }) => next_value),
    leavesHashChains: await hashesText(chains, (chain) => chain),
    initialRoot: `"${encode32(isEmpty ? new Uint8Array(32) : tree.root)}"`,
    startIndex: tree.next_index,
    subtrees: await hashesText(subtreesOf(queue, hashing), (node) => node),
    rootSeq: isEmpty ? 0 : tree.seq,
  });
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
