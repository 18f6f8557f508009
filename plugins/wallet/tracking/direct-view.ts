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
import { createSlotSearch, type SlotSearch } from './slot-search.ts';
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

/** The history of an address without an index, for one request: its rows are found on lists of the upstream, from the newest down. */
class DirectView implements AddressHistory {
  private readonly parts: DirectViewParts;
  /** Read before any row: a row that becomes final later may differ from the one that was read. */
  readonly finalSlot: number;
  private readonly slots: SlotSearch;
  private readonly patiently: <T>(work: () => Promise<T>) => Promise<T>;
  private readonly descents: ReturnType<typeof createDescents>;
  /** The way down that the last page began; null: none, or its lists were lost in an error. */
  private descent: Descent | null = null;

  constructor(parts: DirectViewParts) {
    this.parts = parts;
    this.finalSlot = parts.chain.status().finalizedSlot ?? -1;
    this.slots = createSlotSearch({
      upstream: parts.upstream,
      ask: parts.ask,
      first: () => parts.upstream.firstSlot(parts.address, parts.ask.signal),
      top: parts.lists.top,
    });
    this.patiently = createPatience(parts.clock, parts.lists.deadlineMs, parts.ask.signal);
    this.descents = createDescents({ ...parts, patiently: this.patiently });
  }

  /** The slot below which transactions are missing, if a range reaches below it. */
  private async missingBelow(low: number): Promise<number | null> {
    const missing = await this.parts.upstream.missingBelow(this.parts.address, this.parts.ask.signal);
    return missing === null || low >= firstOf(missing) - 1 ? null : missing;
  }

  private async newestFirst({ mask, limit }: PageRange, low: number, high: number): Promise<ViewPage> {
    const isWide = (mask & ~NAMED) !== 0;
    const lowSlot = slotOf(low + 1);
    if (this.descent === null || this.descent.isWide !== isWide || high > this.descent.below)
      this.descent = await (isWide ? this.descents.openWide : this.descents.openNarrow)(high, lowSlot);
    const { rows, next } = this.descent;
    while (rows.length > 0 && rows[0]!.n >= high) rows.shift();
    this.descent.below = high;
    const isWanted = ({ n, flags }: ViewRow) => n > low && n < high && (flags & mask) !== 0;
    let found = rows.filter(isWanted);
    while (found.length < limit) {
      const more = await next(limit - found.length);
      if (more.length === 0) break;
      rows.push(...more);
      found = rows.filter(isWanted);
    }
    if (found.length >= limit) return { rows: found.slice(0, limit), prunedBelow: null };
    return { rows: found, prunedBelow: await this.missingBelow(low) };
  }

  /** Nodes list from the newest on: the oldest are found in a range that is short enough to be listed as a whole. */
  private async oldestListed(low: number, high: number, limit: number): Promise<readonly ViewRow[]> {
    const topSlot = Math.min(await this.parts.lists.top(), slotOf(high - 1));
    const found: ViewRow[] = [];
    let fromSlot = Math.max(
      slotOf(low + 1),
      await this.parts.upstream.firstSlot(this.parts.address, this.parts.ask.signal),
    );
    let span = this.parts.spans.get(this.parts.address) ?? EVERYTHING;
    while (fromSlot <= topSlot && found.length < limit) {
      span = Math.min(span, topSlot - fromSlot + 1);
      const toSlot = fromSlot + span - 1;
      const list = await this.parts.lists.from(this.parts.address, toSlot);
      const entries = await this.descents.take(list, fromSlot, MAX_LISTED);
      const isWhole = ((await list.peek())?.slot ?? -1) < fromSlot;
      if (!isWhole && span > 1) {
        span = Math.max(1, Math.floor(span / DIVISOR));
        continue;
      }
      // A single slot has fewer than fit into a list.
      const belowRange = entries.filter(({ slot }) => slot === slotOf(low + 1)).length;
      const rows = await this.descents.placed(oldestOf(entries, limit - found.length + belowRange));
      found.push(...rows.filter(({ n }) => n > low && n < high).toReversed());
      fromSlot = toSlot + 1;
      this.parts.spans.set(this.parts.address, span);
      if (entries.length < FEW_LISTED) span *= DIVISOR;
    }
    return found;
  }

  private async oldestFirst(range: PageRange, low: number, high: number): Promise<ViewPage> {
    const demandAll = async (): Promise<void> => {
      const missing = await this.missingBelow(low);
      if (missing !== null) throw incompleteHistory(missing);
    };
    await demandAll();
    const rows = await this.oldestRows(range, low, high);
    // Another upstream may have given the lists.
    await demandAll();
    return { rows, prunedBelow: null };
  }

  private async oldestRows({ mask, limit }: PageRange, low: number, high: number): Promise<readonly ViewRow[]> {
    if ((mask & ~NAMED) === 0) return (await this.oldestListed(low, high, limit)).slice(0, limit);
    const { next } = await this.descents.openWide(EVERYTHING, slotOf(low + 1));
    const rows: ViewRow[] = [];
    for (let piece = await next(PIECE); piece.length > 0; piece = await next(PIECE)) {
      rows.push(...piece);
      if (rows.length > MAX_SKIPPED) throw farDown();
    }
    const found = rows.filter(({ n, flags }) => n > low && n < high && (flags & mask) !== 0);
    return found.toReversed().slice(0, limit);
  }

  /** Null when no upstream has the transaction. */
  private async placeNow(signature: string): Promise<number | null> {
    const found = await this.parts.upstream.transaction(signature, this.parts.ask);
    if (found === null) return null;
    const { slot } = found.block;
    const place = found.place ?? (await this.parts.upstream.order(slot, this.parts.ask, [signature]))?.get(signature);
    return positionOf(slot, place ?? PROVISIONAL_PLACE);
  }

  isStored(): boolean {
    return false;
  }

  readonly reach: AddressHistory['reach'] = (slot) => this.parts.lists.reach(slot);

  readonly page: AddressHistory['page'] = (range) =>
    this.patiently(async () => {
      const [low, high] = [range.above ?? -1, range.below ?? EVERYTHING];
      if (range.order === 'asc') return this.oldestFirst(range, low, high);
      try {
        return await this.newestFirst(range, low, high);
      } catch (error) {
        // Entries that were taken from its lists are lost.
        this.descent = null;
        throw error;
      }
    });

  readonly noteShown: AddressHistory['noteShown'] = (signature, n) => {
    const slot = slotOf(n);
    if (slot > this.finalSlot) this.parts.shown.set(signature, { slot, finalSlot: this.finalSlot });
  };

  readonly load: AddressHistory['load'] = (rows) =>
    Promise.all(
      rows.map(async (row): Promise<LoadedRow> => {
        const { n, flags, at } = row;
        if (at !== undefined) return { ...at, flags };
        const entry = this.descents.entryOf(row);
        const { signature } = entry;
        const { block } = await this.descents.fetched(entry);
        const tx = block.transactions[0]!;
        const { flags: own } = touchOf(tx, block, this.parts.key);
        return { n, flags: flags | own, signature, slot: block.slot, time: block.blockTime, tx, block };
      }),
    );

  readonly texts: AddressHistory['texts'] = (rows) =>
    Promise.all(rows.map(async (row) => (await this.descents.fetched(entryOf(row))).text));

  readonly locate: AddressHistory['locate'] = async (signature, wanted) => {
    const n = await this.placeNow(signature);
    if (n !== null) await this.parts.lists.reach(slotOf(n));
    if (wanted === 'older') return n;
    const last = this.parts.shown.get(signature);
    if (last === undefined || (n !== null && slotOf(n) === last.slot)) return n;
    // Cannot be found while the upstream is behind it.
    if (n === null && (await this.parts.lists.top()) < last.slot) return endOf(last.slot) - 1;
    // A reorg moved or removed it: transactions of the other branch have not been returned yet.
    return Math.min(n ?? EVERYTHING, endOf(last.finalSlot) - 1);
  };

  readonly slotAt: AddressHistory['slotAt'] = (time) => this.patiently(() => this.slots.at(time));

  readonly slotAfter: AddressHistory['slotAfter'] = (time) => this.patiently(() => this.slots.after(time));

  readonly timeNear: AddressHistory['timeNear'] = (slot) => this.parts.upstream.blockTime(slot, this.parts.ask.signal);
}

const createDirectView = (parts: DirectViewParts): AddressHistory => new DirectView(parts);

/** The oldest entries of a list, in whole slots. */
function oldestOf(entries: readonly HistoryEntry[], limit: number): readonly HistoryEntry[] {
  const edge = entries.at(-limit)?.slot;
  return edge === undefined ? entries : entries.filter(({ slot }) => slot <= edge);
}
