/** Entries of lists and transactions, as the node or the ledger gives them. */
import { decode32 } from '../../../src/lib/base58.ts';
import { parseExact } from '../../../src/lib/json.ts';
import { CodedError } from '../../../src/plugin/plugin.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import type { AddressRow } from '../../../src/ports/ledger.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import type { OwnedAccount } from '../store/wallets.ts';

/** An entry of an address's list. */
export interface HistoryEntry {
  readonly signature: string;
  readonly slot: number;
  readonly hasFailed: boolean;
  /** Unix seconds; null when the node does not return it. */
  readonly time: number | null;
  /** Place in the block; null when the node does not return it. */
  readonly place: number | null;
}

export interface FetchedTransaction {
  /** JSON text of the transaction, unchanged from the node. */
  readonly text: string;
  /** A block with only this transaction. */
  readonly block: ChainBlock;
  /** Place in its block; null when the node does not return it. */
  readonly place: number | null;
}

/** Entries of a page, of nodes and of the ledger. */
export const PAGE_ENTRIES = 1_000;

/** CHAIN_BAD_RESPONSE. */
export const badResponse = (method: string, what: string) =>
  new CodedError('CHAIN_BAD_RESPONSE', `${method}: the answer ${what}`, { retryable: true });

/** Whether a block is the first one of its chain. */
export const isFirstHeight = (height: unknown): boolean => typeof height === 'number' && height <= 1;

export const listedRow = ({ signature, slot, index, err, blockTime }: AddressRow): HistoryEntry => ({
  signature,
  slot,
  hasFailed: err !== null,
  time: blockTime,
  place: index,
});

/** Errors: CHAIN_BAD_RESPONSE. */
export function listed(value: unknown): HistoryEntry {
  const { signature, slot, err, blockTime, transactionIndex } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof signature !== 'string' || !Number.isSafeInteger(slot))
    throw badResponse('getSignaturesForAddress', 'contains a malformed entry');
  return {
    signature,
    slot: slot as number,
    hasFailed: (err ?? null) !== null,
    time: typeof blockTime === 'number' ? blockTime : null,
    place: Number.isSafeInteger(transactionIndex) ? (transactionIndex as number) : null,
  };
}

/** Also from the parsed form, which some nodes return for any encoding. Errors: CHAIN_BAD_RESPONSE. */
export function ownedAccount(value: unknown): OwnedAccount {
  const { pubkey, account } = (value ?? {}) as { pubkey?: unknown; account?: { data?: unknown } };
  const data = account?.data;
  const key = typeof pubkey === 'string' ? decode32(pubkey) : null;
  const parsed = (data as { parsed?: { info?: { mint?: unknown } } } | undefined)?.parsed?.info?.mint;
  const mint =
    typeof parsed === 'string'
      ? decode32(parsed)
      : Array.isArray(data) && typeof data[0] === 'string'
        ? new Uint8Array(Buffer.from(data[0], 'base64').subarray(0, 32))
        : null;
  if (key === null || mint === null || mint.length !== 32)
    throw badResponse('getTokenAccountsByOwner', 'contains a malformed token account');
  return { account: key, mint };
}

/** Reads the answer of `getTransaction` (encoding base64). */
export function readFetched(text: string): FetchedTransaction {
  const value = parseExact(text) as { transactionIndex?: unknown };
  const { transactionIndex } = value;
  return {
    text,
    block: decodeTransaction(value),
    place: Number.isSafeInteger(transactionIndex) ? (transactionIndex as number) : null,
  };
}
