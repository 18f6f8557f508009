import type { BlockHeader, ChainBlock, ChainId } from './block.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** `unknown`: the ledger has no record of the slot. */
export type SlotState = 'block' | 'skipped' | 'unknown';

/** The slots of a range, as far as they are known. */
export interface SlotRange {
  /** Slots with a block, ascending. All others of the range that are not `unknown` are skipped. */
  readonly blocks: readonly number[];
  /** Ascending. */
  readonly unknown: readonly number[];
}

/** Where a transaction stands. */
export interface Place {
  readonly slot: number;
  /** In its block, votes included. */
  readonly index: number;
}

export interface KeptTransaction extends Place {
  readonly header: BlockHeader;
  /** base58 */
  readonly signature: string;
  /** The element of `transactions` in the answer of the node: `transaction` in base64, `meta` and, if reported, `version`. */
  readonly text: Buffer;
  /** Decoded, as a block of this transaction alone, in which its index is 0. Errors: as `decodeBlock`. */
  block(): ChainBlock;
}

/** A transaction in the history of an address. */
export interface AddressRow extends Place {
  /** base58 */
  readonly signature: string;
  /** Unix seconds; null if unknown. */
  readonly blockTime: number | null;
  readonly isFinal: boolean;
  /** `meta.err`; null on success. */
  readonly err: unknown;
  /** As `getSignaturesForAddress` reports it: `[length] text`, several separated by `; `. */
  readonly memo: string | null;
  /** The address is an account key: of the message, or loaded from a table. */
  readonly key: 'static' | 'loaded' | null;
  /** The address owns a token account of the transaction, whose balance changed or not. */
  readonly owner: 'changed' | 'unchanged' | null;
}

export interface AddressQuery {
  /** 32 bytes. */
  readonly address: Uint8Array;
  /**
   * `keys`: rows in which the address is an account key. `changed`: also those in which a token balance of it changed. `all`: also those
   * with any token account of it.
   */
  readonly reasons: 'keys' | 'changed' | 'all';
  readonly order: 'newest' | 'oldest';
  /** Bounds, both exclusive; absent: open. A place whose index is -1 or infinite stands before or behind its block. */
  readonly above?: Place;
  readonly below?: Place;
  readonly limit: number;
}

export interface AddressPage {
  /** Within `from` and `to`, in the order of the query; votes are never among them. */
  readonly rows: readonly AddressRow[];
  /** Whether there are more between the last row and the end of the query or of the range. */
  readonly hasMore: boolean;
  /** Slots, inclusive: between them the index has every transaction of the address but votes. Elsewhere nothing is known. */
  readonly from: number;
  readonly to: number;
  /** The address may occur in votes, which the index leaves out. */
  readonly inVotes: boolean;
}

/**
 * The blocks of one chain that the ledger has. `state`, `states`, `newest`, `firstOfRun` and `finalSlot` answer from memory: outside the
 * thread that writes as of the last `refresh`, which every asynchronous look-up does first.
 * Errors of the look-ups: LEDGER_IO; LEDGER_DAMAGED if the requested data on disk is damaged, so that an upstream must answer.
 */
export interface LedgerReader {
  /** Blocks up to it are never taken back; -1 without one. */
  readonly finalSlot: number;
  /** The newest known slot at or below this one; -1 without one. */
  newest(atMost?: number): number;
  /** A slot from which on every slot up to the newest block is known; -1 without a block. */
  firstOfRun(): number;
  state(slot: number): SlotState;
  /** Both inclusive. */
  states(from: number, to: number): SlotRange;
  /** Sees what was written by now. Nothing to do in the thread that writes. */
  refresh(): Promise<void>;
  /** Null when the block is unknown or damaged. */
  header(slot: number): Promise<BlockHeader | null>;
  /** The block, decoded; null when it is unknown or damaged on disk. Errors: LEDGER_IO. */
  block(slot: number): Promise<ChainBlock | null>;
  /** A block with these transactions alone (base58), in their order; null when one is not there. Errors: as `block`. */
  part(slot: number, signatures: readonly string[]): Promise<ChainBlock | null>;
  /** The JSON text of the block as a node answered it in base64, rewards included; null when it is unknown, damaged, or came in another form. */
  text(slot: number): Promise<Buffer | null>;
  /** The place of a transaction; null when no block that the ledger has contains it. `signature`: 64 bytes. */
  find(signature: Uint8Array): Promise<Place | null>;
  /** Null when the block is unknown, or has no such transaction. */
  transaction(place: Place): Promise<KeptTransaction | null>;
  /** Null where there is no index, or it leaves the address out (system and vote program, clock, slot hashes). */
  addressPage(query: AddressQuery): Promise<AddressPage | null>;
}

/**
 * The ledger of a chain. Null without `ledger.retain`, before it is open, and in a process that cannot read the files of the indexer.
 */
export const kernelLedger: ServiceToken<(chain: ChainId) => LedgerReader | null> = serviceToken('kernel.ledger');

/**
 * The final blocks of one chain in ClickHouse: the look-ups of the ledger, for what the ledger no longer has. Only what a complete range
 * of slots holds is ever returned. Errors: ARCHIVE_UNREACHABLE, ARCHIVE_REFUSED.
 */
export interface ArchiveReader extends Pick<LedgerReader, 'header' | 'text' | 'find' | 'transaction'> {
  /** Slots of which everything is known, both inclusive, ascending; between two of them nothing is known. */
  ranges(): Promise<readonly (readonly [from: number, to: number])[]>;
  /** Both inclusive. */
  states(from: number, to: number): Promise<SlotRange>;
  /**
   * As of the ledger. Its `from` and `to` are the range in which the page begins: the one at or below `below` for the newest first, the
   * one at or above `above` for the oldest first.
   */
  addressPage(query: AddressQuery): Promise<AddressPage | null>;
}

export interface PastPage {
  /** Newest first. */
  readonly rows: readonly AddressRow[];
  /** Whether it has `limit` rows, or all down to `above`. Else nothing is known of what is older than the last row. */
  readonly isWhole: boolean;
  /** The address may occur in votes, which are left out. */
  readonly inVotes: boolean;
}

/**
 * The final past of one chain as far as this daemon has it: the ledger, and what is older from the archive. What neither of them has, an
 * upstream may have. Errors of the look-ups: those of the ledger and of the archive; an upstream has to answer then.
 */
export interface PastReader extends Pick<LedgerReader, 'header' | 'text' | 'find' | 'transaction'> {
  /** The newest final slot, as of now; -1 without one. */
  finalSlot(): Promise<number>;
  /** As of the last `finalSlot()`. Both inclusive. */
  states(from: number, to: number): Promise<SlotRange>;
  /** Transactions of an address, newest first, over all seams: none is missing among the rows, and none comes twice. */
  page(query: Omit<AddressQuery, 'order' | 'below'> & { readonly below: Place }): Promise<PastPage>;
  /** The slot from which on every transaction of an address is known, up to `slot`; `slot + 1` when those of `slot` are not. */
  knownFrom(query: Pick<AddressQuery, 'address' | 'reasons'>, slot: number): Promise<number>;
}

/** Null without `ledger.retain`. */
export const kernelPast: ServiceToken<(chain: ChainId) => PastReader | null> = serviceToken('kernel.past');

/** A ClickHouse: a server, or the engine in a process of its own. Errors: ARCHIVE_UNREACHABLE, ARCHIVE_REFUSED. */
export interface ArchiveEngine {
  /** Folder or hosts, without secrets. */
  readonly name: string;
  readonly database: string;
  /** Keeps tables on several servers. */
  readonly isReplicated: boolean;
  run(sql: string): Promise<void>;
  /** The rows of a query without a FORMAT; 64-bit numbers may be texts. */
  select<T>(sql: string): Promise<readonly T[]>;
  /** Rows in the format TabSeparated, all columns in the order of the table. */
  insert(table: string, rows: Buffer): Promise<void>;
  close(): Promise<void>;
}
