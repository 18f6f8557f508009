import type { LRUCache } from 'lru-cache';
import { decode, decode32, encode32 } from '../../../src/lib/base58.ts';
import { readAccounts } from '../store/accounts.ts';
import { ACCOUNT, type HistoryRow } from '../store/flags.ts';
import { readKeyNumbers } from '../store/keys.ts';
import { endOf, firstOf, MADE_UP_PLACE, positionOf } from '../store/position.ts';
import { type ReadRows, unite } from '../store/rows.ts';
import type { Db } from '../store/tables.ts';
import { findPlaces, findSignature, slotAtTime, timeBefore } from '../store/transactions.ts';
import { isJoined, isSettled, type WalletNow } from '../store/wallets.ts';
import { isFresh } from './is-fresh.ts';
import { loadRows } from './load.ts';
import { type Overlay, readOverlay } from './overlay.ts';
import type { createRealOrder } from './real-order.ts';
import { beingIndexed, incompleteHistory } from './refusals.ts';
import type { Shelf } from './shelf.ts';
import type { TrackerParts } from './tracker-parts.ts';
import type { FetchedTransaction } from './upstream.ts';
import type { PageRange, ViewPage, ViewRow, WalletView } from './view.ts';

export interface ViewParts extends TrackerParts {
  readonly recent: LRUCache<string, FetchedTransaction>;
  readonly shelf: Shelf;
  readonly readWallet: (address: string) => Promise<WalletNow | undefined>;
  readonly readRows: ReadRows;
  /** Whether rows have to be read again, because they stand elsewhere now. */
  readonly takeRealOrder: ReturnType<typeof createRealOrder>;
}

const POLL_MS = 40;
const EVERYTHING = Number.MAX_SAFE_INTEGER;
/** Transactions above the stored part at which it is time to store them. */
const LONG_OVERLAY = 50;

/** What of a wallet is there. */
interface Covered {
  readonly row: WalletNow;
  /** Positions, both exclusive. */
  readonly above: number;
  readonly below: number;
  readonly isSettled: boolean;
}

/** `known`: what was read of the wallet just now, if it was. */
export async function createView(
  parts: ViewParts,
  {
    key,
    address,
    known,
  }: { readonly key: Uint8Array; readonly address: string; readonly known: WalletNow | undefined },
  signal: AbortSignal,
): Promise<WalletView> {
  const { store, clock, chain, readRows, readWallet } = parts;
  const db = store.read as Db;
  const deadlineMs = clock.monotonic() + parts.readThroughMs;
  // Before anything is read that it is about: what becomes final later may be another transaction than was read.
  const finalSlot = chain.status().finalizedSlot ?? -1;
  let overlay: Promise<Overlay> | null = null;
  /** Good for one look. */
  let current = known;

  /** Waits for the first answer that is not null. Errors: 503 in the end. */
  async function until<T>(look: (covered: Covered) => Promise<T | null>): Promise<T> {
    for (;;) {
      const row = current ?? (await readWallet(address));
      current = undefined;
      const covered = row === undefined ? null : coveredOf(row, clock.now());
      const found = covered === null ? null : await look(covered);
      if (found !== null) return found;
      if (clock.monotonic() >= deadlineMs) throw beingIndexed(row?.found ?? 0);
      await clock.sleep(POLL_MS, signal);
    }
  }

  async function openOverlay(row: WalletNow): Promise<Overlay> {
    const isLive = isJoined(row) && row.live_slot !== null;
    if (isLive && isFresh(chain)) return NOTHING;
    const aboveSlot = isLive ? (row.live_slot as number) : (row.head as number);
    const found = await readOverlay(parts, row, key, aboveSlot, signal);
    if ((await parts.upstream.firstSlot(signal)) > aboveSlot + 1) {
      // The upstream has lost a part of it meanwhile: the index has to begin anew above that.
      await store.write((tx) => parts.schedule(tx, row.id));
      throw beingIndexed(row.found);
    }
    if (!isLive && found.rows.length > LONG_OVERLAY) await store.write((tx) => parts.schedule(tx, row.id));
    return found;
  }

  /** Everything above the stored part as it was when the request first looked. */
  const above = (row: WalletNow): Promise<Overlay> => {
    overlay ??= openOverlay(row);
    return overlay;
  };

  /** Rows without those of transactions that were read above: after a fork that the index has yet to hear of they are stored elsewhere too. */
  async function withoutMoved(stored: readonly HistoryRow[], read: readonly ViewRow[]): Promise<readonly HistoryRow[]> {
    const signatures = read.flatMap(({ at }) => (at === undefined ? [] : [decode(at.signature) as Uint8Array]));
    if (stored.length === 0 || signatures.length === 0) return stored;
    const places = new Set([...(await findPlaces(db, signatures)).values()].flat());
    return stored.filter(({ n }) => !places.has(n));
  }

  const first = await until(async ({ row }) => row);
  const isStored = (await above(first)) === NOTHING;
  // What is stored of it goes with what was read above.
  current = first;

  async function page(range: PageRange): Promise<ViewPage> {
    return await until(async (covered) => {
      const { row, isSettled } = covered;
      const { mask, limit, order } = range;
      const low = range.above ?? -1;
      const high = range.below ?? EVERYTHING;
      const isCut = low < covered.above;
      // Oldest first has to begin where it was asked to.
      if (order === 'asc' && isCut && row.is_complete === 0) {
        if (!isSettled) return null;
        throw incompleteHistory(row.pruned_below ?? 0);
      }
      const { rows } = await above(row);
      const wanted = {
        ...{ mask, order },
        limit: limit + rows.length,
        above: Math.max(low, covered.above),
        below: Math.min(high, covered.below),
      };
      let stored = await readRows(row.id, wanted);
      if (await parts.takeRealOrder(stored, signal)) stored = await readRows(row.id, wanted);
      const fresh = rows.filter(({ n, flags }) => n > low && n < high && (flags & mask) !== 0);
      const found = unite<ViewRow>(await withoutMoved(stored, rows), fresh, order).slice(0, limit);
      if (found.length >= limit || !isCut || row.is_complete === 1) return { rows: found, prunedBelow: null };
      return isSettled ? { rows: found, prunedBelow: row.pruned_below } : null;
    });
  }

  async function locate(signature: string): Promise<number | null> {
    const bytes = decode(signature);
    if (bytes === null) return null;
    // First what was read above: what is stored may be where it stood before a fork.
    const fresh = (await above(first)).rows.find(({ at }) => at?.signature === signature);
    if (fresh !== undefined) return fresh.n;
    const known = await findSignature(db, bytes);
    if (known !== null) return known;
    const ask = { commitment: parts.commitment, signal };
    const fetched = await parts.upstream.transaction(signature, ask);
    if (fetched === null) return null;
    const { slot } = fetched.block;
    const place = fetched.place ?? (await parts.upstream.order(slot, ask))?.get(signature);
    if (place !== undefined) return positionOf(slot, place);
    // Nobody tells the place: then it is what the stored list of the wallet makes of it.
    await until(async ({ row, isSettled }) => isSettled || slot >= (row.floor as number) || null);
    return (await findSignature(db, bytes)) ?? positionOf(slot, MADE_UP_PLACE);
  }

  return {
    ...{ key, address, id: first.id, finalSlot, isStored, page, locate },
    load: (rows) => loadRows({ ...parts, finalSlot, signal }, key, rows),
    async whole() {
      return await until(async ({ row, isSettled }) =>
        isSettled ? { prunedBelow: row.is_complete === 1 ? null : row.pruned_below } : null,
      );
    },
    async accountRows(account, below, limit) {
      const row = (await readWallet(address)) ?? first;
      const covered = coveredOf(row, clock.now());
      const fresh = (await above(row)).accounts.get(account.address) ?? [];
      const stored =
        covered === null
          ? []
          : await readRows(account.id, {
              ...{ mask: ACCOUNT, limit: limit + fresh.length, order: 'desc', above: -1 },
              below: Math.min(below, covered.below),
            });
      return unite<ViewRow>(
        await withoutMoved(stored, fresh),
        fresh.filter(({ n }) => n < below),
        'desc',
      ).slice(0, limit);
    },
    async accountsOf(mint) {
      const { mints } = await above(first);
      const found = new Set<string>();
      for (const [text, other] of mints) if (Buffer.compare(other, mint) === 0) found.add(text);
      for (const { account } of await readAccounts(db, first.id, mint)) found.add(encode32(account));
      const numbers = await readKeyNumbers(db);
      return [...found].map((text) => ({ id: numbers.of(decode32(text) as Uint8Array), address: text }));
    },
    async slotAt(time) {
      const stored = await slotAtTime(db, time);
      const fresh = (await above(first)).rows.find(({ at }) => at?.time != null && at.time <= time)?.at?.slot ?? null;
      return stored === null ? fresh : fresh === null ? stored : Math.max(stored, fresh);
    },
    async timeNear(slot) {
      return (await parts.upstream.blockTime(slot, signal)) ?? (await timeBefore(db, slot));
    },
  };
}

const NOTHING: Overlay = { rows: [], accounts: new Map(), mints: new Map() };

/** Null before the first step. */
function coveredOf(row: WalletNow, now: number): Covered | null {
  if (row.head === null || row.floor === null) return null;
  return {
    row,
    above: row.is_complete === 1 ? -1 : firstOf(row.floor) - 1,
    below: isJoined(row) ? EVERYTHING : endOf(row.head),
    isSettled: isSettled(row, now),
  };
}
