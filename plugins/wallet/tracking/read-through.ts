import type { LRUCache } from 'lru-cache';
import { decode } from '../../../src/lib/base58.ts';
import { rangeOf } from '../store/range.ts';
import { endOf, firstOf, type HistoryRow, type WalletDb } from '../store/tables.ts';
import { findPlaces } from '../store/transactions.ts';
import { isPastKnown, type WalletNow } from '../store/wallets.ts';
import type { FetchedTransaction } from './chain-history.ts';
import { type Overlay, readOverlay } from './gather.ts';
import type { TrackerParts } from './parts.ts';
import { behind, createPatience } from './patience.ts';
import { beingIndexed, isChainFresh, refusedNow, type ViewRow } from './view.ts';

const POLL_MS = 40;
/** Number of transactions above the stored part from which on they are stored. */
const LONG_OVERLAY = 50;

/** The stored range of a wallet. */
interface Covered {
  readonly row: WalletNow;
  /** Positions, both exclusive. */
  readonly above: number;
  readonly below: number;
  readonly isPastKnown: boolean;
}

export interface WalletCall {
  readonly key: Uint8Array;
  readonly address: string;
  /** The wallet's row if it was just read. */
  readonly known: WalletNow | undefined;
  /** This call starts the index and is charged for it. */
  readonly isStart: boolean;
}

interface ReadThroughParts extends TrackerParts {
  /** Transactions that may still be reverted, by signature. */
  readonly recent: LRUCache<string, FetchedTransaction>;
  readonly readWallet: (address: string) => Promise<WalletNow | undefined>;
}

/** What one call sees of a wallet: the stored part, and what is above it, read from the upstream. Waits for the first of both. Errors: 503. */
export async function readThrough(
  parts: ReadThroughParts,
  { key, address, known, isStart }: WalletCall,
  signal: AbortSignal,
) {
  const { store, clock, chain, readWallet } = parts;
  const db = store.read as WalletDb;
  const deadlineMs = clock.monotonic() + parts.config.readThroughMs;
  const patiently = createPatience(clock, deadlineMs, signal);
  // Read before any row: a row that becomes final later may differ from the one that was read.
  const finalSlot = chain.status().finalizedSlot ?? -1;
  let overlay: Promise<Overlay> | null = null;
  let isAboveRead = false;
  /** Used once. */
  let current = known;

  /** Polls until `look` returns a value. Errors: 503 on timeout. */
  async function until<T>(look: (covered: Covered) => Promise<T | null>): Promise<T> {
    for (;;) {
      const row = current ?? (await readWallet(address));
      current = undefined;
      const covered = row === undefined ? null : coveredOf(row, clock.now());
      const found = covered === null ? null : await look(covered);
      if (found !== null) return found;
      if (clock.monotonic() >= deadlineMs) throw beingIndexed(row?.found ?? 0, isStart);
      if (row !== undefined && row.refused !== null) throw refusedNow(row);
      await clock.sleep(POLL_MS, signal);
    }
  }

  /**
   * Reads the rows above the stored part, up to at least `atLeast`; none when the live range is fresh enough. What is not final is then of one
   * branch, that of the upstream: the stored part may be on another one, or go back to where a fork began at any moment.
   */
  async function openOverlay(row: WalletNow, atLeast: number): Promise<Overlay> {
    const liveSlot = rangeOf(row) === 'joined' ? row.live_slot : null;
    isAboveRead = liveSlot === null || liveSlot < atLeast || !isChainFresh(chain.status(), liveSlot);
    if (!isAboveRead) return { ...NOTHING, upTo: liveSlot as number };
    const isLive = liveSlot !== null;
    const head = row.head as number;
    const storedTo = liveSlot ?? head;
    const aboveSlot = Math.max(head, Math.min(storedTo, finalSlot));
    const { found, firstSlot } = await patiently(async () => {
      const read = await readOverlay(parts, row, key, { aboveSlot, storedTo, atLeast }, signal);
      const first = await parts.upstream.firstSlot(address, signal);
      if (first > read.aboveSlot + 1 && first <= storedTo + 1) throw behind();
      return { found: read, firstSlot: first };
    });
    if (firstSlot > storedTo + 1) {
      // The upstream has pruned a part of it: the index has to restart above that.
      await store.write((tx) => parts.schedule(tx, [row.id]));
      throw beingIndexed(row.found);
    }
    if (!isLive && found.rows.length > LONG_OVERLAY) await store.write((tx) => parts.schedule(tx, [row.id]));
    return found;
  }

  /** Everything above the stored part, read once for the request. */
  const above = (row: WalletNow): Promise<Overlay> => {
    overlay ??= openOverlay(row, -1);
    return overlay;
  };

  /** Waits until everything up to a slot is known, so that nothing is missing below a position. Errors: 503. */
  async function reach(slot: number): Promise<void> {
    // What is not final is no part of such an index.
    const wanted = parts.commitment === 'finalized' ? Math.min(slot, chain.status().finalizedSlot ?? slot) : slot;
    if (wanted <= (await above(first)).upTo) return;
    const row = await until(async (covered) => covered.row);
    overlay = openOverlay(row, wanted);
    await overlay;
  }

  /** Stored rows without those of transactions read above: until the index processes a reorg they are stored at other positions too. */
  async function withoutMoved(stored: readonly HistoryRow[], read: readonly ViewRow[]): Promise<readonly HistoryRow[]> {
    const signatures = read.flatMap(({ at }) => (at === undefined ? [] : [decode(at.signature) as Uint8Array]));
    if (stored.length === 0 || signatures.length === 0) return stored;
    const places = new Set([...(await findPlaces(db, signatures)).values()].flat());
    return stored.filter(({ n }) => !places.has(n));
  }

  const first = await until(async ({ row }) => row);
  await above(first);
  // The stored part must match the rows read above.
  current = first;

  return { first, finalSlot, until, above, reach, withoutMoved, isStored: () => !isAboveRead };
}

const NOTHING: Omit<Overlay, 'upTo'> = {
  aboveSlot: Number.MAX_SAFE_INTEGER,
  rows: [],
  accounts: new Map(),
  mints: new Map(),
};

/** Null before the first step. */
export function coveredOf(row: WalletNow, now: number): Covered | null {
  if (row.head === null || row.floor === null) return null;
  return {
    row,
    above: row.is_complete === 1 ? -1 : firstOf(row.floor) - 1,
    // Above the covered range rows may be incomplete.
    below: endOf(rangeOf(row) === 'joined' ? Math.max(row.head, row.live_slot ?? row.head) : row.head),
    isPastKnown: isPastKnown(row, now),
  };
}
