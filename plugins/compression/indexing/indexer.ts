import type { BlockHeader, StoreTx } from '../../../src/kernel/plugin.ts';
import type { Counter } from '../../../src/ports/metrics.ts';
import { keyText } from '../store/row-book.ts';
import type { Db } from '../store/tables.ts';
import { type BlockBooks, openBooks } from './block-books.ts';
import type { DecodedBlock } from './decoded-block.ts';
import { isListed, noteRecent, pruneRecent, recentOf } from './recent.ts';
import { keysOf, type RunParts, runBlock } from './run-block.ts';
import { meets, readUndo, takeBack, type Undo, undoSlots, writeUndo } from './undo.ts';

export interface ApplyOptions {
  /** The block will not be taken back: nothing is kept to undo it. */
  readonly isFinal: boolean;
}

export interface IndexerParts extends RunParts {
  readonly rollBacks: Counter;
}

/** Blocks to rows. Everything it does to the store happens in the transaction that it is given. */
export interface Indexer {
  /**
   * The rows are the same whatever the order in which blocks come and however often one comes: one that is not above the newest is
   * applied as if it had come before those above it that can still be taken back. Errors: those of the store,
   * COMPRESSION_TREE_UNDECLARED.
   */
  apply(tx: StoreTx, block: DecodedBlock, options: ApplyOptions): Promise<void>;
  /**
   * Changes rows beneath all blocks that can be taken back; those up to `finalSlot` stay, and are none of them. `change` may be called
   * twice, with other books. Errors: those of the store.
   */
  amend(tx: StoreTx, change: (books: BlockBooks) => Promise<void>, finalSlot?: number): Promise<void>;
  /** Restores every row as it was before the block was applied. */
  revert(tx: StoreTx, header: Pick<BlockHeader, 'slot'>): Promise<void>;
  /** Blocks up to this slot stay: what would undo them goes. */
  finalized(tx: StoreTx, slot: number): Promise<void>;
}

const HEAD = 1;

export function createIndexer(parts: IndexerParts): Indexer {
  /** With an undo row. */
  async function applyLive(tx: StoreTx, block: DecodedBlock, ids?: ReadonlyMap<string, number>): Promise<void> {
    const books = openBooks(tx, parts.hashing);
    await runBlock(parts, books, block, ids);
    noteRecent(books, block);
    await moveHead(books, block);
    await books.flush();
    await writeUndo(tx, block, books);
  }

  /** Into the past, or for ever. */
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

  /** Takes back what came later, applies the block, and applies the later ones again. */
  async function applyBelow(
    tx: StoreTx,
    block: DecodedBlock,
    { isFinal }: ApplyOptions,
    slots: readonly number[],
  ): Promise<void> {
    const ids = await treeIds(tx);
    const later = await takeBackAll(tx, slots);
    const named = new Set(keysOf(block).map((key) => keyText([key])));
    const seen = later.flatMap(({ undo }) => undo.redo.newTrees);
    const foreign = later.flatMap(({ undo }) => undo.redo.foreign);
    const whole = {
      ...block,
      newTrees: [
        ...block.newTrees,
        ...seen.filter(
          ({ key, queue }) => named.has(keyText([key])) || (queue !== null && named.has(keyText([queue]))),
        ),
      ],
      foreign: [...block.foreign, ...foreign.filter(({ key }) => named.has(keyText([key])))],
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
      // What is below a final block is final too.
      await dropUndo(tx, block.slot);
      const slots = await undoSlots(tx, block.slot);
      await runBlock(parts, books, block);
      // A block may change nothing now, and would have made a tree had it come in its turn.
      const says = block.transactions.length > 0 || block.concurrent != null;
      const concerns = says || books.treeRows.changes().length > 0;
      if (concerns && (await meetsAny(tx, books, slots))) return await applyBelow(tx, block, options, slots);
      await applyFinal(tx, block, books, slots);
    },
    async amend(tx, change, finalSlot) {
      if (finalSlot !== undefined) await dropUndo(tx, finalSlot);
      const books = openBooks(tx, parts.hashing);
      await change(books);
      const slots = await undoSlots(tx, 0);
      if (!(await meetsAny(tx, books, slots))) return await books.flush();
      const ids = await treeIds(tx);
      const later = await takeBackAll(tx, slots);
      const beneath = openBooks(tx, parts.hashing);
      await change(beneath);
      await beneath.flush();
      await applyAgain(tx, later, ids);
    },
    async revert(tx, { slot }) {
      const undo = await readUndo(tx, slot);
      if (undo === null) return;
      parts.rollBacks.add();
      await takeBack(tx, undo);
    },
    async finalized(tx, slot) {
      await dropUndo(tx, slot);
      await pruneRecent(tx, slot);
    },
  };
}

/** A block that was taken back, and is to be applied again. */
interface Later {
  readonly undo: Undo;
  readonly others: DecodedBlock['others'];
}

/** In the order of their slots, which are ascending. */
async function takeBackAll(tx: StoreTx, slots: readonly number[]): Promise<Later[]> {
  const later: Later[] = [];
  for (const slot of [...slots].reverse()) {
    const undo = await readUndo(tx, slot);
    if (undo === null) continue;
    later.unshift({ undo, others: await recentOf(tx, slot) });
    await takeBack(tx, undo);
  }
  return later;
}

async function dropUndo(tx: StoreTx, slot: number): Promise<void> {
  await (tx.db as Db).deleteFrom('compression_undo').where('slot', '<=', slot).execute();
}

async function meetsAny(tx: StoreTx, books: BlockBooks, slots: readonly number[]): Promise<boolean> {
  for (const slot of slots) {
    const undo = await readUndo(tx, slot);
    if (undo !== null && meets(books, undo)) return true;
  }
  return false;
}

/** Numbers of all trees by their keys: a tree that is planted anew keeps its own. */
async function treeIds(tx: StoreTx): Promise<ReadonlyMap<string, number>> {
  const rows = await (tx.db as Db).selectFrom('compression_trees').select(['key', 'id']).execute();
  return new Map(rows.map(({ key, id }) => [keyText([key]), id]));
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
