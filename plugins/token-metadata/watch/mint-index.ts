import { decode32 } from '../../../src/lib/base58.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import { type AddressIndex, createAddressIndex } from '../../../src/solana/address-set.ts';
import type { Db } from '../store/tables.ts';

/** The accounts of all mints that the store knows, for matching blocks. */
export interface MintIndex {
  /** Brings it up to date. */
  current(tx: StoreTx): Promise<{ readonly index: AddressIndex; mintOf(owner: number): string }>;
}

export interface MintIndexParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly ttlMs: number;
  readonly maxMints: number;
}

/** Clocks of processes differ, and a row is written a little after its time. */
const OVERLAP_MS = 10_000;
/** How often it is made anew, without what has become old. */
const REBUILD_MS = 600_000;
const SEED_BYTES = 32;

interface State {
  readonly index: AddressIndex;
  readonly mints: string[];
  readonly numbers: Map<string, number>;
  readonly builtAtMs: number;
  readAtMs: number;
}

/**
 * Rows are read by their time, a few seconds more than once: a key that is in the index already stays. One that comes too late is found
 * by its age, like everything that is kept here.
 */
export function createMintIndex({ clock, random, ttlMs, maxMints }: MintIndexParts): MintIndex {
  const bytes = random.bytes(SEED_BYTES);
  const seed = new Uint32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + SEED_BYTES));
  let state: State | null = null;

  function add(into: State, mint: string, keys: readonly string[]): void {
    let number = into.numbers.get(mint);
    if (number === undefined) {
      number = into.mints.push(mint) - 1;
      into.numbers.set(mint, number);
    }
    for (const key of keys) {
      const bytesOfKey = decode32(key);
      if (bytesOfKey !== null) into.index.add(bytesOfKey, number);
    }
  }

  return {
    async current(tx) {
      const now = clock.now();
      const isOld = state === null || now - state.builtAtMs > REBUILD_MS || state.mints.length > 2 * maxMints;
      const next: State =
        isOld || state === null
          ? {
              index: createAddressIndex({ seed }),
              mints: [],
              numbers: new Map(),
              builtAtMs: now,
              readAtMs: now - ttlMs,
            }
          : state;
      const rows = await (tx.db as Db)
        .selectFrom('token_metadata_mints')
        .select(['mint', 'keys', 'read_at'])
        .where('read_at', '>', next.readAtMs)
        .orderBy('read_at', 'desc')
        .limit(maxMints)
        .execute();
      for (const { mint, keys } of rows) add(next, mint, JSON.parse(keys) as string[]);
      next.readAtMs = Math.max(next.readAtMs, now - OVERLAP_MS);
      state = next;
      return { index: next.index, mintOf: (owner) => next.mints[owner] ?? '' };
    },
  };
}
