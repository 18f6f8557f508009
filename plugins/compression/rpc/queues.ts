import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { Type } from '@sinclair/typebox';
import { sql } from 'kysely';
import { encode32 } from '../../../src/lib/base58.ts';
import { HASH_BYTES, offsetOf, pageAddressOf, pageKey, pathPages } from '../../../src/solana/merkle/path.ts';
import { orNull } from '../../../src/solana/schemas.ts';
import type { CompressedAccountRow, CompressionDb, TreeRow } from '../store/tables.ts';
import { type Hashing, hashChains } from '../trees/hashing.ts';
import { leafOf, type PageNodes, type PathPages } from '../trees/page-book.ts';
import { type LowElement, lowElements, type UnseenTree } from './address-paths.ts';
import { integer, invalid, objectOf, optional, type ParamField } from './fields.ts';
import type { PathReader } from './path-reader.ts';

type Element = Pick<CompressedAccountRow, 'hash' | 'leaf_index' | 'nullifier' | 'nullifier_index' | 'tx_hash'>;

interface ReadQueue {
  readonly query: QueueQuery;
  readonly elements: readonly Element[];
  readonly pages: readonly PathPages[];
}

/** Queued elements of a state tree. */
interface StateQueues {
  readonly tree: TreeRow;
  /** Null: not requested, or empty. */
  readonly output: ReadQueue | null;
  readonly input: ReadQueue | null;
}

/** Reads both queues in one state of the store. Errors: -32602; DamagedPage; those of the store. */
export async function readStateQueues(
  db: CompressionDb,
  reader: PathReader,
  tree: TreeRow,
  queries: { readonly output: QueueQuery | null; readonly input: QueueQuery | null },
): Promise<StateQueues> {
  const read = async (
    query: QueueQuery | null,
    find: (db: CompressionDb, tree: number, query: QueueQuery) => Promise<readonly Element[]>,
    indexOf: (element: Element) => number | null,
  ): Promise<ReadQueue | null> => {
    if (query === null) return null;
    const found = await find(db, tree.id, query);
    if (found[0] === undefined) return null;
    requireStart(query, indexOf(found[0]) ?? 0);
    const elements = wholeBatches(found, query);
    const pages = await inTurns(elements, (piece) =>
      reader.paths(
        db,
        piece.map(({ leaf_index: leafIndex }) => ({ tree, leafIndex })),
      ),
    );
    return { query, elements, pages };
  };
  const output = await read(queries.output, findQueued, ({ leaf_index }) => leaf_index);
  const input = await read(queries.input, findToNullify, ({ nullifier_index }) => nullifier_index);
  return { tree, output, input };
}

const COLUMNS = ['hash', 'leaf_index', 'nullifier', 'nullifier_index', 'tx_hash'] as const;

/** Conditions are constants in the text: partial indexes are not used with parameters. */
function findQueued(db: CompressionDb, tree: number, { limit, startIndex }: QueueQuery): Promise<Element[]> {
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

function findToNullify(db: CompressionDb, tree: number, { limit, startIndex }: QueueQuery): Promise<Element[]> {
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
    height: tree.height,
    root: tree.root,
    zeros: hashing.zeros,
    leafIndexes: queues.flatMap(({ elements }) => elements.map(({ leaf_index }) => leaf_index)),
    pages: queues.flatMap(({ pages }) => pages),
  });
  const members = {
    ...(nodes.length === 0 ? {} : { nodes: `[${nodes.join(',')}]` }),
    initialRoot: `"${encode32(tree.root)}"`,
    rootSeq: tree.seq,
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

async function chainsOf({ elements, query }: ReadQueue, pick: (element: Element) => Uint8Array, hashing: Hashing) {
  const chains = await hashChains(() => hashing.poseidon, elements.map(pick), query.zkpBatchSize);
  return await hashesText(chains, (chain) => chain);
}

/** Queued addresses of an address tree. */
interface ReadAddressQueue {
  readonly query: QueueQuery;
  readonly tree: TreeRow;
  readonly entries: readonly { readonly queue_index: number; readonly address: Uint8Array }[];
  readonly low: readonly LowElement[];
  readonly pages: readonly PathPages[];
  /** Path of the last leaf; null in a tree without leaves. */
  readonly lastPath: PathPages | null;
}

/** Reads them in one state of the store. Errors: -32602; DamagedPage; those of the store. */
export async function readAddressQueue(
  db: CompressionDb,
  reader: PathReader,
  tree: TreeRow,
  query: QueueQuery,
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
  const entries = await readInTurns(query.limit, query.startIndex ?? 0, read, ({ queue_index }) => queue_index);
  requireStart(query, entries[0]?.queue_index);
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
  return { query, tree, entries, low, pages, lastPath };
}

/** The queue of a tree that no block has named yet. */
export function emptyAddressQueue(query: QueueQuery, { tree, path }: UnseenTree): ReadAddressQueue {
  return { query, tree, entries: [], low: [], pages: [], lastPath: path(tree.next_index - 1) };
}

/** The text of `addressQueue`. */
export async function addressQueueText(queue: ReadAddressQueue, hashing: Hashing): Promise<string> {
  const { tree, entries, low, pages, query } = queue;
  const isEmpty = entries.length === 0;
  const nodes = await nodeTexts({
    height: tree.height,
    root: tree.root,
    zeros: hashing.zeros,
    pages,
    leafIndexes: low.map(({ leaf_index }) => leaf_index),
  });
  const chains = await hashChains(
    () => hashing.poseidon,
    entries.map(({ address }) => address),
    query.zkpBatchSize,
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

/** By level: the last node at an even position, which a later leaf is hashed with; else the empty hash. */
function subtreesOf({ tree, lastPath }: ReadAddressQueue, { zeros }: Hashing): readonly Uint8Array[] {
  const { height, root, next_index: count } = tree;
  const nodeAt = nodesOf({
    height,
    root,
    zeros,
    leafIndexes: lastPath === null ? [] : [count - 1],
    pages: lastPath === null ? [] : [lastPath],
  });
  return Array.from({ length: height }, (_, level) => {
    const last = Math.max(0, Math.ceil(count / 2 ** level) - 1);
    return nodeAt(level, last - (last % 2));
  });
}

/** Maximum number of elements of one queue in a response. */
const MAX_ELEMENTS = 30_000;
const MAX_U16 = 65_535;

/** Parameters of one queue. */
export interface QueueQuery {
  readonly limit: number;
  /** Expected index of the first element; null: the start of the queue. */
  readonly startIndex: number | null;
  readonly zkpBatchSize: number;
}

/** One queue of a tree. Errors: -32602 `Too many queue elements requested …`. */
export function queueWish(description: string, defaultBatch: number): ParamField<QueueQuery | null> {
  const limit: ParamField<number> = {
    schema: Type.Integer({ minimum: 1, maximum: MAX_ELEMENTS, description: 'most elements', examples: [100] }),
    absent: null,
    read: (value, name) => {
      const wanted = integer({ least: 1, most: MAX_U16, description }).read(value, name);
      if (wanted > MAX_ELEMENTS)
        throw invalid(`Too many queue elements requested ${wanted}. Maximum allowed: ${MAX_ELEMENTS}`);
      return wanted;
    },
  };
  const query = objectOf({
    limit,
    startIndex: optional(integer({ description: 'index of the first element' })),
    zkpBatchSize: optional(integer({ least: 1, most: MAX_U16, description: `default ${defaultBatch}` })),
  });
  return {
    schema: orNull({ ...query.schema, description }),
    absent: { value: null },
    read: (value, name) => {
      const read = query.read(value, name);
      return { ...read, zkpBatchSize: read.zkpBatchSize ?? defaultBatch };
    },
  };
}

/** Errors: -32602 when the requested first element has left the queue. */
function requireStart({ startIndex }: QueueQuery, first: number | undefined): void {
  if (startIndex !== null && first !== undefined && first > startIndex)
    throw invalid(`Requested start_index ${startIndex} but first_queue_index ${first} is later (possible pruning)`);
}

/** The longest prefix that fills whole batches. */
function wholeBatches<T>(elements: readonly T[], { zkpBatchSize }: QueueQuery): readonly T[] {
  return elements.slice(0, elements.length - (elements.length % zkpBatchSize));
}

/** The paths of several leaves of one tree. */
interface TreePaths {
  readonly height: number;
  readonly root: Uint8Array;
  readonly leafIndexes: readonly number[];
  /** Pages of each leaf. */
  readonly pages: readonly PathPages[];
  readonly zeros: Uint8Array;
}

/** A node of the tree on one of the paths, or a sibling. */
type NodeAt = (level: number, position: number) => Uint8Array;

function nodesOf(paths: TreePaths): NodeAt {
  const byKey = new Map<number, PageNodes>();
  addPages(byKey, paths, 0, paths.leafIndexes.length);
  return nodeFinder(paths, byKey);
}

function addPages(byKey: Map<number, PageNodes>, { height, leafIndexes, pages }: TreePaths, from: number, to: number) {
  for (let i = from; i < to; i += 1)
    pathPages(height, leafIndexes[i] ?? 0).forEach((key, group) => void byKey.set(key, pages[i]?.[group] ?? null));
}

function nodeFinder({ height, root, zeros }: TreePaths, byKey: ReadonlyMap<number, PageNodes>): NodeAt {
  return (level, position) => {
    if (level === height) return root;
    const page = byKey.get(pageKey(pageAddressOf(level, position))) ?? null;
    const offset = page === null ? level * HASH_BYTES : offsetOf(level, position);
    return (page ?? zeros).subarray(offset, offset + HASH_BYTES);
  };
}

/** Nodes processed between yields to the event loop. */
const NODES_PER_TURN = 4_096;
const LEVEL_SHIFT = 56n;

/**
 * `{"index":…,"hash":"…"}` of the leaves, their siblings, their ancestors and the siblings of those, without duplicates, by index:
 * the level in the uppermost byte, the position below.
 */
async function nodeTexts(paths: TreePaths): Promise<readonly string[]> {
  const byKey = new Map<number, PageNodes>();
  for (let from = 0; from < paths.leafIndexes.length; from += NODES_PER_TURN) {
    addPages(byKey, paths, from, Math.min(from + NODES_PER_TURN, paths.leafIndexes.length));
    await yieldToOthers();
  }
  const nodeAt = nodeFinder(paths, byKey);
  const texts: string[] = [];
  let positions = [...new Set(paths.leafIndexes)].sort((a, b) => a - b);
  for (let level = 0; level <= paths.height && positions.length > 0; level += 1) {
    const upper = BigInt(level) << LEVEL_SHIFT;
    const parents: number[] = [];
    for (const position of positions) {
      const parent = Math.floor(position / 2);
      if (parents.at(-1) !== parent) parents.push(parent);
    }
    const shown = level === paths.height ? positions : parents.flatMap((parent) => [2 * parent, 2 * parent + 1]);
    for (const position of shown) {
      texts.push(`{"index":${upper | BigInt(position)},"hash":"${encode32(nodeAt(level, position))}"}`);
      if (texts.length % NODES_PER_TURN === 0) await yieldToOthers();
    }
    positions = parents;
  }
  return texts;
}

/** Elements processed between yields: a few milliseconds in any case. */
const PIECE = 1_024;

/** Processes a long list in pieces and yields between them. Errors: those of `work`. */
export async function inTurns<T, R>(
  list: readonly T[],
  work: (piece: readonly T[], from: number) => readonly R[] | Promise<readonly R[]>,
): Promise<R[]> {
  const all: R[] = [];
  for (let from = 0; from < list.length; from += PIECE) {
    if (from > 0) await yieldToOthers();
    for (const one of await work(list.slice(from, from + PIECE), from)) all.push(one);
  }
  return all;
}

/** Reads up to `limit` rows in order, in pieces: `read` returns the next ones from an index on. Errors: those of `read`. */
export async function readInTurns<T>(
  limit: number,
  from: number,
  read: (from: number, count: number) => Promise<readonly T[]>,
  indexOf: (row: T) => number,
): Promise<T[]> {
  const all: T[] = [];
  for (let next = from; all.length < limit; ) {
    const count = Math.min(PIECE, limit - all.length);
    const rows = await read(next, count);
    for (const row of rows) all.push(row);
    const last = rows.at(-1);
    if (last === undefined || rows.length < count) return all;
    next = indexOf(last) + 1;
    await yieldToOthers();
  }
  return all;
}

/** JSON of a list of keys or hashes. */
export async function hashesText<T>(list: readonly T[], pick: (element: T) => Uint8Array): Promise<string> {
  const texts = await inTurns(list, (piece) => piece.map((element) => encode32(pick(element))));
  return texts.length === 0 ? '[]' : `["${texts.join('","')}"]`;
}

/** JSON of an object whose members are JSON texts. */
const objectText = (members: Readonly<Record<string, string | number>>): string =>
  `{${Object.entries(members)
    .map(([name, value]) => `"${name}":${value}`)
    .join(',')}}`;
