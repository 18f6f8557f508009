import type { LRUCache } from 'lru-cache';
import { createLru } from '../../../src/lib/lru.ts';
import type { ChainReader, Clock } from '../../../src/plugin/plugin.ts';
import type { AddressHistory } from '../../../src/ports/address-history.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import type { WalletConfig } from '../config.ts';
import { endOf, firstOf, NAMED, PROVISIONAL_PLACE, positionOf, slotOf } from '../store/tables.ts';
import type { ChainHistory, FetchedTransaction, HistoryAskOptions, HistoryEntry } from './chain-history.ts';
import type { ShownPlace } from './create-view.ts';
import {
  createDescents,
  type Descent,
  EVERYTHING,
  farDown,
  type KnownAccounts,
  MAX_SKIPPED,
  PIECE,
} from './descents.ts';
import { type Cursors, createDirectLists, type SignatureLists } from './direct-lists.ts';
import { entryOf, touchOf } from './gather.ts';
import { createPatience } from './patience.ts';
import { createSlotSearch } from './slot-search.ts';
import { incompleteHistory, type LoadedRow, type PageRange, type ViewPage, type ViewRow } from './view.ts';

/**
 * Histories of addresses that have no index, because they are programs, too busy or too large, or because nobody has room for them. They are
 * read page by page for the length of one call: lists of signatures from the place where a page begins, and only the transactions that a page
 * needs. Nothing is stored.
 */
export interface DirectViews {
  /** `group`: the tenant that the calls are made for. Errors: as `AddressHistory`. */
  open(
    key: Uint8Array,
    address: string,
    call: { readonly group: string; readonly signal: AbortSignal },
  ): AddressHistory;
}

export interface DirectParts {
  readonly clock: Clock;
  readonly chain: ChainReader;
  readonly upstream: ChainHistory;
  readonly commitment: Commitment;
  readonly config: Pick<WalletConfig, 'readThroughMs'>;
  /** Fetched transactions, by signature. */
  readonly recent: LRUCache<string, FetchedTransaction>;
  /** Positions at which transactions were last returned, while a reorg could still move them. */
  readonly shown: LRUCache<string, ShownPlace>;
}

/** Entries that are listed to find the oldest ones of a range; a range with more of them is divided. */
const MAX_LISTED = 1_000;
const DIVISOR = 16;
/** A range with fewer entries than this is followed by a longer one. */
const FEW_LISTED = 100;
/** Addresses whose token accounts, and whose length of ranges, are remembered for the next page. */
const REMEMBERED = 1_000;

export function createDirectViews(parts: DirectParts): DirectViews {
  const accounts = createLru<string, KnownAccounts>({ max: REMEMBERED });
  const spans = createLru<string, number>({ max: REMEMBERED });
  const cursors: Cursors = { kind: 'any' };
  return {
    open: (key, address, { group, signal }) => {
      const ask = { commitment: parts.commitment, signal, lane: group };
      const lists = createDirectLists({ ...parts, ask, cursors });
      return createDirectView({ ...parts, key, address, ask, lists, accounts, spans });
    },
  };
}

interface DirectViewParts extends DirectParts {
  readonly key: Uint8Array;
  readonly address: string;
  readonly ask: HistoryAskOptions;
  readonly lists: SignatureLists;
  readonly accounts: ReturnType<typeof createLru<string, KnownAccounts>>;
  /** Slots of the range that the oldest entries were last found in. */
  readonly spans: ReturnType<typeof createLru<string, number>>;
}

function createDirectView(parts: DirectViewParts): AddressHistory {
  const { upstream, chain, shown, key, address, ask, lists } = parts;
  // Read before any row: a row that becomes final later may differ from the one that was read.
  const finalSlot = chain.status().finalizedSlot ?? -1;
  const slots = createSlotSearch({
    upstream,
    ask,
    first: () => upstream.firstSlot(address, ask.signal),
    top: lists.top,
  });
  const patiently = createPatience(parts.clock, lists.deadlineMs, ask.signal);
  const descents = createDescents({ ...parts, patiently });
  const { fetched, placed, take, openNarrow, openWide } = descents;
  let descent: Descent | null = null;

  /** The slot below which transactions are missing, if a range reaches below it. */
  async function missingBelow(low: number): Promise<number | null> {
    const missing = await upstream.missingBelow(address, ask.signal);
    return missing === null || low >= firstOf(missing) - 1 ? null : missing;
  }

  async function newestFirst({ mask, limit }: PageRange, low: number, high: number): Promise<ViewPage> {
    const isWide = (mask & ~NAMED) !== 0;
    const lowSlot = slotOf(low + 1);
    if (descent === null || descent.isWide !== isWide || high > descent.below)
      descent = await (isWide ? openWide : openNarrow)(high, lowSlot);
    const { rows, next } = descent;
    while (rows.length > 0 && rows[0]!.n >= high) rows.shift();
    descent.below = high;
    const isWanted = ({ n, flags }: ViewRow) => n > low && n < high && (flags & mask) !== 0;
    let found = rows.filter(isWanted);
    while (found.length < limit) {
      const more = await next(limit - found.length);
      if (more.length === 0) break;
      rows.push(...more);
      found = rows.filter(isWanted);
    }
    if (found.length >= limit) return { rows: found.slice(0, limit), prunedBelow: null };
    return { rows: found, prunedBelow: await missingBelow(low) };
  }

  /** Nodes list from the newest on: the oldest are found in a range that is short enough to be listed as a whole. */
  async function oldestListed(low: number, high: number, limit: number): Promise<readonly ViewRow[]> {
    const topSlot = Math.min(await lists.top(), slotOf(high - 1));
    const found: ViewRow[] = [];
    let fromSlot = Math.max(slotOf(low + 1), await upstream.firstSlot(address, ask.signal));
    let span = parts.spans.get(address) ?? EVERYTHING;
    while (fromSlot <= topSlot && found.length < limit) {
      span = Math.min(span, topSlot - fromSlot + 1);
      const toSlot = fromSlot + span - 1;
      const list = await lists.from(address, toSlot);
      const entries = await take(list, fromSlot, MAX_LISTED);
      const isWhole = ((await list.peek())?.slot ?? -1) < fromSlot;
      if (!isWhole && span > 1) {
        span = Math.max(1, Math.floor(span / DIVISOR));
        continue;
      }
      // A single slot has fewer than fit into a list.
      const belowRange = entries.filter(({ slot }) => slot === slotOf(low + 1)).length;
      const rows = await placed(oldestOf(entries, limit - found.length + belowRange));
      found.push(...rows.filter(({ n }) => n > low && n < high).toReversed());
      fromSlot = toSlot + 1;
      parts.spans.set(address, span);
      if (entries.length < FEW_LISTED) span *= DIVISOR;
    }
    return found;
  }

  async function oldestFirst(range: PageRange, low: number, high: number): Promise<ViewPage> {
    const demandAll = async (): Promise<void> => {
      const missing = await missingBelow(low);
      if (missing !== null) throw incompleteHistory(missing);
    };
    await demandAll();
    const rows = await oldestRows(range, low, high);
    // Another upstream may have given the lists.
    await demandAll();
    return { rows, prunedBelow: null };
  }

  async function oldestRows({ mask, limit }: PageRange, low: number, high: number): Promise<readonly ViewRow[]> {
    if ((mask & ~NAMED) === 0) return (await oldestListed(low, high, limit)).slice(0, limit);
    const { next } = await openWide(EVERYTHING, slotOf(low + 1));
    const rows: ViewRow[] = [];
    for (let piece = await next(PIECE); piece.length > 0; piece = await next(PIECE)) {
      rows.push(...piece);
      if (rows.length > MAX_SKIPPED) throw farDown();
    }
    const found = rows.filter(({ n, flags }) => n > low && n < high && (flags & mask) !== 0);
    return found.toReversed().slice(0, limit);
  }

  /** Null when no upstream has the transaction. */
  async function placeNow(signature: string): Promise<number | null> {
    const found = await upstream.transaction(signature, ask);
    if (found === null) return null;
    const { slot } = found.block;
    const place = found.place ?? (await upstream.order(slot, ask, [signature]))?.get(signature);
    return positionOf(slot, place ?? PROVISIONAL_PLACE);
  }

  return {
    finalSlot,
    isStored: () => false,
    reach: (slot) => lists.reach(slot),
    page: (range) =>
      patiently(async () => {
        const [low, high] = [range.above ?? -1, range.below ?? EVERYTHING];
        if (range.order === 'asc') return oldestFirst(range, low, high);
        try {
          return await newestFirst(range, low, high);
        } catch (error) {
          // Entries that were taken from its lists are lost.
          descent = null;
          throw error;
        }
      }),
    noteShown(signature, n) {
      const slot = slotOf(n);
      if (slot > finalSlot) shown.set(signature, { slot, finalSlot });
    },
    load: (rows) =>
      Promise.all(
        rows.map(async (row): Promise<LoadedRow> => {
          const { n, flags, at } = row;
          if (at !== undefined) return { ...at, flags };
          const entry = descents.entryOf(row);
          const { signature } = entry;
          const { block } = await fetched(entry);
          const tx = block.transactions[0]!;
          const { flags: own } = touchOf(tx, block, key);
          return { n, flags: flags | own, signature, slot: block.slot, time: block.blockTime, tx, block };
        }),
      ),
    texts: (rows) => Promise.all(rows.map(async (row) => (await fetched(entryOf(row))).text)),
    async locate(signature, wanted) {
      const n = await placeNow(signature);
      if (n !== null) await lists.reach(slotOf(n));
      if (wanted === 'older') return n;
      const last = shown.get(signature);
      if (last === undefined || (n !== null && slotOf(n) === last.slot)) return n;
      // Cannot be found while the upstream is behind it.
      if (n === null && (await lists.top()) < last.slot) return endOf(last.slot) - 1;
      // A reorg moved or removed it: transactions of the other branch have not been returned yet.
      return Math.min(n ?? EVERYTHING, endOf(last.finalSlot) - 1);
    },
    slotAt: (time) => patiently(() => slots.at(time)),
    slotAfter: (time) => patiently(() => slots.after(time)),
    timeNear: (slot) => upstream.blockTime(slot, ask.signal),
  };
}

/** The oldest entries of a list, in whole slots. */
function oldestOf(entries: readonly HistoryEntry[], limit: number): readonly HistoryEntry[] {
  const edge = entries.at(-limit)?.slot;
  return edge === undefined ? entries : entries.filter(({ slot }) => slot <= edge);
}
