import type { Caller, Tenant } from './access.ts';
import type { ChainBlock, NormalTransaction } from './block.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** How a transaction relates to an address, as flags. */
export const NAMED = 1;
/** It changed the balance of a token account that the address owned. */
export const CHANGED = 2;
/** It touched a token account that the address owned. */
export const TOUCHED = 4;

/** Position of a transaction on the chain, as one number: slot * 65536 + place in the block. */
const PLACES = 65_536;

export const positionOf = (slot: number, place: number): number => slot * PLACES + place;
export const slotOf = (n: number): number => Math.floor(n / PLACES);
export const placeOf = (n: number): number => n % PLACES;
/** The first position of a slot. */
export const firstOf = (slot: number): number => slot * PLACES;
/** The first position behind a slot. */
export const endOf = (slot: number): number => (slot + 1) * PLACES;

/**
 * Places from here on are provisional, because no upstream had the block: they only distinguish the transactions of a slot and keep
 * their order.
 */
export const PROVISIONAL_PLACE = 49_152;

/** A row of an address, with its transaction when that is already loaded. */
export interface ViewRow {
  /** Position. */
  readonly n: number;
  readonly flags: number;
  readonly at?: LoadedTransaction;
}

export interface LoadedTransaction {
  readonly n: number;
  /** base58 */
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds; null when the chain has no time for it. */
  readonly time: number | null;
  readonly tx: NormalTransaction;
  /** A block with only this transaction. */
  readonly block: ChainBlock;
}

export interface LoadedRow extends LoadedTransaction {
  readonly flags: number;
}

export interface PageRange {
  /** Positions, both exclusive; null for none. */
  readonly below: number | null;
  readonly above: number | null;
  /** Rows with at least one of these flags. */
  readonly mask: number;
  readonly limit: number;
  readonly order: 'asc' | 'desc';
}

export interface ViewPage {
  /** Fewer than `limit` only at the end of the history. */
  readonly rows: readonly ViewRow[];
  /** The slot below which the upstream has no data, if that ended the page; else null. */
  readonly prunedBelow: number | null;
}

/**
 * The history of one address for one request: the stored rows, and above them rows that are not final. Methods wait for data
 * that is being indexed. Errors: RequestError 503 on timeout.
 */
export interface AddressHistory {
  /** Stored rows up to this slot are final; -1 when unknown. */
  readonly finalSlot: number;
  /** Whether everything returned so far is stored: nothing was read from the upstream. */
  isStored(): boolean;
  /** Waits until everything up to a slot is known. Errors: 503 on timeout. */
  reach(slot: number): Promise<void>;
  page(range: PageRange): Promise<ViewPage>;
  /** Records that a response contains a transaction: its signature may come back as a cursor. */
  noteShown(signature: string, n: number): void;
  /** In the order of the rows, without those that a reorg removed. */
  load(rows: readonly ViewRow[]): Promise<readonly LoadedRow[]>;
  /** JSON texts in the form of `getTransaction`, with the whole `meta` and numbers of any size. In the order of the rows. */
  texts(rows: readonly LoadedRow[]): Promise<readonly string[]>;
  /**
   * Position of any transaction; null when the chain does not know it. For `older` everything below it is
   * known then. `newer` starts at the fork point if a reorg moved or removed it since it was last returned: no transaction is
   * skipped then.
   */
  locate(signature: string, wanted: 'older' | 'newer'): Promise<number | null>;
  /** The newest slot known to this address that is no later than a time in unix seconds; null when all are later. */
  slotAt(time: number): Promise<number | null>;
  /** The oldest stored slot that is later than a time in unix seconds; null when none is. */
  slotAfter(time: number): Promise<number | null>;
  /** Unix seconds of a block; one without a time has that of the nearest earlier block. Null when nobody knows it. */
  timeNear(slot: number): Promise<number | null>;
}

/** The call that a history is opened for. */
export interface HistoryCall {
  readonly caller: Caller | null;
  readonly signal: AbortSignal;
  /**
   * Addresses that are not indexed for the caller and are read from the upstreams page by page instead: `none` (default), `accounts`: those
   * that are no programs, or `all`.
   */
  readonly unindexed?: 'none' | 'accounts' | 'all';
}

/**
 * Opens the history of an address, which is indexed from then on if it may be. `key`: its 32 bytes. Errors: RequestError 503 with the time for
 * a retry while nothing can be known, 400 and 429 for addresses that are not indexed for the caller.
 */
export type OpenAddressHistory = (key: Uint8Array, address: string, call: HistoryCall) => Promise<AddressHistory>;

/** Offered by the plugin `wallet`. */
export const addressHistories: ServiceToken<OpenAddressHistory> = serviceToken('wallet.histories');

/** Which part of the history of an address a walk goes through, and in which order. Bounds of slots and times are inclusive. */
interface WalkQuestion {
  /** The 32 bytes of the address. */
  readonly key: Uint8Array;
  readonly address: string;
  readonly commitment: 'confirmed' | 'finalized';
  readonly order: 'asc' | 'desc';
  readonly fromSlot: number | null;
  readonly toSlot: number | null;
  /** Unix seconds. They bound what is read; rows have to be compared too, because times are not quite in order. */
  readonly fromTime: number | null;
  readonly toTime: number | null;
  /** Signatures: only older, and only newer transactions than these. */
  readonly before: string | null;
  readonly after: string | null;
  /** Behind this place, in the order of the walk. */
  readonly token: { readonly slot: number; readonly place: number } | null;
  readonly minContextSlot: number | null;
}

export interface WalkPage {
  readonly rows: readonly LoadedRow[];
  /** Position of the last row that was read by now; null without one. */
  readonly lastN: number | null;
  /** `complete`: nothing is left; `scanned`: as many rows as wanted were read, or upstreams have pruned what comes next; null: more follow. */
  readonly end: 'complete' | 'scanned' | null;
}

export interface AddressWalk {
  /** Transactions in order, with at least one of the flags in `mask`, at most `most`. Errors: those of `AddressHistory`, and 503. */
  pages(range: { readonly mask: number; readonly most: number; readonly expected: number }): AsyncIterable<WalkPage>;
  /** `slot:place` as in tokens. With a signature, the token means that transaction for as long as a fork can move it. */
  placeText(n: number, signature?: string): string;
  /** The place in the block. Errors: RequestError 503 while no upstream has the order of the block. */
  placeOf(n: number): number;
  /** JSON texts in the form of `getTransaction`, in the order of the rows. */
  texts(rows: readonly LoadedRow[]): Promise<readonly string[]>;
}

/** Opens a walk. Errors: RequestError, and RpcError for a slot that is not reached or a signature that the chain does not know. */
export type OpenAddressWalk = (question: WalkQuestion, call: HistoryCall) => Promise<AddressWalk>;

/** Offered by the plugin `history`. */
export const addressWalks: ServiceToken<OpenAddressWalk> = serviceToken('history.walks');

/** A standard call that is about to be sent to an upstream. */
export interface KeptQuestion {
  readonly method: string;
  /** JSON text; null when absent. */
  readonly params: () => string | null;
  /** For whom upstreams are asked. */
  readonly tenant: Tenant;
}

/** The text of a result, or of an error object, as a node writes it. */
export type KeptAnswer =
  | { readonly resultText: string; readonly headers?: Readonly<Record<string, string>> }
  | { readonly errorText: string };

/** A result of an upstream. */
export interface UpstreamResult {
  readonly resultText: string;
  /** Label of the upstream that gave it. */
  readonly upstream: string;
  /** When it was asked, in monotonic milliseconds. */
  readonly sentAt: number;
}

/**
 * Asks an upstream again: the one with this label first. `params`: JSON text; null: none. Null: it has no result. Errors: as of the call
 * that is checked.
 */
export type AskAgain = (upstream: string, method: string, params: string | null) => Promise<UpstreamResult | null>;

/** Answers standard calls about the past from what this daemon keeps. */
export interface KeptAnswers {
  /**
   * Null: an upstream has to answer. A call that cannot be answered here by its method or form is null at once. Errors: RpcError where a
   * part of a list is missing.
   */
  answer(question: KeptQuestion): Promise<KeptAnswer | null> | null;
  /** Whether results of this method that come from an upstream have to be checked. */
  checks(method: string): boolean;
  /**
   * The result of an upstream, completed with what is kept; null: it stays as it is. Where it denies something, the upstream may have to be
   * asked again: then what it says now. Errors: RpcError while the upstream is starting, so that it may lack what was final before.
   */
  check(question: KeptQuestion, said: UpstreamResult, again: AskAgain): Promise<KeptAnswer | UpstreamResult | null>;
  /** What can be answered when no upstream answers, beside `answer`; null: nothing. Never rejects. */
  alone(question: KeptQuestion): Promise<KeptAnswer | null>;
}

/** Offered by the plugin `history`. */
export const keptAnswers: ServiceToken<KeptAnswers> = serviceToken('history.kept-answers');
