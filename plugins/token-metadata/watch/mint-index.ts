import { decode32 } from '../../../src/lib/base58.ts';
import { slotsIn } from '../../../src/lib/chain-lag.ts';
import { createLru } from '../../../src/lib/lru.ts';
import type { Clock, Random } from '../../../src/ports/clock.ts';
import type { StoreTx } from '../../../src/ports/store.ts';
import { type AddressIndex, createAddressIndex } from '../../../src/solana/address-set.ts';
import type { Db } from '../store/tables.ts';

/** The accounts of all mints that the store knows, for matching blocks. */
export interface MintIndex {
  /**
   * Brings it up to date before the block behind `lastSlot` is matched. `late`: mints whose facts were read before `lastSlot` and came to
   * the store too late to be matched with all blocks since, or may be of a branch that is gone.
   */
  current(
    tx: StoreTx,
    lastSlot: number,
  ): Promise<{ readonly index: AddressIndex; mintOf(owner: number): string; readonly late: readonly string[] }>;
  /** What `current` would call late if a block came now, without taking anything up. */
  unmatched(db: object, lastSlot: number): Promise<readonly string[]>;
  /** The blocks from this slot on were rolled back. */
  reverted(slot: number): void;
}

interface MintIndexParts {
  readonly clock: Clock;
  readonly random: Random;
  readonly ttlMs: number;
  readonly maxMints: number;
  /** Measured length of a slot; null until it is known. */
  readonly slotMs: () => number | null;
}

/** Clocks of processes differ, and a row is written a little after its time. */
const OVERLAP_MS = 10_000;
/** How often it is made anew, without what has become old. */
const REBUILD_MS = 600_000;
const SEED_BYTES = 32;
/** Rows are written sooner than this: what is older when a process starts was matched by the one before. */
const RECENT_MS = 60_000;

interface Watched {
  readonly number: number;
  /** JSON list */
  readonly keys: string;
  /** Every block behind this slot is matched. */
  readonly fromSlot: number;
}

interface State {
  readonly index: AddressIndex;
  readonly mints: string[];
  readonly watched: Map<string, Watched>;
  readonly builtAtMs: number;
  readAtMs: number;
}

/**
 * Rows are read by their time, a few seconds more than once: a key that is in the index already stays. One that comes too late is found
 * by its age, like everything that is kept here.
 */
export function createMintIndex({ clock, random, ttlMs, maxMints, slotMs }: MintIndexParts): MintIndex {
  const bytes = random.bytes(SEED_BYTES);
  const seed = new Uint32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + SEED_BYTES));
  let state: State | null = null;
  let fork = { slot: Number.POSITIVE_INFINITY, untilMs: 0 };
  const isOfFork = (row: { readonly slot: number; readonly read_at: number }): boolean =>
    row.slot >= fork.slot && row.read_at < fork.untilMs;

  /** From which slot on the accounts of a mint are watched. */
  function add(into: State, mint: string, keys: string, lastSlot: number): number {
    const known = into.watched.get(mint);
    if (known?.keys === keys) return known.fromSlot;
    const before = state?.watched.get(mint);
    const number = known?.number ?? into.mints.push(mint) - 1;
    const fromSlot = before?.keys === keys ? before.fromSlot : lastSlot;
    into.watched.set(mint, { number, keys, fromSlot });
    for (const key of JSON.parse(keys) as string[]) {
      const bytesOfKey = decode32(key);
      if (bytesOfKey !== null) into.index.add(bytesOfKey, number);
    }
    return fromSlot;
  }

  return {
    async current(tx, lastSlot) {
      const now = clock.now();
      const isNew = state === null || now - state.builtAtMs > REBUILD_MS || state.mints.length > 2 * maxMints;
      const next: State =
        isNew || state === null
          ? {
              index: createAddressIndex({ seed }),
              mints: [],
              watched: new Map(),
              builtAtMs: now,
              readAtMs: now - ttlMs,
            }
          : state;
      const rows = await (tx.db as Db)
        .selectFrom('token_metadata_mints')
        .select(['mint', 'keys', 'slot', 'read_at'])
        .where('read_at', '>', next.readAtMs)
        .orderBy('read_at', 'desc')
        .limit(maxMints)
        .execute();
      const late: string[] = [];
      for (const { mint, keys, slot, read_at } of rows) {
        const wasSeen = isNew && slot < lastSlot - slotsIn(RECENT_MS, slotMs());
        const isLate = slot < add(next, mint, keys, lastSlot) && !wasSeen;
        if (isLate || isOfFork({ slot, read_at })) late.push(mint);
      }
      next.readAtMs = Math.max(next.readAtMs, now - OVERLAP_MS);
      state = next;
      return { index: next.index, mintOf: (owner) => next.mints[owner] ?? '', late };
    },
    async unmatched(db, lastSlot) {
      const rows = await (db as Db)
        .selectFrom('token_metadata_mints')
        .select(['mint', 'keys', 'slot', 'read_at'])
        .where('read_at', '>', clock.now() - OVERLAP_MS)
        .execute();
      const fromSlot = (mint: string, keys: string): number => {
        const known = state?.watched.get(mint);
        return known?.keys === keys ? known.fromSlot : lastSlot;
      };
      const late = rows.filter((row) => row.slot < fromSlot(row.mint, row.keys) || isOfFork(row));
      return late.map(({ mint }) => mint);
    },
    reverted(slot) {
      const now = clock.now();
      fork = { slot: now < fork.untilMs ? Math.min(slot, fork.slot) : slot, untilMs: now + OVERLAP_MS };
    },
  };
}

/** Up to which slot mints are known to have changed: what was read at an earlier one may be shown, and must not be kept. */
export interface ChangedSlots {
  note(mint: string, slot: number): void;
  isCurrent(mint: string, readSlot: number): boolean;
}

const REMEMBERED = 50_000;

export function createChangedSlots(): ChangedSlots {
  const slots = createLru<string, number>({ max: REMEMBERED });
  return {
    note: (mint, slot) => void slots.set(mint, Math.max(slot, slots.get(mint) ?? 0)),
    isCurrent: (mint, readSlot) => readSlot >= (slots.get(mint) ?? 0),
  };
}
