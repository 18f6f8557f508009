import { encode32, encode64 } from '../../../src/lib/base58.ts';
import { equalBytes } from '../../../src/lib/bytes.ts';
import { type BlockHeader, CodedError, type Log, type StoreTx } from '../../../src/plugin/plugin.ts';
import type { Counter } from '../../../src/ports/telemetry.ts';
import type { AccountHasher } from '../../../src/solana/compression/accounts.ts';
import { TREE_TYPE } from '../../../src/solana/compression/events.ts';
import { rowKeyText } from '../store/row-book.ts';
import type { CompressionDb } from '../store/tables.ts';
import type { Hashing } from '../trees/hashing.ts';
import { applyAccounts } from './apply-accounts.ts';
import { applyUpdates } from './apply-updates.ts';
import {
  type BlockBooks,
  diverge,
  openBooks,
  overlaps,
  readUndo,
  revertBlock,
  type Undo,
  undoSlots,
  writeUndo,
} from './block-books.ts';
import type { CnftIndexer } from './cnft.ts';
import type { DecodedBlock } from './decode-block.ts';
import { keysOfEvent, type Plan, planBlock } from './plan.ts';

export interface ApplyOptions {
  /** The block cannot be reverted: no undo data is kept. */
  readonly isFinal: boolean;
}

interface IndexerParts extends RunParts {
  readonly rollBacks: Counter;
}

/** Blocks to rows. Every write happens in the given transaction. */
export interface Indexer {
  /**
   * The rows do not depend on the order or repetition of blocks: a block that is not above the newest is
   * applied as if it had come before the revertible ones above it. Errors: those of the store,
   * COMPRESSION_TREE_UNDECLARED.
   */
  apply(tx: StoreTx, block: DecodedBlock, options: ApplyOptions): Promise<void>;
  /**
   * Changes rows beneath all revertible blocks; blocks up to `finalSlot` are final. `change` may be called
   * twice, with different books. Errors: those of the store.
   */
  amend(tx: StoreTx, change: (books: BlockBooks) => Promise<void>, finalSlot?: number): Promise<void>;
  /** Restores every row as it was before the block was applied. */
  revert(tx: StoreTx, header: Pick<BlockHeader, 'slot'>): Promise<void>;
  /** Blocks up to this slot are final: deletes their undo data. */
  finalized(tx: StoreTx, slot: number): Promise<void>;
}

const HEAD = 1;

export function createIndexer(parts: IndexerParts): Indexer {
  /** Applies a block that may be reverted: undo data is stored. */
  async function applyLive(tx: StoreTx, block: DecodedBlock, ids?: ReadonlyMap<string, number>): Promise<void> {
    const books = openBooks(tx, parts.hashing);
    await runBlock(parts, books, block, ids);
    noteRecent(books, block);
    await moveHead(books, block);
    await books.flush();
    await writeUndo(tx, block, books);
  }

  /** A final block, or one below the revertible ones. */
  async function applyFinal(
    tx: StoreTx,
    block: DecodedBlock,
    books: BlockBooks,
    above: readonly number[],
  ): Promise<void> {
    const firstUndo = above[0] ?? null;
    const listed = block.others.length > 0 && (await isListed(tx, block.slot, firstUndo));
    if (listed) noteRecent(books, block);
    await moveHead(books, block);
    await books.flush();
    if (listed) await pruneRecent(tx, firstUndo === null ? Number.MAX_SAFE_INTEGER : firstUndo - 1);
  }

  /** Reverts later blocks, applies the block, and applies the later ones again. */
  async function applyBelow(
    tx: StoreTx,
    block: DecodedBlock,
    { isFinal }: ApplyOptions,
    slots: readonly number[],
  ): Promise<void> {
    const ids = await treeIds(tx);
    const later = await revertAll(tx, slots);
    const named = new Set(keysOf(block).map((key) => rowKeyText([key])));
    const seen = later.flatMap(({ undo }) => undo.redo.newTrees);
    const foreign = later.flatMap(({ undo }) => undo.redo.foreign);
    const whole = {
      ...block,
      newTrees: [
        ...block.newTrees,
        ...seen.filter(
          ({ key, queue }) => named.has(rowKeyText([key])) || (queue !== null && named.has(rowKeyText([queue]))),
        ),
      ],
      foreign: [...block.foreign, ...foreign.filter(({ key }) => named.has(rowKeyText([key])))],
    };
    if (isFinal) {
      const books = openBooks(tx, parts.hashing);
      await runBlock(parts, books, whole, ids);
      await applyFinal(tx, whole, books, slots);
    } else await applyLive(tx, whole, ids);
    await applyAgain(
      tx,
      later.filter(({ undo }) => undo.slot !== block.slot),
      ids,
    );
  }

  async function applyAgain(tx: StoreTx, later: readonly Later[], ids: ReadonlyMap<string, number>): Promise<void> {
    for (const { undo, others } of later) await applyLive(tx, { ...undo.redo, others }, ids);
  }

  return {
    async apply(tx, block, options) {
      const books = openBooks(tx, parts.hashing);
      const head = await headOf(books);
      if (!options.isFinal) {
        if (head === null || block.slot > head) return await applyLive(tx, block);
        return await applyBelow(tx, block, options, await undoSlots(tx, block.slot));
      }
      // Everything below a final block is final too.
      await dropUndo(tx, block.slot);
      const slots = await undoSlots(tx, block.slot);
      await runBlock(parts, books, block);
      // A block may change nothing now although it would have added a tree in its proper order.
      const says = block.transactions.length > 0 || block.concurrent != null;
      const concerns = says || books.treeRows.changes().length > 0;
      if (concerns && (await overlapsAny(tx, books, slots))) return await applyBelow(tx, block, options, slots);
      await applyFinal(tx, block, books, slots);
    },
    async amend(tx, change, finalSlot) {
      if (finalSlot !== undefined) await dropUndo(tx, finalSlot);
      const books = openBooks(tx, parts.hashing);
      await change(books);
      const slots = await undoSlots(tx, 0);
      if (!(await overlapsAny(tx, books, slots))) return await books.flush();
      const ids = await treeIds(tx);
      const later = await revertAll(tx, slots);
      const beneath = openBooks(tx, parts.hashing);
      await change(beneath);
      await beneath.flush();
      await applyAgain(tx, later, ids);
    },
    async revert(tx, { slot }) {
      const undo = await readUndo(tx, slot);
      if (undo === null) return;
      parts.rollBacks.add();
      await revertBlock(tx, undo);
    },
    async finalized(tx, slot) {
      await dropUndo(tx, slot);
      await pruneRecent(tx, slot);
    },
  };
}

/** A reverted block to be applied again. */
interface Later {
  readonly undo: Undo;
  readonly others: DecodedBlock['others'];
}

/** In ascending order of slots. */
async function revertAll(tx: StoreTx, slots: readonly number[]): Promise<Later[]> {
  const later: Later[] = [];
  for (const slot of [...slots].reverse()) {
    const undo = await readUndo(tx, slot);
    if (undo === null) continue;
    later.unshift({ undo, others: await recentOf(tx, slot) });
    await revertBlock(tx, undo);
  }
  return later;
}

async function dropUndo(tx: StoreTx, slot: number): Promise<void> {
  await (tx.db as CompressionDb).deleteFrom('compression_undo').where('slot', '<=', slot).execute();
}

async function overlapsAny(tx: StoreTx, books: BlockBooks, slots: readonly number[]): Promise<boolean> {
  for (const slot of slots) {
    const undo = await readUndo(tx, slot);
    if (undo !== null && overlaps(books, undo)) return true;
  }
  return false;
}

/** Ids of all trees by key: a tree that is added again keeps its id. */
async function treeIds(tx: StoreTx): Promise<ReadonlyMap<string, number>> {
  const rows = await (tx.db as CompressionDb).selectFrom('compression_trees').select(['key', 'id']).execute();
  return new Map(rows.map(({ key, id }) => [rowKeyText([key]), id]));
}

async function headOf({ head }: BlockBooks): Promise<number | null> {
  await head.load([[HEAD]]);
  return head.get(HEAD)?.slot ?? null;
}

async function moveHead(books: BlockBooks, { slot, blockTime }: DecodedBlock): Promise<void> {
  const head = await headOf(books);
  if (head !== null && head >= slot) return;
  books.head.put({ id: HEAD, slot, block_time: blockTime });
}

interface RunParts {
  readonly hashing: Hashing;
  readonly hasher: AccountHasher;
  readonly log: Log;
  /** See `TreeContext`. */
  readonly isStrict: boolean;
  /** Trees of compressed NFTs, if enabled. */
  readonly cnft?: CnftIndexer | null;
  readonly decodeErrors: Counter;
  readonly hashMismatches: Counter;
}

/** Highest type of tree indexed here. */
const LAST_TYPE = TREE_TYPE.addressV2;

/**
 * Applies a block to the books. `ids`: previous ids of its new trees. Errors:
 * COMPRESSION_TREE_UNDECLARED when a tree is unknown that was known when the block was prepared.
 */
async function runBlock(
  parts: RunParts,
  books: BlockBooks,
  block: DecodedBlock,
  ids?: ReadonlyMap<string, number>,
): Promise<void> {
  const { slot, concurrent = null } = block;
  await parts.cnft?.apply(books, concurrent, { slot, ...(ids === undefined ? {} : { ids }) });
  if (block.transactions.length === 0) return;
  const keys = distinct(keysOf(block));
  await books.trees.load(keys, ['gap']);
  await books.trees.insert(block.newTrees, ids);
  await noteForeign(books, block, keys);
  const plan = planBlock(block, { hasher: parts.hasher, find: (key) => books.trees.find(key) });
  logFaults(parts, plan);
  checkHashes(parts, plan);
  const context = { books, hashing: parts.hashing, log: parts.log, isStrict: parts.isStrict };
  for (const [tree, reason] of plan.suspects) diverge(context, tree, reason);
  logUnreadable(parts, await applyAccounts(books, plan));
  await queueAddresses(books, plan);
  const gaps = [...books.trees.rows()].filter(({ status, type }) => status === 'gap' && type <= LAST_TYPE);
  await applyUpdates(
    context,
    plan.updates,
    gaps.map(({ id }) => id),
  );
  for (const { signature } of block.transactions)
    books.transactions.put({ slot: block.slot, signature: Uint8Array.from(signature), error: null });
  books.blocks.put({ slot: block.slot, block_time: block.blockTime });
}

/** Every key in a block that may be a tree or a queue. */
function keysOf({ transactions }: DecodedBlock): Uint8Array[] {
  return transactions.flatMap(({ events, faults }) => [
    ...events.flatMap(keysOfEvent),
    ...faults.flatMap(({ trees }) => trees),
  ]);
}

/** Keys that must be known before a block can be applied: those of faults are only guesses. */
export function namedTrees({ transactions }: DecodedBlock): Uint8Array[] {
  return distinct(transactions.flatMap(({ events }) => events.flatMap(keysOfEvent)));
}

function distinct(keys: readonly Uint8Array[]): Uint8Array[] {
  const seen = new Map<string, Uint8Array>();
  for (const key of keys) if (key.length === 32) seen.set(rowKeyText([key]), key);
  return [...seen.values()];
}

async function noteForeign({ trees, foreign }: BlockBooks, block: DecodedBlock, keys: readonly Uint8Array[]) {
  const unknown = keys.filter((key) => trees.find(key) === null);
  if (unknown.length === 0) return;
  await foreign.load(unknown.map((key) => [key]));
  for (const { key, reason } of block.foreign)
    if ((foreign.peek(key) ?? null) === null && trees.find(key) === null)
      foreign.put({ key: Uint8Array.from(key), slot: block.slot, reason });
  for (const key of namedTrees(block)) {
    if (trees.find(key) !== null || foreign.get(key) !== null) continue;
    const tree = encode32(key);
    throw new CodedError('COMPRESSION_TREE_UNDECLARED', `tree ${tree} is not known`, {
      retryable: true,
      facts: { tree },
    });
  }
}

/** Queues new addresses for their batch; addresses already in the tree are repeats. */
async function queueAddresses({ trees, addressQueue }: BlockBooks, { addresses }: Plan): Promise<void> {
  const open = addresses.filter(({ tree, queueIndex }) => queueIndex >= trees.byId(tree.id).next_index - 1);
  await addressQueue.load(open.map(({ tree, queueIndex }) => [tree.id, queueIndex]));
  for (const { tree, queueIndex, address } of open)
    if (addressQueue.get(tree.id, queueIndex) === null)
      addressQueue.put({ tree: tree.id, queue_index: queueIndex, address: Uint8Array.from(address) });
}

function logFaults({ log, decodeErrors }: RunParts, { faults, slot }: Plan): void {
  decodeErrors.add(faults.length);
  for (const { signature, reason } of faults)
    log.error(
      { slot, signature: signatureText(signature), reason },
      'an instruction of a compression program cannot be read',
    );
}

function logUnreadable({ log, decodeErrors }: RunParts, signatures: readonly Uint8Array[]): void {
  decodeErrors.add(signatures.length);
  for (const signature of signatures)
    log.warn({ signature: signatureText(signature) }, 'the data of a compressed token account cannot be read');
}

/** A decoded account must hash to its leaf. The leaf itself is correct: the chain emitted it. */
function checkHashes({ hasher, hashMismatches, log }: RunParts, { outputs, slot }: Plan): void {
  const hashes = hasher.hashAll(
    outputs.map(({ output: { account, leafIndex }, tree: { key, type } }) => {
      return { account, tree: key, leafIndex, version: type === TREE_TYPE.stateV1 ? 1 : 2 };
    }),
  );
  for (const [i, { output, signature }] of outputs.entries()) {
    const made = hashes[i] ?? null;
    if (made !== null && equalBytes(output.hash, made)) continue;
    hashMismatches.add();
    log.error(
      { slot, signature: signatureText(signature), leafIndex: output.leafIndex, hash: encode32(output.hash) },
      'a compressed account does not hash to its leaf',
    );
  }
}

const signatureText = (signature: Uint8Array): string => (signature.length === 64 ? encode64(signature) : '');

/** Number of listed other transactions. */
const MAX_RECENT = 1_000;

/** Records the transactions of a block that are neither votes nor compression. */
function noteRecent({ recent }: BlockBooks, { slot, blockTime, others }: DecodedBlock): void {
  if (others.length === 0) return;
  recent.put({ slot, block_time: blockTime, count: others.length, body: JSON.stringify(others) });
}

/** The transactions recorded by `noteRecent`. */
async function recentOf(tx: StoreTx, slot: number): Promise<DecodedBlock['others']> {
  const row = await (tx.db as CompressionDb)
    .selectFrom('compression_recent')
    .select('body')
    .where('slot', '=', slot)
    .executeTakeFirst();
  return row === undefined ? [] : (JSON.parse(row.body) as DecodedBlock['others']);
}

/** Whether the list is full without this slot, even if all revertible blocks are reverted. */
async function isListed(tx: StoreTx, slot: number, firstUndo: number | null): Promise<boolean> {
  const newer = (tx.db as CompressionDb)
    .selectFrom('compression_recent')
    .select((is) => is.fn.sum<number>('count').as('count'))
    .where('slot', '>', slot);
  const row = await (firstUndo === null ? newer : newer.where('slot', '<', firstUndo)).executeTakeFirst();
  return Number(row?.count ?? 0) < MAX_RECENT;
}

/** Deletes the rows of final blocks that are no longer among the newest. `slot` is the newest final one. */
async function pruneRecent(tx: StoreTx, slot: number): Promise<void> {
  const db = tx.db as CompressionDb;
  const rows = await db
    .selectFrom('compression_recent')
    .select(['slot', 'count'])
    .where('slot', '<=', slot)
    .orderBy('slot', 'desc')
    .limit(MAX_RECENT + 1)
    .execute();
  let count = 0;
  const last = rows.find((row) => {
    count += row.count;
    return count >= MAX_RECENT;
  });
  if (last !== undefined && rows.at(-1) !== last)
    await db.deleteFrom('compression_recent').where('slot', '<', last.slot).execute();
}
