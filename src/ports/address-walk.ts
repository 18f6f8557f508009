import type { Caller } from './access.ts';
import type { Loaded } from './address-history.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** Which part of the history of an address a walk goes through, and in which order. Bounds of slots and times are inclusive. */
export interface WalkQuestion {
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
  readonly rows: readonly Loaded[];
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
  texts(rows: readonly Loaded[]): Promise<readonly string[]>;
}

/** Opens a walk. Errors: RequestError, and RpcError for a slot that is not reached or a signature that the chain does not know. */
export type OpenAddressWalk = (
  question: WalkQuestion,
  call: { readonly caller: Caller | null; readonly signal: AbortSignal },
) => Promise<AddressWalk>;

/** Offered by the plugin `history`. */
export const addressWalks: ServiceToken<OpenAddressWalk> = serviceToken('history.walks');
