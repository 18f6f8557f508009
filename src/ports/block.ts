/**
 * The one normalised form of a block. A transaction is decoded once, by the chain adapter (`src/solana/decode`), and every
 * processor shares the result. These are types only; `src/solana` implements them and may import this file.
 */

/** What links a block to its parent. */
export interface BlockHeader {
  readonly slot: number;
  readonly parentSlot: number;
  /** base58 */
  readonly blockhash: string;
  /** base58 */
  readonly previousBlockhash: string;
  readonly blockHeight: number | null;
  /** Unix seconds; null when the chain gives none. */
  readonly blockTime: number | null;
}

export interface ChainBlock extends BlockHeader {
  /** In block order, votes included; `transactions[i].index === i`. */
  readonly transactions: readonly NormalTransaction[];
  /** Every distinct 32-byte key that occurs in the block as a small integer. */
  readonly keys: KeyTable;
}

/**
 * Interned keys of one block: static keys, loaded keys, and owners, mints and programs of token balances. Ids count 0, 1, 2 …
 * in order of first appearance.
 */
export interface KeyTable {
  readonly size: number;
  /** The raw keys, eight little-endian 32-bit words each, id after id; may be longer than `size * 8`. */
  readonly words: Uint32Array;
  /** The 32 bytes of a key as a view on `words`; copy before keeping it beyond the block. */
  bytes(id: number): Uint8Array;
  /** Flat base58 string, memoised. */
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

/** What the header of a version 1 message asks for; null where it leaves a value out, which counts as the least one. */
export interface TransactionConfig {
  /** Lamports in all, whatever is consumed. */
  readonly priorityFee: bigint | null;
  readonly computeUnitLimit: number | null;
  /** Bytes; nothing can be loaded without it. */
  readonly loadedAccountsDataSizeLimit: number | null;
  /** Bytes. */
  readonly heapSize: number | null;
}

/** An instruction as the message holds it. Account and program numbers index `NormalTransaction.keys`. */
export interface NormalInstruction {
  readonly programIndex: number;
  readonly accounts: Uint8Array;
  /** A view on the block's bytes; copy before keeping it beyond the block. */
  readonly data: Uint8Array;
}

export interface NormalInnerInstruction extends NormalInstruction {
  /** Null where the node gives none. */
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

/** An amount of a token account before or after the transaction. */
export interface TokenBalance {
  readonly accountIndex: number;
  /** Ids in the block's key table; -1 where the node gives none. */
  readonly mintKey: number;
  readonly ownerKey: number;
  readonly programKey: number;
  /** Raw units as a decimal string. */
  readonly amount: string;
  readonly decimals: number;
}

export interface NormalTransaction {
  readonly index: number;
  /** First signature, base58, made on first use and flat. */
  readonly signature: string;
  /** All signatures, 64 bytes each; views on the block's bytes. */
  readonly signatures: readonly Uint8Array[];
  readonly version: TransactionVersion;
  readonly header: MessageHeader;
  /** Of version 1 only: there it replaces the ComputeBudget instructions, which do nothing. Null for all other versions. */
  readonly config: TransactionConfig | null;
  /** Ids in the block's key table: static keys, then loaded writable, then loaded readonly. */
  readonly keys: Uint32Array;
  readonly staticKeyCount: number;
  /** How many of the loaded keys are writable; they follow the static ones. */
  readonly loadedWritableCount: number;
  /** Distinct owners of the token balances before and after, ids in the block's key table. */
  readonly tokenOwners: Uint32Array;
  /** Recent blockhash or nonce, 32 bytes. */
  readonly recentBlockhash: Uint8Array;
  readonly instructions: readonly NormalInstruction[];
  readonly addressTableLookups: readonly AddressTableLookup[];
  /** Exactly one instruction and its program is the Vote program. */
  readonly isVote: boolean;
  /** `meta.err` verbatim; null on success. */
  readonly error: unknown;
  /** Lamports. */
  readonly fee: number;
  readonly preBalances: readonly number[];
  readonly postBalances: readonly number[];
  readonly preTokenBalances: readonly TokenBalance[];
  readonly postTokenBalances: readonly TokenBalance[];
  /** Decoded on first use. Empty when the node gives none. */
  readonly innerInstructions: readonly InnerGroup[];
  readonly logMessages: readonly string[] | null;
  /** `meta` as the node sent it, for payloads that repeat it; never changed. Null when the node gave none. */
  readonly meta: Readonly<Record<string, unknown>> | null;
}
