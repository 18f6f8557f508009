import type { BlockHeader, ChainBlock, StoreTx } from '../../../src/kernel/plugin.ts';

import type { CompressionEvent, DecodeFault } from '../../../src/solana/compression/events.ts';
import type { ForeignTree, NewTree } from '../trees/tree-source.ts';

/** A transaction with events, or with some that could not be read. */
export interface DecodedTransaction {
  /** 64 bytes. */
  readonly signature: Uint8Array;
  readonly events: readonly CompressionEvent[];
  readonly faults: readonly DecodeFault[];
}

/** What a block means to this plugin: enough to apply it again without it. */
export interface DecodedBlock {
  readonly slot: number;
  /** Unix seconds. */
  readonly blockTime: number | null;
  readonly transactions: readonly DecodedTransaction[];
  /** Other transactions that are no votes: signature, and the JSON text of the error or null. */
  readonly others: readonly (readonly [string, string | null])[];
  /** Trees that were not known when the block came, by what was found. */
  readonly newTrees: readonly NewTree[];
  readonly foreign: readonly { readonly key: Uint8Array; readonly reason: ForeignTree['foreign'] }[];
}

export interface ApplyOptions {
  /** The block will not be taken back: nothing is kept to undo it. */
  readonly isFinal: boolean;
}

/** Blocks to rows. Everything it does to the store happens in the transaction that it is given. */
export interface Indexer {
  /** Reads a block, without the trees that are not known yet. */
  decode(block: ChainBlock): DecodedBlock;
  /**
   * The rows are the same whatever the order in which blocks come and however often one comes. Errors: those of the store; whatever a
   * block holds, it does not make this throw for ever.
   */
  apply(tx: StoreTx, block: DecodedBlock, options: ApplyOptions): Promise<void>;
  /** Restores every row as it was before the block was applied. */
  revert(tx: StoreTx, header: BlockHeader): Promise<void>;
  /** Blocks up to this slot stay: what would undo them goes. */
  finalized(tx: StoreTx, slot: number): Promise<void>;
}
