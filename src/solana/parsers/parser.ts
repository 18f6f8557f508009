import type { TransactionView } from './view.ts';
import type { Words } from './words.ts';

/** What a transaction turned out to be. */
export interface Parsed {
  /** A published transaction type; `UNKNOWN` when there is none for it. */
  readonly type: string;
  /** A published source. */
  readonly source: string;
  /** One sentence; empty when there is nothing to say. Not asked for when the transaction failed. */
  describe?(words: Words): string;
  /** Members of `events`, keys in alphabetical order. Not asked for when the transaction failed. */
  events?(words: Words): Readonly<Record<string, unknown>>;
  /** The lamports that it moves are no transfers: `nativeTransfers` is empty. */
  readonly hidesNative?: boolean;
}

/** Recognises transactions of some programs. Pure: neither the network nor what is cached may change the type or the source. */
export interface TransactionParser {
  /** Unique; metrics and logs name it. */
  readonly name: string;
  /** It is asked only about transactions in which one of these programs (base58) runs; null: about all. */
  readonly programs: readonly string[] | null;
  /** Whether a call by another program counts; default false, only instructions of the message do. */
  readonly isInnerEnough?: boolean;
  /** What it can tell, where that is a plain table. */
  readonly outcomes?: readonly { readonly type: string; readonly source: string }[];
  /** Null: not one of mine. Damaged data is not mine either; a throw is counted, and the next parser is asked. */
  parse(view: TransactionView): Parsed | null;
}

export const UNKNOWN: Parsed = { type: 'UNKNOWN', source: 'UNKNOWN' };

/** The first eight bytes of instruction data in hex, by which Anchor programs tell their instructions; empty when there are fewer. */
export function discriminatorOf(data: Uint8Array, at = 0): string {
  if (data.length < at + 8) return '';
  return Buffer.from(data.buffer, data.byteOffset + at, 8).toString('hex');
}
