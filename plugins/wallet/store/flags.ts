/** What a transaction has to do with an address. */
export const NAMED = 1;
/** It changed the balance of a token account that the address owned. */
export const CHANGED = 2;
/** It touched a token account that the address owned. */
export const TOUCHED = 4;
/** The address is a token account, touched while its owner was known. */
export const ACCOUNT = 8;

export interface HistoryRow {
  readonly n: number;
  readonly flags: number;
}
