import { decode32 } from '../../src/lib/base58.ts';
import { inList } from '../../src/lib/in-list.ts';
import { createLru } from '../../src/lib/lru.ts';
import { slotsIn } from '../../src/lib/slot-length.ts';
import type { BlockProcessor } from '../../src/plugin/plugin.ts';
import type { ChainBlock, NormalTransaction } from '../../src/ports/block.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import type { Clock, Random } from '../../src/ports/clock.ts';
import type { Store, StoreTx } from '../../src/ports/store.ts';
import type { Log } from '../../src/ports/telemetry.ts';
import { type AddressIndex, createAddressIndex, matchBlock } from '../../src/solana/address-set.ts';
import type { MetadataDb } from './store.ts';

/** How long, behind finality, changes are kept for those that keep facts in memory. */
const KEPT_MS = 600_000;
const PRUNE_EVERY_SLOTS = 100;

/** Finds the mints whose accounts a block may have changed, deletes their facts from the store, and notifies the other threads. */
export function createWatchProcessor(mints: MintIndex, slotMs: () => number | null): BlockProcessor {
  let prunedSlot = 0;
  return {
    name: 'token-metadata',
    version: 1,
    chains: ['main'],
    async apply(tx, block) {
      const { index, mintOf, late } = await mints.current(tx, block.parentSlot);
      if (late.length > 0) await recordChanges(tx, late, block.parentSlot);
      if (index.size === 0) return;
      const changed = [...writtenOwners(block, index)].map(mintOf);
      if (changed.length > 0) await recordChanges(tx, changed, block.slot);
    },
    async revert(tx, header) {
      mints.reverted(header.slot);
      // What was read in between may be of the branch that is gone.
      const rows = await (tx.db as MetadataDb)
        .selectFrom('token_metadata_changes')
        .select('mint')
        .where('slot', '=', header.slot)
        .union((tx.db as MetadataDb).selectFrom('token_metadata_mints').select('mint').where('slot', '>=', header.slot))
        .execute();
      const changed = rows.map(({ mint }) => mint);
      if (changed.length > 0) await recordChanges(tx, changed, header.slot);
    },
    async finalized(tx, slot) {
      if (slot - prunedSlot < PRUNE_EVERY_SLOTS) return;
      prunedSlot = slot;
      await (tx.db as MetadataDb)
        .deleteFrom('token_metadata_changes')
        .where('slot', '<', slot - slotsIn(KEPT_MS, slotMs()))
        .execute();
    },
    // Deleting twice does no harm.
    outOfOrder: true,
    // What was missed grows old by itself.
    wantsGaps: false,
  };
}

const KEY_WORDS = 8;

/** The owners in the index of all accounts that successful transactions of a block may have written to. */
function writtenOwners(block: ChainBlock, index: AddressIndex): ReadonlySet<number> {
  const owners = new Set<number>();
  for (const match of matchBlock(block, index, { owners: false })) {
    const transaction = block.transactions[match.index];
    if (transaction === undefined || transaction.error !== null) continue;
    for (const [position, id] of transaction.keys.entries()) {
      if (!isWritable(transaction, position)) continue;
      const entry = index.find(block.keys.words, id * KEY_WORDS);
      if (entry < 0) continue;
      const count = index.ownerCount(entry);
      for (let at = 0; at < count; at += 1) owners.add(index.ownerAt(entry, at));
    }
  }
  return owners;
}

/** Whether the message lets the account at a position of the merged keys be written to. */
function isWritable({ header, staticKeyCount, loadedWritableCount }: NormalTransaction, position: number): boolean {
  const { numRequiredSignatures, numReadonlySignedAccounts, numReadonlyUnsignedAccounts } = header;
  if (position >= staticKeyCount) return position < staticKeyCount + loadedWritableCount;
  if (position < numRequiredSignatures) return position < numRequiredSignatures - numReadonlySignedAccounts;
  return position < staticKeyCount - numReadonlyUnsignedAccounts;
}

/** Deletes the facts of these mints, and records for all threads that older ones were read before the end of `slot`. */
async function recordChanges(tx: StoreTx, mints: readonly string[], slot: number): Promise<void> {
  await (tx.db as MetadataDb)
    .deleteFrom('token_metadata_mints')
    .where(inList(tx.dialect, 'mint', mints))
    .execute();
  await tx.insertMany(
    'token_metadata_changes',
    ['mint', 'slot'],
    mints.map((mint) => [mint, slot]),
  );
}

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
/** How often the index is rebuilt without expired mints. */
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

interface WatchState {
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
  let state: WatchState | null = null;
  let fork = { slot: Number.POSITIVE_INFINITY, untilMs: 0 };
  const isOfFork = (row: { readonly slot: number; readonly read_at: number }): boolean =>
    row.slot >= fork.slot && row.read_at < fork.untilMs;

  /** From which slot on the accounts of a mint are watched. */
  function add(into: WatchState, mint: string, keys: string, lastSlot: number): number {
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
      const next: WatchState =
        isNew || state === null
          ? {
              index: createAddressIndex({ seed }),
              mints: [],
              watched: new Map(),
              builtAtMs: now,
              readAtMs: now - ttlMs,
            }
          : state;
      const rows = await (tx.db as MetadataDb)
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
      const rows = await (db as MetadataDb)
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

/** Brings what the block processor found to the memory of this thread. */
export interface ChangeFeed {
  start(): Promise<void>;
  stop(): void;
}

export interface ChangesParts {
  readonly chain: ChainReader;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  /** Called with mints whose accounts were written to, and the slot. */
  readonly onChanged: (mints: readonly string[], slot: number) => void;
}

const PAUSE_MS = 100;
/** Not every change comes with a block, and hints get lost. */
const EVERY_MS = 1_000;
const PER_QUERY = 1_000;

/** Looks after each released block, at most ten times a second, and each second. */
export function createChanges({ chain, store, clock, log, onChanged }: ChangesParts): ChangeFeed {
  let lastId = 0;
  let off = (): void => {};
  let cancel: (() => void) | null = null;
  let dueMs = 0;
  let stopped = false;

  const rows = () =>
    (store.read as MetadataDb)
      .selectFrom('token_metadata_changes')
      .selectAll()
      .where('id', '>', lastId)
      .orderBy('id')
      .limit(PER_QUERY)
      .execute();

  async function look(): Promise<void> {
    for (let found = await rows(); found.length > 0 && !stopped; found = await rows()) {
      for (const { id, mint, slot } of found) {
        onChanged([mint], slot);
        lastId = Math.max(lastId, id);
      }
      if (found.length < PER_QUERY) return;
    }
  }

  function lookIn(ms: number): void {
    if (stopped) return;
    cancel?.();
    dueMs = clock.monotonic() + ms;
    cancel = clock.timeout(ms, () => {
      lookIn(EVERY_MS);
      look().catch((error: unknown) => log.warn({ err: error }, 'changes of mints cannot be looked up'));
    });
  }
  const soon = (): void => {
    if (dueMs - clock.monotonic() > PAUSE_MS) lookIn(PAUSE_MS);
  };

  return {
    async start() {
      const newest = await (store.read as MetadataDb)
        .selectFrom('token_metadata_changes')
        .select(({ fn }) => fn.max('id').as('id'))
        .executeTakeFirst();
      lastId = Number(newest?.id ?? 0);
      lookIn(EVERY_MS);
      off = chain.onReleased(soon);
    },
    stop() {
      stopped = true;
      off();
      cancel?.();
    },
  };
}

/** Looks for rows that came too late to be matched with the last blocks while no other one comes: a chain may stop producing blocks. */
export interface QuietLook {
  start(): void;
  stop(): void;
}

export interface QuietLookParts {
  readonly mints: MintIndex;
  readonly chain: Pick<ChainReader, 'status'>;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
}

export function createQuietLook({ mints, chain, store, clock, log }: QuietLookParts): QuietLook {
  let lastSlot: number | null = null;
  let cancel = (): void => {};
  let stopped = false;

  async function look(): Promise<void> {
    const { cursorSlot, isStandby } = chain.status();
    const isQuiet = cursorSlot === lastSlot;
    lastSlot = cursorSlot;
    // Where blocks come, the next one looks.
    if (cursorSlot === null || !isQuiet || isStandby === true) return;
    const late = await mints.unmatched(store.read, cursorSlot);
    if (late.length > 0 && !stopped) await store.write((tx) => recordChanges(tx, late, cursorSlot));
  }

  function next(): void {
    if (stopped) return;
    cancel = clock.timeout(EVERY_MS, () => {
      look()
        .catch((error: unknown) => log.warn({ err: error }, 'facts of mints that arrived late cannot be looked up'))
        .finally(next);
    });
  }

  return {
    start: next,
    stop() {
      stopped = true;
      cancel();
    },
  };
}
