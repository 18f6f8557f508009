import { msOfSlots } from '../../../src/lib/chain-lag.ts';
import { CodedError } from '../../../src/plugin/plugin.ts';
import { RequestError } from '../../../src/plugin/request.ts';
import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import type { HistoryRow, WalletRow } from '../store/tables.ts';

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
  /** Whether everything that was told so far is stored: nothing above it was read from the upstream. */
  isStored(): boolean;
  /** Goes on when everything up to a slot is known; what was asked before may not have been. Errors: 503 when it is not in time. */
  reach(slot: number): Promise<void>;
  page(range: PageRange): Promise<ViewPage>;
  /** Notes that an answer shows a transaction, which may be asked to go on from. */
  noteShown(signature: string, n: number): void;
  /** In the order of the rows. */
  load(rows: readonly ViewRow[]): Promise<readonly Loaded[]>;
  /**
   * Where a transaction stands, whoever it belongs to; null when the chain does not know it. For what is older everything below it is
   * known then. What is newer begins at the fork where one has moved it, or taken it away, since it was shown last: no transaction is
   * passed over, and one that landed again comes again.
   */
  locate(signature: string, wanted: 'older' | 'newer'): Promise<number | null>;
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

const RETRY_S = 5;

/** The call that started the index is charged: the work goes on behind it. */
export const beingIndexed = (found: number, isStart = false): RequestError =>
  new RequestError(503, 'Wallet history is being indexed', {
    details: `${found} signatures so far`,
    retryAfterS: RETRY_S,
    isCharged: isStart,
  });

/** The code stands in `details`, where programs can find it. */
const coded = (code: string, message: string, details: string): RequestError =>
  new RequestError(400, message, { details: `${details} (${code})`, cause: new CodedError(code, details) });

export const notAWallet = (): RequestError =>
  coded('WALLET_NOT_A_WALLET', 'Not a wallet', 'Programs, sysvars and native ids are not indexed as wallets');

export const tooBusy = (perMinute: number): RequestError =>
  coded('WALLET_TOO_BUSY', 'Wallet too busy', `The address has about ${perMinute} transactions a minute`);

export const tooLarge = (size: number): RequestError =>
  coded('WALLET_TOO_LARGE', 'Wallet too large', `The address has more than ${size} transactions`);

/** What the plan of a project does not allow. */
export function overBudget(
  code: 'WALLET_BUDGET' | 'WALLET_TOO_MANY_NEW',
  details: string,
  retryAfterS: number | null,
): RequestError {
  const cause = new CodedError(code, details);
  return new RequestError(429, 'Too many wallets', { details: `${details} (${code})`, retryAfterS, cause });
}

/** A wallet that was refused while it was being indexed. */
export function refusedNow({ refused, refused_size: size }: WalletRow): RequestError {
  if (refused === 'busy') return tooBusy(size ?? 0);
  if (refused === 'large') return tooLarge(size ?? 0);
  return overBudget('WALLET_BUDGET', 'The plan has no room for the transactions of this wallet', null);
}

/** The upstream has lost what was asked for; waiting does not help. */
export const incompleteHistory = (firstSlot: number): RequestError =>
  new RequestError(503, 'Incomplete history', {
    details: `The upstream node has no data before slot ${firstSlot}; configure an archive endpoint`,
    retryAfterS: null,
  });

/** A page that was shown already goes further than any upstream that answers now. */
export const upstreamBehind = (): RequestError =>
  new RequestError(503, 'Service unavailable', {
    details: 'The Solana upstream is behind what was asked for',
    retryAfterS: RETRY_S,
  });

export const noChain = (): RequestError =>
  new RequestError(503, 'Service unavailable', { details: 'no Solana upstream is configured' });

/** How far the blocks may be behind the chain before the upstream is asked as well. */
const FRESH_MS = 2_000;

/** Whether what came with the blocks up to a slot is all that there is, but for the last moments. */
export function isFresh(status: ChainStatus, slot: number | null): boolean {
  const { tipSlot, stalled, slotMs } = status;
  return stalled === null && tipSlot !== null && slot !== null && msOfSlots(tipSlot - slot, slotMs) <= FRESH_MS;
}
