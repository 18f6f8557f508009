import { sql } from 'kysely';
import { encode32 } from '../../../../src/lib/base58.ts';
import { leafOf } from '../../proofs/leaf.ts';
import type { PathPages, PathReader } from '../../proofs/path-reader.ts';
import type { AccountRow, Db, TreeRow } from '../../store/tables.ts';
import type { Hashing } from '../../trees/hashing.ts';
import { type QueueWish, requireStart, wholeBatches } from './fields.ts';
import { hashChains } from './hash-chains.ts';
import { hashesText, inTurns, objectText, readInTurns } from './in-turns.ts';
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
    const pages = await inTurns(elements, (piece) =>
      reader.paths(
        db,
        piece.map(({ leaf_index: leafIndex }) => ({ tree, leafIndex })),
      ),
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
  const read = (from: number, count: number) =>
    db
      .selectFrom('compression_accounts')
      .select(COLUMNS)
      .where('tree', '=', tree)
      .where(sql<boolean>`queued = 1`)
      .where('leaf_index', '>=', from)
      .orderBy('leaf_index')
      .limit(count)
      .execute();
  return readInTurns(limit, startIndex ?? 0, read, ({ leaf_index }) => leaf_index);
}

function findToNullify(db: Db, tree: number, { limit, startIndex }: QueueWish): Promise<Element[]> {
  const read = (from: number, count: number) =>
    db
      .selectFrom('compression_accounts')
      .select(COLUMNS)
      .where('tree', '=', tree)
      .where(sql<boolean>`nullifier_index is not null and nullified = 0`)
      .where('nullifier_index', '>=', from)
      .orderBy('nullifier_index')
      .limit(count)
      .execute();
  return readInTurns(limit, startIndex ?? 0, read, ({ nullifier_index }) => nullifier_index ?? 0);
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
  const members = {
    ...(nodes.length === 0 ? {} : { nodes: `[${nodes.join(',')}]` }),
    ...{ initialRoot: `"${encode32(tree.root)}"`, rootSeq: tree.seq },
    ...(output === null ? {} : { outputQueue: objectText(await outputRecord(output, hashing)) }),
    ...(input === null ? {} : { inputQueue: objectText(await inputRecord(input, hashing)) }),
  };
  return objectText(members);
}

async function outputRecord(queue: ReadQueue, hashing: Hashing) {
  const first = queue.elements[0]?.leaf_index ?? 0;
  return {
    ...(await commonRecord(queue)),
    firstQueueIndex: first,
    nextIndex: first,
    leavesHashChains: await chainsOf(queue, ({ hash }) => hash, hashing),
  };
}

async function inputRecord(queue: ReadQueue, hashing: Hashing) {
  const { elements } = queue;
  return {
    ...(await commonRecord(queue)),
    txHashes: await hashesText(elements, ({ tx_hash }) => tx_hash ?? ZERO),
    nullifiers: await hashesText(elements, ({ nullifier }) => nullifier ?? ZERO),
    firstQueueIndex: elements[0]?.nullifier_index ?? 0,
    leavesHashChains: await chainsOf(queue, ({ nullifier }) => nullifier ?? ZERO, hashing),
  };
}

const ZERO = new Uint8Array(32);

const commonRecord = async ({ elements, pages }: ReadQueue) => ({
  leafIndices: JSON.stringify(elements.map(({ leaf_index }) => leaf_index)),
  accountHashes: await hashesText(elements, ({ hash }) => hash),
  leaves: await hashesText(
    elements.map(({ leaf_index }, i) => ({ leaf_index, path: pages[i] ?? [] })),
    ({ leaf_index, path }) => leafOf(path, leaf_index),
  ),
});

async function chainsOf({ elements, wish }: ReadQueue, pick: (element: Element) => Uint8Array, hashing: Hashing) {
  const chains = await hashChains(() => hashing.poseidon, elements.map(pick), wish.zkpBatchSize);
  return await hashesText(chains, (chain) => chain);
}
