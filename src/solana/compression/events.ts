import { type ByteReader, LayoutError } from '../../lib/bytes.ts';

/** Types of trees, with the numbers used by API and programs. */
export const TREE_TYPE = { stateV1: 1, addressV1: 2, stateV2: 3, addressV2: 4 } as const;

/** Effects of one call of the system program on trees and queues. Keys and hashes are 32 bytes, views of the block's bytes. */
export interface TransactionEvent {
  readonly kind: 'transaction';
  /** 1: emitted through a noop; 2: read from queue insertions, also for V1 trees. */
  readonly version: 1 | 2;
  /** Hashes of the accounts that were spent. */
  readonly inputs: readonly SpentInput[];
  readonly outputs: readonly CreatedOutput[];
  readonly newAddresses: readonly NewAddress[];
  /** Zero when unused. */
  readonly txHash: Uint8Array;
  /** Trees of inputs from the CPI context, whose queue index is unknown. */
  readonly missesQueueIndexes: readonly Uint8Array[];
}

export interface SpentInput {
  readonly hash: Uint8Array;
  /** Position of the queued nullifier; null for trees without queues. */
  readonly queued: { readonly tree: Uint8Array; readonly leafIndex: number; readonly queueIndex: bigint | null } | null;
}

export interface CreatedOutput {
  readonly account: CompressedAccount;
  readonly hash: Uint8Array;
  readonly leafIndex: number;
  /** A V1 tree, or the output queue of a V2 tree. */
  readonly treeOrQueue: Uint8Array;
  /** Tree that the event names for it; null when absent. */
  readonly tree: Uint8Array | null;
  readonly treeType: number;
  /** Sequence number of the V1 tree after this leaf; null when leaves are queued. */
  readonly seq: bigint | null;
  /** Wallet of the associated token account, if the event contains it. */
  readonly wallet: Uint8Array | null;
}

export interface NewAddress {
  readonly address: Uint8Array;
  readonly tree: Uint8Array;
  /** Null for V1 trees, which have no such queue. */
  readonly queueIndex: bigint | null;
}

/** Leaves of a V1 state tree become zero; the i-th has the sequence number `seq + i`. */
export interface NullifyEvent {
  readonly kind: 'nullify';
  readonly tree: Uint8Array;
  readonly leafIndexes: readonly number[];
  readonly seq: bigint;
}

export interface IndexedLeaf {
  readonly value: Uint8Array;
  readonly nextIndex: number;
  readonly nextValue: Uint8Array;
  readonly index: number;
}

/** A new value in a V1 address tree: the low leaf has `seq` of its pair, the new one the number after it. */
export interface IndexedEvent {
  readonly kind: 'indexed';
  readonly tree: Uint8Array;
  readonly updates: readonly {
    readonly low: IndexedLeaf;
    readonly lowHash: Uint8Array;
    readonly high: IndexedLeaf;
    readonly highHash: Uint8Array;
  }[];
  readonly seq: bigint;
}

/** A part of a queue went into its tree: `[oldNextIndex, newNextIndex)`. */
export interface BatchEvent {
  readonly kind: 'append' | 'batchNullify' | 'addressAppend';
  readonly tree: Uint8Array;
  readonly oldNextIndex: number;
  readonly newNextIndex: number;
  readonly newRoot: Uint8Array;
  readonly rootIndex: number;
  readonly seq: bigint;
  readonly outputQueue: Uint8Array | null;
}

export type CompressionEvent = TransactionEvent | NullifyEvent | IndexedEvent | BatchEvent;

/** An instruction that should be a readable event: the trees among its accounts can no longer be trusted. */
export interface DecodeFault {
  readonly reason: string;
  /** Keys of the instruction's accounts, or of the trees that it names. */
  readonly trees: readonly Uint8Array[];
}

/** Program data of a compressed account. */
interface AccountData {
  /** 8 bytes. */
  readonly discriminator: Uint8Array;
  readonly bytes: Uint8Array;
  /** 32 bytes. */
  readonly hash: Uint8Array;
}

export interface CompressedAccount {
  readonly owner: Uint8Array;
  readonly lamports: bigint;
  readonly address: Uint8Array | null;
  readonly data: AccountData | null;
}

/** An account in instructions and events: its tree or output queue is an index into a list of keys. */
export interface PackedOutput {
  readonly account: CompressedAccount;
  readonly treeIndex: number;
}

/** Minimum size of a list item. */
export const OUTPUT_BYTES = 43;

export function readAccount(reader: ByteReader): CompressedAccount {
  return {
    owner: reader.key(),
    lamports: reader.u64(),
    address: reader.option(reader.key),
    data: reader.option(() => ({ discriminator: reader.bytes(8), bytes: reader.blob(), hash: reader.key() })),
  };
}

export function readOutput(reader: ByteReader): PackedOutput {
  return { account: readAccount(reader), treeIndex: reader.u8() };
}

/** The key at an index. Errors: LayoutError. */
export function keyAt(keys: readonly Uint8Array[], index: number): Uint8Array {
  const key = keys[index];
  if (key === undefined) throw new LayoutError(`there is no account ${index} of ${keys.length}`);
  return key;
}
