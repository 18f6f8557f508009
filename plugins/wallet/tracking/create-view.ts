import type { LRUCache } from 'lru-cache';
import { decode, decode32, encode32 } from '../../../src/lib/base58.ts';
import { type ReadRows, unite } from '../store/rows.ts';
import {
  ACCOUNT,
  endOf,
  PROVISIONAL_PLACE,
  placeOf,
  positionOf,
  readKeyNumbers,
  slotOf,
  type WalletDb,
} from '../store/tables.ts';
import { findSignature, readBodies, slotAfterTime, slotAtTime } from '../store/transactions.ts';
import { readOwnedAccounts, type WalletNow } from '../store/wallets.ts';
import type { FetchedTransaction } from './chain-history.ts';
import { entryOf, isOfEntry } from './gather.ts';
import { isWhole, loadRows, noTransaction, type TransactionCache } from './loaded-transactions.ts';
import type { TrackerParts } from './parts.ts';
import type { PlaceResolver } from './provisional-places.ts';
import { coveredOf, readThrough, type WalletCall } from './read-through.ts';
import { incompleteHistory, type PageRange, type ViewPage, type ViewRow, type WalletView } from './view.ts';

interface ViewParts extends TrackerParts {
  /** Transactions that may still be reverted, by signature. */
  readonly recent: LRUCache<string, FetchedTransaction>;
  /** Positions at which transactions were last returned, while a reorg could still move them. */
  readonly shown: LRUCache<string, ShownPlace>;
  readonly transactionCache: TransactionCache;
  readonly readWallet: (address: string) => Promise<WalletNow | undefined>;
  readonly readRows: ReadRows;
  /** True when rows have moved and must be read again. */
  readonly resolvePlaces: PlaceResolver;
}

const EVERYTHING = Number.MAX_SAFE_INTEGER;

/** Position at which a response contained a transaction. Above `finalSlot` a reorg may have changed everything since. */
export interface ShownPlace {
  readonly slot: number;
  readonly finalSlot: number;
}

/** The histories of a wallet, for one call. Errors: 503. */
export async function createWalletView(parts: ViewParts, call: WalletCall, signal: AbortSignal): Promise<WalletView> {
  const { key, address } = call;
  const { store, clock, readRows, readWallet } = parts;
  const db = store.read as WalletDb;
  const { first, finalSlot, until, above, reach, withoutMoved, isStored } = await readThrough(parts, call, signal);

  async function page(range: PageRange): Promise<ViewPage> {
    return await until(async (covered) => {
      const { row, isPastKnown } = covered;
      const { mask, limit, order } = range;
      const low = range.above ?? -1;
      const high = range.below ?? EVERYTHING;
      const isCut = low < covered.above;
      // Oldest first must start at the requested bound.
      if (order === 'asc' && isCut && row.is_complete === 0) {
        if (!isPastKnown) return null;
        throw incompleteHistory(row.pruned_below ?? 0);
      }
      const { rows, aboveSlot } = await above(row);
      const wanted = {
        mask,
        order,
        limit: limit + rows.length,
        above: Math.max(low, covered.above),
        below: Math.min(high, covered.below, endOf(aboveSlot)),
      };
      let stored = await readRows(row.id, wanted);
      if (await parts.resolvePlaces(stored, signal)) stored = await readRows(row.id, wanted);
      const fresh = rows.filter(({ n, flags }) => n > low && n < high && (flags & mask) !== 0);
      const found = unite<ViewRow>(await withoutMoved(stored, rows), fresh, order).slice(0, limit);
      if (found.length >= limit || !isCut || row.is_complete === 1) return { rows: found, prunedBelow: null };
      return isPastKnown ? { rows: found, prunedBelow: row.pruned_below } : null;
    });
  }

  async function locate(signature: string, wanted: 'older' | 'newer'): Promise<number | null> {
    const bytes = decode(signature);
    if (bytes === null) return null;
    let n = await placeNow(signature, bytes);
    const isProvisional = n !== null && placeOf(n) >= PROVISIONAL_PLACE;
    if (n !== null && (wanted === 'older' || isProvisional)) await reach(slotOf(n));
    // Not a valid cursor once blocks or the overlay brought the real position: the page would repeat the transaction, or skip its slot.
    if (isProvisional) n = (await knownPlace(signature, bytes)) ?? n;
    if (wanted === 'older') return n;
    // A reorg moved or removed it: transactions of the other branch have not been returned yet.
    const shown = parts.shown.get(signature);
    if (shown === undefined || (n !== null && slotOf(n) === shown.slot)) return n;
    // Cannot be found while the upstream is behind it.
    if (n === null && (await above(first)).upTo < shown.slot) return endOf(shown.slot) - 1;
    return Math.min(n ?? EVERYTHING, endOf(shown.finalSlot) - 1);
  }

  /** Without fetching the transaction. Rows read above come first: stored positions may predate a reorg. */
  async function knownPlace(signature: string, bytes: Uint8Array): Promise<number | null> {
    const fresh = (await above(first)).rows.find(({ at }) => at?.signature === signature);
    return fresh?.n ?? (await findSignature(db, bytes));
  }

  async function placeNow(signature: string, bytes: Uint8Array): Promise<number | null> {
    const known = await knownPlace(signature, bytes);
    if (known !== null) return known;
    const ask = { commitment: parts.commitment, signal };
    const fetched = await parts.upstream.transaction(signature, ask);
    if (fetched === null) return null;
    const { slot } = fetched.block;
    const place = fetched.place ?? (await parts.upstream.order(slot, ask, [signature]))?.get(signature);
    if (place !== undefined) return positionOf(slot, place);
    // Without a known place the order of the wallet's stored list applies.
    await until(async ({ row, isPastKnown }) => isPastKnown || slot >= (row.floor as number) || null);
    return (await findSignature(db, bytes)) ?? positionOf(slot, PROVISIONAL_PLACE);
  }

  return {
    key,
    address,
    id: first.id,
    finalSlot,
    page,
    locate,
    reach,
    isStored,
    noteShown(signature, n) {
      const slot = slotOf(n);
      if (slot > finalSlot) parts.shown.set(signature, { slot, finalSlot });
    },
    load: (rows) => loadRows({ ...parts, finalSlot, signal }, key, rows),
    async whole() {
      return await until(async ({ row, isPastKnown }) =>
        isPastKnown ? { prunedBelow: row.is_complete === 1 ? null : row.pruned_below } : null,
      );
    },
    async accountRows(account, below, limit) {
      const row = (await readWallet(address)) ?? first;
      const covered = coveredOf(row, clock.now());
      const { accounts, aboveSlot } = await above(row);
      const fresh = accounts.get(account.address) ?? [];
      const stored =
        covered === null
          ? []
          : await readRows(account.id, {
              mask: ACCOUNT,
              limit: limit + fresh.length,
              order: 'desc',
              above: -1,
              below: Math.min(below, covered.below, endOf(aboveSlot)),
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
      for (const { account } of await readOwnedAccounts(db, first.id, mint)) found.add(encode32(account));
      const numbers = await readKeyNumbers(db);
      return [...found].map((text) => ({ id: numbers.of(decode32(text) as Uint8Array), address: text }));
    },
    async slotAt(time) {
      const stored = await slotAtTime(db, time);
      const { rows, accounts } = await above(first);
      const read = [...rows, ...[...accounts.values()].flat()];
      const slots = read.flatMap(({ at }) => (at?.time != null && at.time <= time ? [at.slot] : []));
      return slots.reduce<number | null>((newest, slot) => Math.max(newest ?? slot, slot), stored);
    },
    slotAfter: (time) => slotAfterTime(db, time),
    async texts(rows) {
      const bodies = await readBodies(
        db,
        rows.map(({ n }) => n),
      );
      return await Promise.all(
        rows.map(async (row) => {
          const { n, slot, signature } = row;
          const stored = bodies.get(n);
          if (stored !== undefined && isWhole(stored)) return stored;
          const known = parts.recent.get(signature);
          if (known !== undefined && isOfEntry(known, entryOf(row))) return known.text;
          const fetched = await parts.upstream.transaction(signature, { commitment: parts.commitment, signal });
          if (fetched === null || fetched.block.slot !== slot) throw noTransaction();
          return fetched.text;
        }),
      );
    },
    timeNear: (slot) => parts.upstream.blockTime(slot, signal),
  };
}
