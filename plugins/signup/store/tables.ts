import type { Queries } from '../../../src/ports/store.ts';

export interface PaymentRow {
  /** Of the transaction, base58. */
  signature: string;
  wallet: string;
  symbol: string;
  /** Raw units, decimal. */
  amount: string;
  slot: number;
  /** 1: its block will not be taken back. */
  is_final: number;
  /** Unix milliseconds; null until the key was given. */
  claimed_at: number | null;
  /** SHA-256 of the key, hexadecimal. */
  key_hash: string | null;
  project_id: string | null;
}

export interface SignupTables {
  signup_payments: PaymentRow;
  /** The project of each wallet that signed up. */
  signup_projects: { wallet: string; project_id: string };
}

/** Narrows the open handle of the store to the tables of this plugin. */
export const tables = (db: Queries): Queries<SignupTables> => db as Queries<SignupTables>;
