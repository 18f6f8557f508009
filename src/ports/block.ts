/**
 * The normalized form of a block. The chain adapter decodes each transaction once (`src/solana/decode`), and all processors share the
 * result. This file contains only types; `src/solana` implements them and may import this file.
 */

/** The part of a block that links it to its parent. */
export interface BlockHeader {
  readonly slot: number;
  readonly parentSlot: number;
  /** base58 */
  readonly blockhash: string;
  /** base58 */
  readonly previousBlockhash: string;
  readonly blockHeight: number | null;
  /** Unix seconds; null if unknown. */
  readonly blockTime: number | null;
}

export interface ChainBlock extends BlockHeader {
  /** In block order, votes included; `transactions[i].index === i`. */
  readonly transactions: readonly NormalTransaction[];
  /** Maps each distinct 32-byte key of the block to a small integer. */
  readonly keys: KeyTable;
  /** What it was decoded from; absent for blocks that are no whole answer. */
  readonly answer?: BlockText;
}

/** A block as the JSON text of `getBlock`. */
export interface BlockText {
  /** The text is that of a node, byte by byte, with rewards. */
  readonly isVerbatim: boolean;
  text(): Buffer;
}

/**
 * Interned keys of one block: static keys, loaded keys, and owners, mints and programs of token balances. Ids are 0, 1, 2, … in the order
 * of first appearance.
 */
export interface KeyTable {
  readonly size: number;
  /** The raw keys in the order of their ids, eight little-endian 32-bit words each; may be longer than `size * 8`. */
  readonly words: Uint32Array;
  /** The 32 bytes of a key, a view of `words`; copy it to keep it longer than the block. */
  bytes(id: number): Uint8Array;
  /** Flat base58 string, memoized. */
  base58(id: number): string;
  /** The id of a key given as 32 bytes, or -1. */
  find(key: Uint8Array): number;
}

/** `legacy` or the number of a versioned message. */
export type TransactionVersion = 'legacy' | number;

export interface MessageHeader {
  readonly numRequiredSignatures: number;
  readonly numReadonlySignedAccounts: number;
  readonly numReadonlyUnsignedAccounts: number;
}

/** Requested resources in the header of a version 1 message; null: absent, which means the minimum. */
export interface TransactionConfig {
  /** Total in lamports, independent of the consumed compute units. */
  readonly priorityFee: bigint | null;
  readonly computeUnitLimit: number | null;
  /** Bytes; if absent, nothing can be loaded. */
  readonly loadedAccountsDataSizeLimit: number | null;
  /** Bytes. */
  readonly heapSize: number | null;
}

/** An instruction as encoded in the message. Account and program numbers index `NormalTransaction.keys`. */
export interface NormalInstruction {
  readonly programIndex: number;
  readonly accounts: Uint8Array;
  /** A view of the block's bytes; copy it to keep it longer than the block. */
  readonly data: Uint8Array;
}

export interface NormalInnerInstruction extends NormalInstruction {
  /** Null if the node does not report it. */
  readonly stackHeight: number | null;
}

/** The inner instructions of one outer instruction, in order of execution. */
export interface InnerGroup {
  readonly index: number;
  readonly instructions: readonly NormalInnerInstruction[];
}

export interface AddressTableLookup {
  /** Id in the block's key table. */
  readonly tableKey: number;
  readonly writableIndexes: Uint8Array;
  readonly readonlyIndexes: Uint8Array;
}

/** Balance of a token account before or after the transaction. */
export interface TokenBalance {
  readonly accountIndex: number;
  /** Ids in the block's key table; -1 if the node does not report the key. */
  readonly mintKey: number;
  readonly ownerKey: number;
  readonly programKey: number;
  /** Raw units as a decimal string. */
  readonly amount: string;
  readonly decimals: number;
}

/** Lamports: a bigint where a double cannot hold the number. */
export type Lamports = number | bigint;

/**
 * What of a transaction could not be read, or is unusual. Runtimes change without this program; a transaction in a new form never keeps its
 * block from being used.
 *
 * - `version`: a message version whose bytes are unknown here. As JSON it can be readable.
 * - `config`: bits of the config mask without a known meaning; all else was read.
 * - `message`: bytes that are malformed or break a rule of the format.
 * - `meta`: members that are missing or have another form. Each counts as absent; `metaText` has them as they came.
 */
export interface TransactionFault {
  readonly kind: 'version' | 'config' | 'message' | 'meta';
  readonly reason: string;
}

export interface NormalTransaction {
  readonly index: number;
  /** Null for a transaction that was read completely and breaks no rule. */
  readonly fault: TransactionFault | null;
  /**
   * The message could not be read: there are no instructions, the header is all zeros, and of signatures, keys and meta there is what was
   * readable. `entryText` has the transaction as the node sent it.
   */
  readonly isOpaque: boolean;
  /** First signature, a flat base58 string; encoded on first use. Begins with 48 zero bytes where none could be read: unique, and no signature. */
  readonly signature: string;
  /** All signatures, 64 bytes each; views of the block's bytes. At least one. */
  readonly signatures: readonly Uint8Array[];
  readonly version: TransactionVersion;
  readonly header: MessageHeader;
  /** Only in version 1, where it replaces the ComputeBudget instructions, which have no effect there. Null for all other versions. */
  readonly config: TransactionConfig | null;
  /** Ids in the block's key table: static keys, then loaded writable, then loaded readonly. */
  readonly keys: Uint32Array;
  readonly staticKeyCount: number;
  /** Number of writable loaded keys; they follow the static keys. */
  readonly loadedWritableCount: number;
  /** Distinct owners of the token balances before and after; ids in the block's key table. */
  readonly tokenOwners: Uint32Array;
  /** Recent blockhash or nonce, 32 bytes. */
  readonly recentBlockhash: Uint8Array;
  readonly instructions: readonly NormalInstruction[];
  readonly addressTableLookups: readonly AddressTableLookup[];
  /**
   * A simple vote, as a node tells it apart: one or two signatures, a legacy message, and exactly one instruction, of the Vote program. A
   * withdrawal from a vote account in a versioned message is none.
   */
  readonly isVote: boolean;
  /** `meta.err` verbatim; null on success. */
  readonly error: unknown;
  readonly fee: Lamports;
  readonly preBalances: readonly Lamports[];
  readonly postBalances: readonly Lamports[];
  readonly preTokenBalances: readonly TokenBalance[];
  readonly postTokenBalances: readonly TokenBalance[];
  /** Decoded on first use. Empty if the node does not report any. */
  readonly innerInstructions: readonly InnerGroup[];
  readonly logMessages: readonly string[] | null;
  /** `meta` exactly as sent by the node, for payloads that contain it; large integers are bigints. Null if the node sent none. */
  readonly meta: Readonly<Record<string, unknown>> | null;
  /** The JSON text of `meta`, byte by byte where the block came as text: numbers of any size are whole. */
  readonly metaText: Buffer;
  /** The JSON text of the whole entry, as `metaText`. */
  readonly entryText: Buffer;
  /** The transaction as it was sent, a view of the block's bytes; null for one whose bytes are not known here. */
  readonly wire: Uint8Array | null;
}

const PLACEHOLDER = '1'.repeat(48);

/** Whether a signature only stands for one that could not be read. */
export const isPlaceholder = (signature: string): boolean => signature.startsWith(PLACEHOLDER);

/** `main`, or `devnet` for the second chain. */
export type ChainId = 'main' | 'devnet';
