import type { BlockRows } from '../rows.ts';
import type { IndexRun } from '../run.ts';

/** What the index reads from the segments. */
export interface IndexedBlocks {
  /** 48 bits of the hash of the block; -1 without a block. */
  hashAt(slot: number): number;
  /** Parent of a known block. */
  parentAt(slot: number): number;
  newest(): number;
  readonly finalSlot: number;
  /** All files, newest first. */
  segments(): Iterable<IndexedSegment>;
  /** From the block itself; null when it is unknown or damaged. Errors: LEDGER_IO. */
  rows(slot: number): Promise<BlockRows | null>;
  /** Details of some transactions of a block; null when the block is unknown. Errors: LEDGER_IO, LEDGER_DAMAGED. */
  details(slot: number, indexes: readonly number[]): Promise<BlockDetails | null>;
  /** Signature of a transaction; null when it is unknown. Errors: those of `details`. */
  signatureAt(slot: number, index: number): Promise<Uint8Array | null>;
  /** The index of a transaction in a block; -1 when it is not there. Errors: as `details`. */
  findIn(slot: number, signature: Uint8Array): Promise<number>;
}

interface IndexedSegment {
  readonly number: number;
  readonly isComplete: boolean;
  /** Changes with blocks that are written below others. */
  readonly outOfOrder: number;
  /** Newest first; some of them void, or replaced by later files. Usually only the first ones are looked at. */
  readonly slots: Iterable<number>;
}

export interface BlockDetails {
  readonly blockTime: number | null;
  readonly signatures: ReadonlyMap<number, Uint8Array>;
  readonly errors: ReadonlyMap<number, unknown>;
  readonly memos: ReadonlyMap<number, string>;
}

export interface TailBlock {
  readonly hash: number;
  readonly rows: BlockRows;
  readonly count: number;
}

/** What the index has. A row is valid only if the hash of its block is the hash that the ledger has for this slot. */
export interface IndexState {
  /** Rows of the newest blocks, by slot. */
  readonly tail: Map<number, TailBlock>;
  /** Rows of all other blocks, in files. */
  runs: readonly IndexRun[];
  /** Number of the next file. */
  nextNumber: number;
  /** Paths of files that are not used again. */
  readonly damaged: Set<string>;
  /** Blocks that could not be added, by slot and hash: they are not tried again. */
  readonly failed: Map<number, number>;
  /** By segment: the newest block up to which all are covered. */
  readonly scanned: Map<string, { readonly slot: number; readonly hash: number }>;
  /** The range that the last look-up found complete. */
  complete: { readonly from: number; readonly to: number; readonly hash: number } | null;
  /** Every block was covered when they were looked at the last time; later ones were added. */
  isWhole: boolean;
}

export const newIndexState = (): IndexState => ({
  tail: new Map(),
  runs: [],
  nextNumber: 1,
  damaged: new Set(),
  failed: new Map(),
  scanned: new Map(),
  complete: null,
  isWhole: false,
});

/** Some blocks are no longer covered. */
export function lookAgain(state: IndexState): void {
  state.complete = null;
  state.isWhole = false;
  state.scanned.clear();
}
