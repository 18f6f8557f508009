import { msOfSlots } from '../../../src/lib/slot-length.ts';
import { CodedError, codeOf } from '../../../src/plugin/plugin.ts';
import { RequestError } from '../../../src/plugin/request.ts';
import type { AddressHistory, ViewRow } from '../../../src/ports/address-history.ts';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import type { WalletRow } from '../store/tables.ts';

export type { LoadedRow, LoadedTransaction, PageRange, ViewPage, ViewRow } from '../../../src/ports/address-history.ts';

/** The history of one wallet for one request, with what only the routes of this plugin read. */
export interface WalletView extends AddressHistory {
  readonly key: Uint8Array;
  readonly address: string;
  readonly id: number;
  /** Waits until everything is stored; `prunedBelow` is set when the upstream lacks the rest. */
  whole(): Promise<{ readonly prunedBelow: number | null }>;
  /** Rows of a token account, stored or not final yet, newest first below a position. */
  accountRows(
    account: { readonly id: number; readonly address: string },
    below: number,
    limit: number,
  ): Promise<readonly ViewRow[]>;
  /** Token accounts that ever belonged to the wallet, of one mint. */
  accountsOf(mint: Uint8Array): Promise<readonly { readonly id: number; readonly address: string }[]>;
}

const RETRY_S = 5;

/** The call that started the index is charged: the work continues in the background. */
export const beingIndexed = (found: number, isStart = false): RequestError =>
  new RequestError(503, 'Wallet history is being indexed', {
    details: `${found} signatures so far`,
    retryAfterS: RETRY_S,
    isCharged: isStart,
  });

/** `details` contains the code, for programs. */
const coded = (code: string, message: string, details: string): RequestError =>
  new RequestError(400, message, { details: `${details} (${code})`, cause: new CodedError(code, details) });

export const notAWallet = (): RequestError =>
  coded('WALLET_NOT_A_WALLET', 'Not a wallet', 'Programs, sysvars and native ids are not indexed as wallets');

export const tooBusy = (perMinute: number): RequestError =>
  coded('WALLET_TOO_BUSY', 'Wallet too busy', `The address has about ${perMinute} transactions a minute`);

export const walletTooLarge = (size: number): RequestError =>
  coded('WALLET_TOO_LARGE', 'Wallet too large', `The address has more than ${size} transactions`);

/** A limit of the project's plan. */
export function overBudget(
  code: 'WALLET_BUDGET' | 'WALLET_TOO_MANY_NEW',
  details: string,
  retryAfterS: number | null,
): RequestError {
  const cause = new CodedError(code, details);
  return new RequestError(429, 'Too many wallets', { details: `${details} (${code})`, retryAfterS, cause });
}

/** All places for indexed wallets are taken. */
export function indexFull(): RequestError {
  const details = 'No further wallet can be indexed (WALLET_INDEX_FULL)';
  const cause = new CodedError('WALLET_INDEX_FULL', details);
  return new RequestError(503, 'Service unavailable', { details, retryAfterS: null, cause });
}

const NOT_INDEXED: ReadonlySet<string> = new Set([
  'WALLET_NOT_A_WALLET',
  'WALLET_TOO_BUSY',
  'WALLET_TOO_LARGE',
  'WALLET_BUDGET',
  'WALLET_TOO_MANY_NEW',
  'WALLET_INDEX_FULL',
]);

/** Whether an address was refused because it gets no index: its history can still be read from upstreams. `accounts`: it is no program. */
export function isNotIndexed(error: unknown, allowed: 'accounts' | 'all'): boolean {
  const code = error instanceof RequestError ? codeOf(error.cause) : undefined;
  return code !== undefined && NOT_INDEXED.has(code) && (allowed === 'all' || code !== 'WALLET_NOT_A_WALLET');
}

/** A wallet that was refused while it was being indexed. */
export function refusedNow({ refused, refused_size: size }: WalletRow): RequestError {
  if (refused === 'busy') return tooBusy(size ?? 0);
  if (refused === 'large') return walletTooLarge(size ?? 0);
  return overBudget('WALLET_BUDGET', 'The plan has no room for the transactions of this wallet', null);
}

/** The upstream has pruned the requested range; waiting does not help. */
export const incompleteHistory = (firstSlot: number): RequestError =>
  new RequestError(503, 'Incomplete history', {
    details: `The upstream node has no data before slot ${firstSlot}; configure an archive endpoint`,
    retryAfterS: null,
  });

/** An earlier page was newer than every upstream that answers now. */
export const upstreamBehind = (): RequestError =>
  new RequestError(503, 'Service unavailable', {
    details: 'The Solana upstream is behind the requested slot',
    retryAfterS: RETRY_S,
  });

export const noChain = (): RequestError =>
  new RequestError(503, 'Service unavailable', { details: 'no Solana upstream is configured' });

/** How far the follower may lag before the upstream is read as well. */
const FRESH_MS = 2_000;

/** Whether the live range up to a slot is complete except for the last moments. */
export function isChainFresh(status: ChainStatus, slot: number | null): boolean {
  const { tipSlot, stalled, slotMs } = status;
  return stalled === null && tipSlot !== null && slot !== null && msOfSlots(tipSlot - slot, slotMs) <= FRESH_MS;
}
