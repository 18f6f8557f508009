import type { Tenant } from './access.ts';
import type { BlockHeader, ChainBlock, ChainId } from './block.ts';
import type { BankLevel } from './chain.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** `unknown`: the ledger has no record of the slot. */
export type SlotState = 'block' | 'skipped' | 'unknown';

/** The slots of a range, as far as they are known. */
export interface SlotsInRange {
  /** Slots with a block, ascending. All others of the range that are not `unknown` are skipped. */
  readonly blocks: readonly number[];
  /** Ascending. */
  readonly unknown: readonly number[];
}

/** Where a transaction stands. */
export interface LedgerPlace {
  readonly slot: number;
  /** In its block, votes included. */
  readonly index: number;
}

export interface KeptTransaction extends LedgerPlace {
  readonly header: BlockHeader;
  /** base58 */
  readonly signature: string;
  /** The element of `transactions` in the answer of the node: `transaction` in base64, `meta` and, if reported, `version`. */
  readonly text: Buffer;
  /** Decoded, as a block of this transaction alone, in which its index is 0. Errors: as `decodeBlock`. */
  block(): ChainBlock;
}

/** A transaction in the history of an address. */
export interface AddressRow extends LedgerPlace {
  /** base58 */
  readonly signature: string;
  /** Unix seconds; null if unknown. */
  readonly blockTime: number | null;
  readonly isFinal: boolean;
  /** `meta.err`; null on success. */
  readonly err: unknown;
  /** Memo in the form of `getSignaturesForAddress`: `[length] text`, several separated by `; `. */
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
  readonly above?: LedgerPlace;
  readonly below?: LedgerPlace;
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
  states(from: number, to: number): SlotsInRange;
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
  find(signature: Uint8Array): Promise<LedgerPlace | null>;
  /** Null when the block is unknown, or has no such transaction. */
  transaction(place: LedgerPlace): Promise<KeptTransaction | null>;
  /** Null where there is no index, or it leaves the address out (system and vote program, clock, slot hashes). */
  addressPage(query: AddressQuery): Promise<AddressPage | null>;
}

/**
 * The ledger of a chain. Null without `ledger.retain`, before it is open, and in a process that cannot read the files of the indexer.
 */
export const kernelLedger: ServiceToken<(chain: ChainId) => LedgerReader | null> = serviceToken('kernel.ledger');

/** Who copies the ledger, and still needs blocks that it would remove. */
export interface LedgerHolds {
  /**
   * The ledger keeps blocks above `slot()` beyond the bounds of its retention, up to twice `ledger.retain.bytes`; -1: all. To be called
   * before the start, in the thread that writes the ledger; elsewhere it has no effect.
   */
  hold(chain: ChainId, slot: () => number): void;
  /**
   * `run` gets the ledger when this thread has opened it to write it, before its first block; with several indexers only in the one that leads. To be
   * called before the start.
   */
  opened(chain: ChainId, run: (ledger: LedgerReader) => void): void;
}

export const kernelLedgerHolds: ServiceToken<LedgerHolds> = serviceToken('kernel.ledger-holds');

/**
 * The final blocks of one chain in ClickHouse: the look-ups of the ledger, for what the ledger no longer has. Only what a complete range
 * of slots holds is ever returned. Errors: ARCHIVE_UNREACHABLE, ARCHIVE_REFUSED.
 */
export interface ArchiveReader extends Pick<LedgerReader, 'header' | 'text' | 'find' | 'transaction'> {
  /** Slots of which everything is known, both inclusive, ascending; between two of them nothing is known. */
  ranges(): Promise<readonly (readonly [from: number, to: number])[]>;
  /** Both inclusive. */
  states(from: number, to: number): Promise<SlotsInRange>;
  /**
   * See `LedgerReader.addressPage`. `from` and `to` are the range in which the page begins: the one at or below `below` for the newest first, the
   * one at or above `above` for the oldest first.
   */
  addressPage(query: AddressQuery): Promise<AddressPage | null>;
}

/** Offered by `archive`. Null without `ledger.archive`, and before the start. */
export const archiveReaders: ServiceToken<(chain: ChainId) => ArchiveReader | null> = serviceToken('archive.readers');

export interface PastPage {
  /** Newest first. */
  readonly rows: readonly AddressRow[];
  /** Whether it has `limit` rows, or all down to `above`. Else nothing is known of what is older than `from`. */
  readonly isWhole: boolean;
  /** The slot from which on it has all rows; behind that of `below` when nothing is known there. */
  readonly from: number;
  /** False: neither the ledger nor the archive has an index of this address. */
  readonly isIndexed: boolean;
  /** The address may occur in votes, which are left out. */
  readonly inVotes: boolean;
}

/** The newest slots that are held; -1 without one. */
export interface Heads {
  readonly finalSlot: number;
  /** Newest released block: a fork may still remove it. */
  readonly newestSlot: number;
}

/** The newest held slot of a commitment; -1 without one. */
export const ceilingOf = ({ finalSlot, newestSlot }: Heads, commitment: 'confirmed' | 'finalized'): number =>
  commitment === 'finalized' ? finalSlot : newestSlot;

/**
 * The past of one chain as far as this daemon has it, released blocks that are not final included: the ledger, and what is older from the archive. What neither of them has, an
 * upstream may have. Errors of the look-ups: those of the ledger and of the archive; an upstream has to answer then.
 */
export interface PastReader extends Pick<LedgerReader, 'header' | 'text' | 'find' | 'transaction'> {
  /** The newest final slot, as of now; -1 without one. */
  finalSlot(): Promise<number>;
  /** The newest slots, read now. */
  heads(): Promise<Heads>;
  /** The newest slot with a known block at or below this one; -1 without one. As of the last `heads()` or `finalSlot()`. */
  newestBelow(slot: number): Promise<number>;
  /** States of the slots from `from` to `to`, both inclusive, at the last `heads()` or `finalSlot()`. */
  states(from: number, to: number): Promise<SlotsInRange>;
  /** Transactions of an address, newest first, over all seams: none is missing among the rows, and none comes twice. */
  page(query: Omit<AddressQuery, 'order' | 'below'> & { readonly below: LedgerPlace }): Promise<PastPage>;
  /** The slot from which on every transaction of an address is known, up to `slot`; `slot + 1` when those of `slot` are not. */
  knownFrom(query: Pick<AddressQuery, 'address' | 'reasons'>, slot: number): Promise<number>;
}

/** A row in a list of signatures. */
export interface ListedSignature {
  /** base58 */
  readonly signature: string;
  readonly slot: number;
  readonly hasFailed: boolean;
  /** Unix seconds; null when unknown. */
  readonly blockTime: number | null;
  /** JSON text, as a node writes it. */
  readonly text: string;
}

/**
 * Where a list ends. `bounded`: at its limit or bound. `first`: at the first block of the chain. `pruned`: at the first slot that this daemon
 * or its upstreams have; null when that slot was not asked for. `missing`: the part below `below` is missing although it may exist.
 */
export type ListEnd =
  | { readonly kind: 'bounded' }
  | { readonly kind: 'first' }
  | { readonly kind: 'pruned'; readonly slot: number | null }
  | { readonly kind: 'missing'; readonly below: number; readonly reason: string };

export interface SignatureQuery {
  /** base58 */
  readonly address: string;
  readonly commitment: 'confirmed' | 'finalized';
  /** Signatures, both exclusive; null: open. */
  readonly before: string | null;
  readonly until: string | null;
  readonly limit: number;
  readonly minContextSlot: number | null;
  /** For whom upstreams are asked. */
  readonly tenant: Tenant;
}

export interface SignatureList {
  /** Newest first; none is missing between two of them. */
  readonly rows: readonly ListedSignature[];
  readonly end: ListEnd;
}

/** Slots, both inclusive; at most `limit` of them, the lowest ones. */
export interface SlotQuery {
  readonly from: number;
  readonly to: number;
  readonly limit: number;
  readonly commitment: 'confirmed' | 'finalized';
  /** For whom upstreams are asked. */
  readonly tenant: Tenant;
}

export interface SlotList {
  /** Slots with a block, ascending. */
  readonly slots: readonly number[];
  readonly end: ListEnd;
}

/**
 * Lists joined from what is held and from the upstreams: newest rows of an upstream that is ahead, then the ledger and its archive, then the
 * older ones of an upstream. A list is null where a node has to answer it as a whole: nothing of it is held, or its bounds are unknown here.
 * Errors: those of `PastReader`.
 */
export interface JoinedHistory {
  /** The newest held slots; `finalSlot` as of the upstreams, where the ledger has the same block. */
  heads(tenant: Tenant): Promise<Heads>;
  /** The newest slot of the upstreams, at most a moment old; null when none answers. */
  tip(commitment: BankLevel): Promise<number | null>;
  signatures(query: SignatureQuery): Promise<SignatureList | null>;
  slots(query: SlotQuery): Promise<SlotList | null>;
  /** Asks for the first slot of the upstreams, to know it when they are gone. At most once a minute. */
  learnFirstSlot(): void;
}

/** Null without `ledger.retain`, or without an upstream. */
export const kernelJoinedHistory: ServiceToken<(chain: ChainId) => JoinedHistory | null> =
  serviceToken('kernel.joined-history');

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

/**
 * The engine of `ledger.archive`, one per chain and thread; whoever uses it closes it. Null without the key, and before the start. The engine of a folder runs in
 * a process of its own, which the role `indexer` starts; other roles on its host reach it.
 */
export const kernelArchiveEngine: ServiceToken<(chain: ChainId) => ArchiveEngine | null> =
  serviceToken('kernel.archive-engine');
