import { sql } from 'kysely';
import { encode32 } from '../../../../src/lib/base58.ts';
import { leafOf } from '../../proofs/leaf.ts';
import type { PathPages, PathReader } from '../../proofs/path-reader.ts';
import type { AccountRow, Db, TreeRow } from '../../store/tables.ts';
import type { Hashing } from '../../trees/hashing.ts';
import { type QueueWish, requireStart, wholeBatches } from './fields.ts';
import { hashChains } from './hash-chains.ts';
import { nodeTexts } from './node-texts.ts';

type Element = Pick<AccountRow, 'hash' | 'leaf_index' | 'nullifier' | 'nullifier_index' | 'tx_hash'>;

interface ReadQueue {
  readonly wish: QueueWish;
  readonly elements: readonly Element[];
  readonly pages: readonly PathPages[];
}

/** What a state tree still has to take in. */
export interface StateQueues {
  readonly tree: TreeRow;
  /** Null: not asked for, or empty. */
  readonly output: ReadQueue | null;
  readonly input: ReadQueue | null;
}

/** Reads both queues, of one state of the store. Errors: -32602; DamagedPage; those of the store. */
export async function readStateQueues(
  db: Db,
  reader: PathReader,
  tree: TreeRow,
  wishes: { readonly output: QueueWish | null; readonly input: QueueWish | null },
): Promise<StateQueues> {
  const read = async (
    wish: QueueWish | null,
    find: (db: Db, tree: number, wish: QueueWish) => Promise<readonly Element[]>,
    indexOf: (element: Element) => number | null,
  ): Promise<ReadQueue | null> => {
    if (wish === null) return null;
    const found = await find(db, tree.id, wish);
    if (found[0] === undefined) return null;
    requireStart(wish, indexOf(found[0]) ?? 0);
    const elements = wholeBatches(found, wish);
    const pages = await reader.paths(
      db,
      elements.map(({ leaf_index: leafIndex }) => ({ tree, leafIndex })),
    );
    return { wish, elements, pages };
  };
  const output = await read(wishes.output, findQueued, ({ leaf_index }) => leaf_index);
  const input = await read(wishes.input, findToNullify, ({ nullifier_index }) => nullifier_index);
  return { tree, output, input };
}

const COLUMNS = ['hash', 'leaf_index', 'nullifier', 'nullifier_index', 'tx_hash'] as const;

/** Conditions are constants of the text: partial indexes are not found with parameters. */
function findQueued(db: Db, tree: number, { limit, startIndex }: QueueWish): Promise<Element[]> {
  return db
    .selectFrom('compression_accounts')
    .select(COLUMNS)
    .where('tree', '=', tree)
    .where(sql<boolean>`queued = 1`)
    .where('leaf_index', '>=', startIndex ?? 0)
    .orderBy('leaf_index')
    .limit(limit)
    .execute();
}

function findToNullify(db: Db, tree: number, { limit, startIndex }: QueueWish): Promise<Element[]> {
  return db
    .selectFrom('compression_accounts')
    .select(COLUMNS)
    .where('tree', '=', tree)
    .where(sql<boolean>`nullifier_index is not null and nullified = 0`)
    .where('nullifier_index', '>=', startIndex ?? 0)
    .orderBy('nullifier_index')
    .limit(limit)
    .execute();
}

/** The text of `stateQueue`, null when both queues are empty. */
export async function stateQueueText({ tree, output, input }: StateQueues, hashing: Hashing): Promise<string | null> {
  if (output === null && input === null) return null;
  const queues = [output, input].filter((queue) => queue !== null);
  const nodes = await nodeTexts({
    ...{ height: tree.height, root: tree.root, zeros: hashing.zeros },
    leafIndexes: queues.flatMap(({ elements }) => elements.map(({ leaf_index }) => leaf_index)),
    pages: queues.flatMap(({ pages }) => pages),
  });
  const rest = {
    initialRoot: encode32(tree.root),
    rootSeq: tree.seq,
    ...(output === null ? {} : { outputQueue: await outputRecord(output, hashing) }),
    ...(input === null ? {} : { inputQueue: await inputRecord(input, hashing) }),
  };
  const head = nodes.length === 0 ? '{' : `{"nodes":[${nodes.join(',')}],`;
  return head + JSON.stringify(rest).slice(1);
}

async function outputRecord(queue: ReadQueue, hashing: Hashing) {
  const first = queue.elements[0]?.leaf_index ?? 0;
  return {
    ...commonRecord(queue),
    firstQueueIndex: first,
    nextIndex: first,
    leavesHashChains: await chainsOf(queue, ({ hash }) => hash, hashing),
  };
}

async function inputRecord(queue: ReadQueue, hashing: Hashing) {
  return {
    ...commonRecord(queue),
    txHashes: queue.elements.map(({ tx_hash }) => text(tx_hash)),
    nullifiers: queue.elements.map(({ nullifier }) => text(nullifier)),
    firstQueueIndex: queue.elements[0]?.nullifier_index ?? 0,
    leavesHashChains: await chainsOf(queue, ({ nullifier }) => nullifier ?? ZERO, hashing),
  };
}

const ZERO = new Uint8Array(32);
const text = (hash: Uint8Array | null): string => encode32(hash ?? ZERO);

const commonRecord = ({ elements, pages }: ReadQueue) => ({
  leafIndices: elements.map(({ leaf_index }) => leaf_index),
  accountHashes: elements.map(({ hash }) => encode32(hash)),
  leaves: elements.map(({ leaf_index }, i) => encode32(leafOf(pages[i] ?? [], leaf_index))),
});

async function chainsOf({ elements, wish }: ReadQueue, pick: (element: Element) => Uint8Array, hashing: Hashing) {
  const chains = await hashChains(() => hashing.poseidon, elements.map(pick), wish.zkpBatchSize);
  return chains.map((chain) => encode32(chain));
}
