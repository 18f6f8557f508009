import type { CompressionEvent, DecodeFault } from '../../../src/solana/compression/events.ts';
import type { CnftBlock } from '../das/cnft-block.ts';
import type { NewTree } from '../trees/tree-source.ts';

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
  /** Trees that were not known when the block came. */
  readonly newTrees: readonly NewTree[];
  /** Keys that turned out to be no trees of ours. */
  readonly foreign: readonly { readonly key: Uint8Array; readonly reason: string }[];
  /** What happened to trees of compressed NFTs, if anything. */
  readonly concurrent?: CnftBlock | null;
}
