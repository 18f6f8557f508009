import type { Queries } from '../../../src/ports/store.ts';

/** An address whose past is or was asked for. Slots are inclusive. */
export interface WalletRow {
  /** The number of its address. */
  id: number;
  address: string;
  /** Unix milliseconds of the last request; configured wallets keep it at 0. */
  asked_at: number;
  is_pinned: number;
  /** Whether blocks are matched against it. */
  is_followed: number;
  /** Everything of it in [floor, head] is stored; both null before the first step. */
  floor: number | null;
  head: number | null;
  /** Whether there is nothing below `floor`. */
  is_complete: number;
  /** Upstreams have nothing below this slot; null when they have, or it is not known yet. */
  pruned_below: number | null;
  pruned_at: number | null;
  /** Everything from this slot on comes with the blocks; null when it does not. */
  live_from: number | null;
  /** Version of the last change of `is_followed`. */
  changed: number;
  /** Signatures that were stored so far. */
  found: number;
  /** Why the last step failed, in words. */
  trouble: string | null;
}

export interface Tables {
  wallet_wallets: WalletRow;
  wallet_accounts: { wallet: number; account: Uint8Array; mint: Uint8Array };
  wallet_rows: { a: number; n: number; flags: number };
  wallet_tail: { part: number; slot: number; rows: Uint8Array };
  wallet_transactions: { n: number; tag: number; signature: Uint8Array };
  wallet_bodies: { n: number; body: Uint8Array };
  wallet_times: { slot: number; time: number };
  wallet_fundings: { address: string; body: string };
  wallet_state: { id: number; version: number; seed: Uint8Array; live_slot: number | null; full_from: number | null };
}

export type Db = Queries<Tables>;
