import type { ChainId } from './block.ts';
import type { AddressPage, AddressQuery, LedgerReader, SlotState } from './ledger.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/**
 * The final blocks of one chain in ClickHouse: the look-ups of the ledger, for what the ledger no longer has. Only what a complete range
 * of slots holds is ever returned. Errors: ARCHIVE_UNREACHABLE, ARCHIVE_REFUSED.
 */
export interface ArchiveReader extends Pick<LedgerReader, 'header' | 'text' | 'find' | 'transaction'> {
  /** Slots of which everything is known, both inclusive, ascending; between two of them nothing is known. */
  ranges(): Promise<readonly (readonly [from: number, to: number])[]>;
  state(slot: number): Promise<SlotState>;
  /**
   * As of the ledger. Its `from` and `to` are the range in which the page begins: the one at or below `below` for the newest first, the
   * one at or above `above` for the oldest first.
   */
  addressPage(query: AddressQuery): Promise<AddressPage | null>;
}

/** The archive of a chain; null without `ledger.archive`. */
export const kernelArchive: ServiceToken<(chain: ChainId) => ArchiveReader | null> = serviceToken('kernel.archive');

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
