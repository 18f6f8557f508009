import type { ChainId } from './block.ts';
import type { AddressPage, AddressQuery, AddressRow, LedgerReader, Place, SlotRange } from './ledger.ts';
import { type ServiceToken, serviceToken } from './service.ts';

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
