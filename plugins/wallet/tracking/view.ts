import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import type { HistoryRow } from '../store/flags.ts';

/** A row of a wallet, with the transaction beside it where it is at hand. */
export interface ViewRow extends HistoryRow {
  readonly at?: LoadedTransaction;
}

export interface LoadedTransaction {
  readonly n: number;
  /** base58 */
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds; null where the chain gives none. */
  readonly time: number | null;
  readonly tx: NormalTransaction;
  /** A block that holds just this transaction. */
  readonly block: ChainBlock;
}

export interface Loaded extends LoadedTransaction {
  readonly flags: number;
}

export interface PageRange {
  /** Positions, both exclusive; null for none. */
  readonly below: number | null;
  readonly above: number | null;
  readonly mask: number;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
}

export interface ViewPage {
  /** Fewer than `limit` only where there are no more. */
  readonly rows: readonly ViewRow[];
  /** The slot below which the upstream has nothing, where that is what ended the page; null otherwise. */
  readonly prunedBelow: number | null;
}

/**
 * The history of one wallet as one request sees it: what is stored, and above it what is not final yet. Whatever is asked for is
 * waited for. Errors: 503 when it is not there in time.
 */
export interface WalletView {
  readonly key: Uint8Array;
  readonly address: string;
  readonly id: number;
  /** What is stored up to this slot stands for ever; -1 where nobody knows. */
  readonly finalSlot: number;
  /** Everything that is known is stored: nothing above it was read from the upstream. */
  readonly isStored: boolean;
  page(range: PageRange): Promise<ViewPage>;
  /** In the order of the rows. */
  load(rows: readonly ViewRow[]): Promise<readonly Loaded[]>;
  /** Where a transaction stands, whoever it belongs to; null when the chain does not know it. */
  locate(signature: string): Promise<number | null>;
  /** Waits until everything is stored, or `prunedBelow` says what the upstream lacks. */
  whole(): Promise<{ readonly prunedBelow: number | null }>;
  /** Rows of a token account, stored or not final yet, newest first below a position. */
  accountRows(
    account: { readonly id: number; readonly address: string },
    below: number,
    limit: number,
  ): Promise<readonly ViewRow[]>;
  /** Token accounts that ever belonged to the wallet, of one mint. */
  accountsOf(mint: Uint8Array): Promise<readonly { readonly id: number; readonly address: string }[]>;
  /** The newest slot known to this wallet that is no later than a time in unix seconds; null when all are later. */
  slotAt(time: number): Promise<number | null>;
  /** Unix seconds of a block, or else of the nearest earlier one that is known; null when there is none. */
  timeNear(slot: number): Promise<number | null>;
}
