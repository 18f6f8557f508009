import { encode32, encode64 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import { type ChainBlock, type Log, messageOf, type StoreTx } from '../../../src/plugin/plugin.ts';
import type { KeyTable, NormalTransaction } from '../../../src/ports/block.ts';
import type { Counter } from '../../../src/ports/telemetry.ts';
import {
  type ChangeEvent,
  type ConcurrentDecoded,
  type ConcurrentEvent,
  decodeConcurrent,
  type LeafSchema,
} from '../../../src/solana/concurrent/decode-concurrent.ts';
import {
  assetId,
  type ConcurrentIds,
  createConcurrentFinder,
  createKeccakPairs,
} from '../../../src/solana/concurrent/tree.ts';
import { HASH_BYTES, zeroHashes } from '../../../src/solana/merkle/path.ts';
import { type LeafChange, type UpdatedTree, updateTrees } from '../../../src/solana/merkle/update-trees.ts';
import type { RowBook } from '../store/row-book.ts';
import {
  type CompressedAssetRow,
  type CompressionDb,
  type CompressionTables,
  dropNote,
  LEAF_STATE,
  NOTES,
  readNote,
  type TreeRow,
  writeNote,
} from '../store/tables.ts';
import { HISTORY } from '../trees/hashing.ts';
import type { PageBook } from '../trees/page-book.ts';
import type { NewTree, TreeBook } from '../trees/tree-book.ts';

/** Changes of concurrent trees in a block. */
export interface CnftBlock {
  readonly slot: number;
  /** In order of execution. */
  readonly steps: readonly { readonly key: Uint8Array; readonly step: LeafStep }[];
  /** The changes of `steps`, with what they say of assets. */
  readonly changes: readonly LeafChangeRecord[];
  /** Every tree that a change names, as described by the change. */
  readonly trees: readonly NewTree[];
  /** Trees that can no longer be followed, and why. */
  readonly suspects: readonly { readonly key: Uint8Array; readonly reason: string }[];
  /** Unreadable changes. */
  readonly faults: readonly { readonly signature: string; readonly reason: string }[];
}

/** Reads a block; null when it does not concern the indexed trees. Never throws. */
export function createCnftDecoder(isWanted: (tree: Uint8Array) => boolean): (block: ChainBlock) => CnftBlock | null {
  const findPrograms = createConcurrentFinder();
  return ({ slot, keys, transactions }) => {
    const ids = findPrograms(keys);
    if (ids.length === 0) return null;
    const found = { steps: [], changes: [], trees: [], suspects: [], faults: [] } as Mutable<Omit<CnftBlock, 'slot'>>;
    for (const transaction of transactions) {
      const { events, faults } = readOne(transaction, keys, ids);
      const signature = transaction.signatures[0] ?? new Uint8Array(64);
      for (const event of events) if (isWanted(event.tree)) addEvent(found, event, slot, signature);
      for (const { tree, reason } of faults) {
        if (tree === null || !isWanted(tree)) continue;
        found.suspects.push({ key: tree, reason: 'decode' });
        found.faults.push({ signature: encode64(signature), reason });
      }
    }
    return found.trees.length + found.suspects.length === 0 ? null : { slot, ...found };
  };
}

function readOne(transaction: NormalTransaction, keys: KeyTable, ids: ConcurrentIds): ConcurrentDecoded {
  try {
    return decodeConcurrent(transaction, keys, ids);
  } catch (error) {
    // Indexing continues, and every tree that the transaction names becomes a suspect.
    const reason = messageOf(error);
    return { events: [], faults: Array.from(transaction.keys, (id) => ({ reason, tree: keys.bytes(id) })) };
  }
}

type Mutable<T> = { [Name in keyof T]: T[Name] extends readonly (infer Item)[] ? Item[] : T[Name] };

function addEvent(
  found: Mutable<Omit<CnftBlock, 'slot'>>,
  event: ConcurrentEvent,
  slot: number,
  signature: Uint8Array,
): void {
  const key = event.tree;
  if (event.kind === 'close') {
    found.suspects.push({ key, reason: 'closed' });
    return;
  }
  const { height, seq, leafIndex, path, root } = event;
  found.trees.push({ key, type: CONCURRENT_TREE, queue: null, height, rootCapacity: null, nextTree: null });
  if (event.kind === 'prepared') found.suspects.push({ key, reason: 'prepared' });
  // Every tree starts empty.
  if (event.kind !== 'change') return;
  const leaf = path[0] as Uint8Array;
  found.steps.push({ key, step: { seq, slot, leafIndex, leaf, root } });
  found.changes.push(leafChange(event, signature));
}

/** One change of a concurrent tree. Steps of a tree are consecutive, from 1. */
export interface LeafStep {
  readonly seq: number;
  readonly slot: number;
  readonly leafIndex: number;
  /** 32 bytes, like all others. */
  readonly leaf: Uint8Array;
  /** Root of the tree after it. */
  readonly root: Uint8Array;
}

type PendingRow = CompressionTables['compression_pending'];

/** Kind of pending rows of concurrent trees. */
const STEP_KIND = 'concurrent';

function pendingStep(tree: number, { seq, slot, leafIndex, leaf, root }: LeafStep): PendingRow {
  const body = { leafIndex, leaf: base64(leaf), root: base64(root) };
  return { tree, seq, kind: STEP_KIND, slot, body: JSON.stringify(body) };
}

function stepOf({ seq, slot, body }: PendingRow): LeafStep {
  const { leafIndex, leaf, root } = JSON.parse(body) as {
    readonly leafIndex: number;
    readonly leaf: string;
    readonly root: string;
  };
  return { seq, slot, leafIndex, leaf: bytes(leaf), root: bytes(root) };
}

const base64 = (value: Uint8Array): string => Buffer.from(value).toString('base64');
const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'));

/** Type of concurrent trees in the table of trees, after the types of the Light programs. */
export const CONCURRENT_TREE = 5;
const MAX_LEVELS = 30;

/** Hashing of concurrent trees. */
export interface ConcurrentHashing {
  /** Concatenated hashes of empty subtrees up to the greatest height. */
  readonly zeros: Uint8Array;
  emptyRoot(height: number): Uint8Array;
  /** Sets leaves in order. For the page reader see `updateTrees`. */
  update(height: number, leaves: readonly LeafChange[], page: (key: number) => Uint8Array | null): UpdatedTree;
}

export function createConcurrentHashing(): ConcurrentHashing {
  const keccak = createKeccakPairs();
  let zeros: Uint8Array | null = null;
  const use = () => {
    zeros ??= zeroHashes(keccak, MAX_LEVELS);
    return zeros;
  };
  return {
    get zeros() {
      return use();
    },
    emptyRoot: (height) => use().slice(height * HASH_BYTES, (height + 1) * HASH_BYTES),
    update(height, leaves, page) {
      const [updated] = updateTrees(keccak, use(), [{ height, page, leaves }]).trees;
      if (updated === undefined) throw new Error('a tree was updated and did not come back');
      return updated;
    },
  };
}

export interface CnftIndexer {
  /**
   * Changes trees, pages and assets in the books; the rows do not depend on the order of blocks. `block` is null when it does not
   * concern concurrent trees: pending steps may be due all the same.
   */
  apply(books: CnftBooks, block: CnftBlock | null, options: CnftOptions): Promise<void>;
}

interface CnftOptions {
  readonly slot: number;
  /** Previous ids of new trees, by `keyText` of their keys. */
  readonly ids?: ReadonlyMap<string, number>;
}

interface CnftIndexerParts {
  readonly hashing: ConcurrentHashing;
  readonly log: Log;
  /** Counts unreadable changes. */
  readonly faults: Pick<Counter, 'add'>;
  /** Counts changes that were applied. */
  readonly changes: Pick<Counter, 'add'>;
  /** Whether every tree is followed. */
  readonly followsAll: boolean;
}

/** Pending steps of one tree applied per block. */
const MAX_WAITING = 1_000;
const MAX_READY = 4;
/** Another process may have filled a gap: slots between searches for ready steps. */
const LOOK_SLOTS = 64;

export function createCnftIndexer({ hashing, log, faults, changes, followsAll }: CnftIndexerParts): CnftIndexer {
  const noteStart = createStartNote(followsAll);
  const admit = createTreeAdmission({ hashing, log, faults });
  /** Whether the next step of a tree may be pending, as far as this thread knows. */
  let mayBeReady = true;

  /** Trees whose next step is pending: more were due than one block applies. */
  async function ready({ tx, trees }: CnftBooks, { slot }: CnftOptions): Promise<number[]> {
    if (!(mayBeReady || slot % LOOK_SLOTS === 0)) return [];
    const keys = await treesThatAreReady(tx, MAX_READY);
    if (keys.length < MAX_READY)
      tx.onCommit(() => {
        mayBeReady = false;
      });
    await trees.load(keys);
    return keys.flatMap((key) => trees.find(key)?.id ?? []);
  }

  /** Appends pending steps to new ones. */
  async function addWaiting(
    { tx, trees }: CnftBooks,
    id: number,
    fresh: readonly LeafStep[],
  ): Promise<readonly LeafStep[]> {
    const { seq, status } = trees.byId(id);
    if (status === 'diverged') return fresh;
    const next = endOfRun(seq, fresh);
    if (next === seq && fresh.length > 0) return fresh;
    const behind = await stepsBehind(tx, id, next, MAX_WAITING);
    if (behind.length === MAX_WAITING) mayBeReady = true;
    const known = new Set(fresh.map((step) => step.seq));
    return [...fresh, ...behind.filter((step) => !known.has(step.seq))].sort((a, b) => a.seq - b.seq);
  }

  /** Applies consecutive steps; the rest stays pending. */
  async function finish(books: CnftBooks, id: number, steps: readonly LeafStep[]): Promise<void> {
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
    // Only the account shows where such a past ends.
    if (before.status === 'gap' && before.reason === HISTORY) return;
    const waits = steps.length > applied || (before.status === 'gap' && (await someWait(books.tx, id, now.seq)));
    trees.change(id, { status: waits ? 'gap' : 'ok', reason: null });
  }

  return {
    async apply(books, block, options) {
      await noteStart(books.tx, options.slot);
      if (block !== null) {
        await admit(books, block, options.ids);
        await applyLeafChanges(books, block.slot, block.changes);
      }
      const fresh = block === null ? new Map<number, readonly LeafStep[]>() : newSteps(books, block);
      const due = new Map<number, readonly LeafStep[]>();
      for (const id of new Set([...fresh.keys(), ...(await ready(books, options))]))
        due.set(id, await addWaiting(books, id, fresh.get(id) ?? []));
      if (due.size === 0) return;
      await loadFor(books, due);
      for (const [id, steps] of due) await finish(books, id, steps);
    },
  };
}

/** Notes the first block since when all trees are followed, and forgets it when they no longer are. */
function createStartNote(followsAll: boolean): (tx: StoreTx, slot: number) => Promise<void> {
  let isNoted = false;
  return async (tx, slot) => {
    if (isNoted) return;
    const noted = await readNote(tx.db as CompressionDb, NOTES.allTreesFrom);
    if (followsAll && noted === null) await writeNote(tx, NOTES.allTreesFrom, String(slot));
    if (!followsAll && noted !== null) await dropNote(tx, NOTES.allTreesFrom);
    tx.onCommit(() => {
      isNoted = true;
    });
  };
}

/** The sequence number that a tree reaches with consecutive steps. */
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

/** Steps that are not applied yet, by tree, ascending, without duplicates. */
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

/** Such a tree can never be repaired. */
const isOver = ({ status, reason }: TreeRow): boolean =>
  status === 'diverged' && (reason === 'closed' || reason === 'prepared');

async function loadFor(books: CnftBooks, due: ReadonlyMap<number, readonly LeafStep[]>): Promise<void> {
  const { trees, pages, pending } = books;
  const lists = [...due];
  const damaged = await pages.load(
    lists.map(([id, steps]) => ({
      id,
      height: trees.byId(id).height,
      leaves: steps.map(({ leafIndex, leaf }) => ({ index: leafIndex, hash: leaf })),
    })),
  );
  for (const id of damaged)
    if (due.has(id) && trees.byId(id).status !== 'diverged') trees.change(id, { status: 'diverged', reason: 'page' });
  await pending.load(lists.flatMap(([id, steps]) => steps.map(({ seq }) => [id, seq, STEP_KIND])));
}

interface AdmissionParts {
  readonly hashing: ConcurrentHashing;
  readonly log: Log;
  readonly faults: Pick<Counter, 'add'>;
}

type TreeIds = ReadonlyMap<string, number>;

/** Tree ids have 16 bits in page ids; some are reserved for the Light programs. */
const MAX_TREES = 60_000;

/**
 * Adds the trees that a block names for the first time, and stops following those that cannot be followed. Afterwards all of them
 * are loaded.
 */
function createTreeAdmission({ hashing, log, faults }: AdmissionParts) {
  async function insert({ tx, trees }: CnftBooks, block: CnftBlock, ids?: TreeIds): Promise<void> {
    const fresh = new Map(
      block.trees.filter(({ key }) => trees.find(key) === null).map((tree) => [encode32(tree.key), tree]),
    );
    if (fresh.size === 0) return;
    const last = await (tx.db as CompressionDb)
      .selectFrom('compression_trees')
      .select((is) => is.fn.max('id').as('id'))
      .executeTakeFirst();
    if ((last?.id ?? 0) + fresh.size > MAX_TREES) {
      log.error(
        { most: MAX_TREES },
        'the index is full of concurrent trees; list the wanted ones in the configuration',
      );
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
}

/**
 * Applies consecutive steps from the tree's current state, up to the first whose root does not match, which makes
 * the tree diverge. Returns the number of applied steps. Pages of the steps must be loaded.
 */
function applySteps(books: StepBooks, hashing: ConcurrentHashing, id: number, steps: readonly LeafStep[]): number {
  const update = (part: readonly LeafStep[]): UpdatedTree => {
    const leaves = part.map(({ leafIndex, leaf }) => ({ index: leafIndex, hash: leaf }));
    return hashing.update(books.trees.byId(id).height, leaves, (page) => books.pages.page(id, page));
  };
  const last = steps.at(-1);
  if (last === undefined) return 0;
  // The last root proves all steps before it; only on a mismatch is the wrong step searched.
  const all = update(steps);
  if (equalBytes(all.root, last.root)) {
    accept(books, id, steps, all);
    return steps.length;
  }
  for (const [at, step] of steps.entries()) {
    const one = update([step]);
    if (!equalBytes(one.root, step.root)) {
      books.trees.change(id, {
        status: 'diverged',
        reason: 'root',
        expected_root: Uint8Array.from(step.root),
        computed_root: Uint8Array.from(one.root),
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
    seq: last.seq,
    root: Uint8Array.from(updated.root),
    verified_seq: last.seq,
    verified_slot: last.slot,
    next_index: steps.reduce((next, { leafIndex }) => Math.max(next, leafIndex + 1), tree.next_index),
  });
}

/** Pending steps that follow `seq` without a gap, at most `most`. */
async function stepsBehind({ db }: StoreTx, tree: number, seq: number, most: number): Promise<LeafStep[]> {
  const rows = await (db as CompressionDb)
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

/** Whether a step is pending after this one. */
async function someWait({ db }: StoreTx, tree: number, seq: number): Promise<boolean> {
  const row = await (db as CompressionDb)
    .selectFrom('compression_pending')
    .select('seq')
    .where('tree', '=', tree)
    .where('seq', '>', seq)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/** Keys of trees whose next step is pending, at most `most`. */
async function treesThatAreReady({ db }: StoreTx, most: number): Promise<Uint8Array[]> {
  const rows = await (db as CompressionDb)
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

/** The books of a block for concurrent trees. */
interface CnftBooks extends StepBooks, AssetBooks {
  readonly tx: StoreTx;
  readonly pending: RowBook<CompressionTables['compression_pending']>;
}

/** Logs that a tree differs from the chain. */
function logDivergence(log: Log, { key, seq, reason, expected_root, computed_root }: TreeRow): void {
  const text = (root: Uint8Array | null) => (root === null ? null : encode32(root));
  log.error(
    { tree: encode32(key), seq, reason, expectedRoot: text(expected_root), computedRoot: text(computed_root) },
    'a concurrent tree has diverged from the chain',
  );
}

/** A change of a leaf, and what the instruction of Bubblegum says of its asset. */
export interface LeafChangeRecord {
  readonly tree: Uint8Array;
  readonly seq: number;
  readonly leafIndex: number;
  readonly leaf: Uint8Array;
  /** 64 bytes. */
  readonly signature: Uint8Array;
  readonly asset: LeafSchema | null;
  readonly operation: string | null;
  readonly metadata: Uint8Array | null;
}

function leafChange(event: ChangeEvent, signature: Uint8Array): LeafChangeRecord {
  const { tree, seq, leafIndex, path, asset, operation, metadata } = event;
  return { tree, seq, leafIndex, leaf: path[0] as Uint8Array, signature, asset, operation, metadata };
}

export interface AssetBooks {
  readonly trees: TreeBook;
  readonly assets: RowBook<CompressedAssetRow>;
  readonly metadata: RowBook<CompressionTables['compression_metadata']>;
  readonly changes: RowBook<CompressionTables['compression_changes']>;
}

/**
 * Writes what the changes of a block say of assets. The change with the highest sequence number decides, so the rows do not depend on the
 * order of blocks, nor on whether the tree could apply the changes: whether an asset may be served is decided when it is read.
 */
async function applyLeafChanges(books: AssetBooks, slot: number, records: readonly LeafChangeRecord[]): Promise<void> {
  const known = records.flatMap((record) => {
    const tree = books.trees.find(record.tree);
    const id = tree === null ? null : idOf(record);
    return tree === null ? [] : [{ record, tree, id }];
  });
  if (known.length === 0) return;
  await books.assets.load(known.flatMap(({ id }) => (id === null ? [] : [[id]])));
  const hashes = records.flatMap(({ asset, metadata }) =>
    asset === null || metadata === null ? [] : [asset.dataHash],
  );
  await books.metadata.load(hashes.map((hash) => [hash]));
  for (const { record, tree, id } of known) {
    const { seq, leafIndex, signature, operation, asset, metadata } = record;
    books.changes.put({
      tree: tree.id,
      seq,
      leaf_index: leafIndex,
      slot,
      operation: operation ?? '',
      signature: Uint8Array.from(signature),
    });
    if (asset !== null && metadata !== null && books.metadata.get(asset.dataHash) === null)
      books.metadata.put({ hash: Uint8Array.from(asset.dataHash), body: Uint8Array.from(metadata) });
    if (id !== null) putAsset(books, { record, tree, id, slot });
  }
}

/** The asset of a change. Bubblegum numbers its assets like their leaves, so a leaf without one shows whose it was. */
function idOf({ asset, operation, tree, leafIndex }: LeafChangeRecord): Uint8Array | null {
  if (asset !== null) return asset.id;
  return operation === null ? null : assetId(tree, BigInt(leafIndex));
}

interface Put {
  readonly record: LeafChangeRecord;
  readonly tree: TreeRow;
  readonly id: Uint8Array;
  readonly slot: number;
}

function putAsset({ assets }: AssetBooks, { record, tree, id, slot }: Put): void {
  const { asset, seq, leafIndex, leaf } = record;
  const before = assets.get(id);
  // A leaf may claim to be any asset; the claim holds only when Bubblegum derives the id from this tree. A known asset was derived
  // before, and no other tree can have its id.
  if (asset !== null && before?.tree !== tree.id && !equalBytes(assetId(tree.key, asset.nonce), asset.id)) return;
  const isNewest = before === null || seq > before.seq;
  const isNewestLeaf = asset !== null && seq > (before?.leaf_seq ?? 0);
  if (!isNewest && !isNewestLeaf) return;
  const row: CompressedAssetRow = {
    ...(before ?? { ...NO_LEAF, id: Uint8Array.from(id), tree: tree.id, leaf_index: leafIndex }),
    ...(isNewest ? { leaf: Uint8Array.from(leaf), seq, slot, state: stateOf(record) } : {}),
    ...(isNewestLeaf ? leafColumns(asset, seq) : {}),
  };
  assets.put(row);
}

const NO_LEAF = {
  leaf: new Uint8Array(32),
  seq: 0,
  slot: 0,
  state: LEAF_STATE.present,
  leaf_seq: 0,
  version: null,
  owner: null,
  delegate: null,
  data_hash: null,
  creator_hash: null,
  collection_hash: null,
  asset_data_hash: null,
  flags: null,
};

function stateOf({ asset, leaf, operation }: LeafChangeRecord): number {
  if (asset !== null) return LEAF_STATE.present;
  if (leaf.some((byte) => byte !== 0)) return LEAF_STATE.unknown;
  return operation?.startsWith('Burn') === true ? LEAF_STATE.burnt : LEAF_STATE.redeemed;
}

function leafColumns({ version, owner, delegate, dataHash, creatorHash, more }: LeafSchema, seq: number) {
  return {
    leaf_seq: seq,
    version,
    owner: Uint8Array.from(owner),
    delegate: Uint8Array.from(delegate),
    data_hash: Uint8Array.from(dataHash),
    creator_hash: Uint8Array.from(creatorHash),
    collection_hash: more === null ? null : Uint8Array.from(more.collectionHash),
    asset_data_hash: more === null ? null : Uint8Array.from(more.assetDataHash),
    flags: more?.flags ?? null,
  };
}
