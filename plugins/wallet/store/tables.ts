import type { Queries } from '../../../src/ports/store.ts';
import { createKeyHash, hashKey, hashView } from '../../../src/solana/key-hash.ts';

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
  /** Transactions that are stored for it, those of its token accounts included. */
  stored: number;
  /** Transactions that final blocks brought since `rate_from` (unix seconds). */
  rate_from: number;
  rate_count: number;
  /** Why it is not indexed: too many transactions a minute, or in all, or for the plans of all projects that wanted it. */
  refused: WalletRefusal | null;
  /** Unix milliseconds. */
  refused_at: number | null;
  /** Transactions a minute (`busy`), or in all. */
  refused_size: number | null;
  /** Unix milliseconds: nobody wants it any more, and what is stored of it is being deleted. */
  dropped_at: number | null;
  /** The newest slot whose blocks may have brought rows of it. */
  dropped_slot: number | null;
}

export type WalletRefusal = 'busy' | 'large' | 'budget';

/** A project that asked for a wallet. Times in unix milliseconds. */
interface WantedRow {
  wallet: number;
  project: string;
  asked_at: number;
  /** When this project was the first that asked; null for the others. */
  started_at: number | null;
}

interface Tables {
  wallet_wallets: WalletRow;
  wallet_wanted: WantedRow;
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

/** Where a transaction stands on the chain, as one number: slot * 65536 + place in the block. */
const PLACES = 65_536;

export const positionOf = (slot: number, place: number): number => slot * PLACES + place;
export const slotOf = (n: number): number => Math.floor(n / PLACES);
export const placeOf = (n: number): number => n % PLACES;
/** The first position of a slot. */
export const firstOf = (slot: number): number => slot * PLACES;
/** The first position behind a slot. */
export const endOf = (slot: number): number => (slot + 1) * PLACES;

/**
 * Places from here on are not those of the block, which could not be had: they only tell transactions of a slot apart, and keep
 * their order.
 */
export const MADE_UP_PLACE = 49_152;

/**
 * Addresses as numbers of 48 bits, so that a row of the history is a few bytes and nothing is looked up to write it. They are hashes
 * with a seed of this store: seldom two addresses share one, and nobody can arrange that. Whoever reads rows compares them with their
 * transactions (`loadRows`).
 */
export interface KeyNumbers {
  /** Of 32 bytes. */
  of(key: Uint8Array): number;
  /** Of the key whose eight words begin at `words[at]`. */
  at(words: Uint32Array, at: number): number;
}

const SEED_WORDS = 8;
const LOW_BITS = 65_536;

export async function readKeyNumbers(db: Db): Promise<KeyNumbers> {
  const { seed } = await db.selectFrom('wallet_state').select('seed').where('id', '=', 1).executeTakeFirstOrThrow();
  const view = new DataView(seed.buffer, seed.byteOffset, seed.byteLength);
  const words = Uint32Array.from({ length: SEED_WORDS }, (_, at) => view.getUint32(at * 4, true));
  const high = createKeyHash(words.subarray(0, 4), true);
  const low = createKeyHash(words.subarray(4), true);
  const join = (upper: number, lower: number) => (upper >>> 0) * LOW_BITS + (lower & (LOW_BITS - 1));
  return {
    of(key) {
      const bytes = new DataView(key.buffer, key.byteOffset, key.byteLength);
      return join(hashView(high, bytes, 0), hashView(low, bytes, 0));
    },
    at: (keys, at) => join(hashKey(high, keys, at), hashKey(low, keys, at)),
  };
}
