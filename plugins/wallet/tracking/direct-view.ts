import type { LRUCache } from 'lru-cache';
import { createLru } from '../../../src/lib/lru.ts';
import type { ChainReader, Clock } from '../../../src/plugin/plugin.ts';
import { RequestError } from '../../../src/plugin/request.ts';
import type { AddressHistory } from '../../../src/ports/address-history.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import type { WalletConfig } from '../config.ts';
import { endOf, firstOf, NAMED, PROVISIONAL_PLACE, positionOf, slotOf } from '../store/tables.ts';
import type { OwnedAccount } from '../store/wallets.ts';
import {
  type AskOptions,
  type ChainHistory,
  type FetchedTransaction,
  isNotFound,
  type Listed,
} from './chain-history.ts';
import type { ShownPlace } from './create-view.ts';
import {
  type AddressList,
  createAddressList,
  createGatherer,
  entryOf,
  type Gatherer,
  isOfEntry,
  touchOf,
} from './gather.ts';
import { behind, contradicting, createPatience } from './patience.ts';
import { createSlotSearch } from './slot-search.ts';
import { incompleteHistory, type Loaded, type PageRange, type ViewPage, type ViewRow } from './view.ts';

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

const EVERYTHING = Number.MAX_SAFE_INTEGER;
/** Entries that are listed to find the oldest ones of a range; a range with more of them is divided. */
const MAX_LISTED = 1_000;
const DIVISOR = 16;
/** A range with fewer entries than this is followed by a longer one. */
const FEW_LISTED = 100;
/** Transactions of an address with its token accounts that one call reads only to find where its page begins. */
const MAX_SKIPPED = 10_000;
/** Token accounts whose lists are read beside that of the address. */
const MAX_ACCOUNTS = 1_000;
const PIECE = 200;
const NONE: ReadonlySet<string> = new Set();
/** Blocks without a transaction that are passed over to find a signature. */
const MAX_EMPTY_BLOCKS = 16;
/** Addresses whose token accounts, and whose length of ranges, are remembered for the next page. */
const REMEMBERED = 1_000;

/** Token accounts of an address that its transactions from the newest down to `slot` named. */
interface KnownAccounts {
  readonly slot: number;
  readonly accounts: readonly OwnedAccount[];
}

export function createDirectViews(parts: DirectParts): DirectViews {
  const accounts = createLru<string, KnownAccounts>({ max: REMEMBERED });
  const spans = createLru<string, number>({ max: REMEMBERED });
  const cursors: Cursors = { kind: 'any' };
  return {
    open: (key, address, { group, signal }) => {
      const ask = { commitment: parts.commitment, signal, lane: group };
      const lists = createLists({ ...parts, ask, cursors });
      return createDirectView({ ...parts, key, address, ask, lists, accounts, spans });
    },
  };
}

/** Which signatures a list can begin below: of any transaction, or, with some upstream, of the address alone. */
interface Cursors {
  kind: 'any' | 'own';
}

interface ListParts extends Pick<DirectParts, 'clock' | 'upstream' | 'config'> {
  readonly ask: AskOptions;
  readonly cursors: Cursors;
}

/** Lists of signatures that begin at any place of the chain. */
interface Lists {
  /** Monotonic; how long the call waits for upstreams that are behind. */
  readonly deadlineMs: number;
  /** The newest slot that the call sees. It does not move during the call but by `reach`. */
  top(): Promise<number>;
  reach(slot: number): Promise<void>;
  /** The list of an address, from a slot down; null: from its top. */
  from(address: string, slot: number | null): Promise<AddressList>;
}

function createLists({ clock, upstream, config, ask, cursors }: ListParts): Lists {
  const deadlineMs = clock.monotonic() + config.readThroughMs;
  let top: Promise<number> | null = null;

  /** Waits for an upstream that has reached a slot. Errors: 503 on timeout. */
  const reached = (slot: number): Promise<number> =>
    createPatience(
      clock,
      deadlineMs,
      ask.signal,
    )(async () => {
      const found = await upstream.slot(ask);
      if (found < slot) throw behind();
      return found;
    });

  const topNow = (): Promise<number> => {
    top ??= upstream.slot(ask);
    return top;
  };

  /** A signature above everything of a slot, other than those that are left out; null: the list has to be read from its top. */
  async function signatureAbove(slot: number, leftOut: ReadonlySet<string> = NONE): Promise<string | null> {
    const newest = await topNow();
    let below = slot;
    for (let looked = 0; looked < MAX_EMPTY_BLOCKS && below < newest; looked += 1) {
      const block = await upstream.blockFrom(below + 1, newest, ask);
      const order = block === null ? null : await upstream.order(block, ask);
      if (block === null || order === null) return null;
      for (const signature of order.keys()) if (!leftOut.has(signature)) return signature;
      below = block;
    }
    return null;
  }

  return {
    deadlineMs,
    top: topNow,
    async reach(slot) {
      if (slot <= (await topNow())) return;
      top = reached(slot);
      await top;
    },
    async from(listed, slot) {
      const before = slot === null || cursors.kind === 'own' ? null : await signatureAbove(slot);
      if (before === null) return await open(listed, slot, null);
      const list = await open(listed, slot, before);
      try {
        if ((await list.peek()) !== null || (await isBelowAny(listed))) return list;
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
      return await open(listed, slot, null);
    },
  };

  async function open(listed: string, slot: number | null, before: string | null): Promise<AddressList> {
    const newest = await topNow();
    const belowSlot = Math.min(slot ?? newest, newest) + 1;
    return createAddressList({ upstream, address: listed, belowSlot, before, minSlot: newest, ask });
  }

  /**
   * Nodes list what is below any signature of the chain. Servers with a list of their own may know only the signatures of the address, and
   * answer others with an empty list: whether an empty list is one, is found out with an entry that exists.
   */
  async function isBelowAny(listed: string): Promise<boolean> {
    const minSlot = await topNow();
    const newest = await upstream.signatures(listed, { before: null, minSlot }, ask);
    const entry = newest.at(-1);
    if (entry === undefined) return true;
    const own = new Set(newest.map(({ signature }) => signature));
    const above = await signatureAbove(entry.slot, own);
    const below = above === null ? [] : await upstream.signatures(listed, { before: above, minSlot }, ask);
    if (below.some(({ signature }) => signature === entry.signature)) return true;
    if (above !== null) cursors.kind = 'own';
    return false;
  }
}

interface DirectViewParts extends DirectParts {
  readonly key: Uint8Array;
  readonly address: string;
  readonly ask: AskOptions;
  readonly lists: Lists;
  readonly accounts: ReturnType<typeof createLru<string, KnownAccounts>>;
  /** Slots of the range that the oldest entries were last found in. */
  readonly spans: ReturnType<typeof createLru<string, number>>;
}

/** A reader of rows, newest first. It goes on where the page before it has ended. */
interface Descent {
  readonly isWide: boolean;
  /** Position; everything above it was taken. */
  below: number;
  /** Rows that were read and not taken, newest first. */
  readonly rows: ViewRow[];
  /** Whole slots, newest first; empty at the end. */
  next(limit: number): Promise<readonly ViewRow[]>;
}

function createDirectView(parts: DirectViewParts): AddressHistory {
  const { upstream, chain, recent, shown, key, address, ask, lists } = parts;
  // Read before any row: a row that becomes final later may differ from the one that was read.
  const finalSlot = chain.status().finalizedSlot ?? -1;
  const slots = createSlotSearch({
    upstream,
    ask,
    first: () => upstream.firstSlot(address, ask.signal),
    top: lists.top,
  });
  const patiently = createPatience(parts.clock, lists.deadlineMs, ask.signal);
  /** Entries of rows whose transaction is not loaded. */
  const entriesOf = new WeakMap<ViewRow, Listed>();
  let descent: Descent | null = null;

  const fetched = (entry: Listed): Promise<FetchedTransaction> =>
    patiently(async () => {
      const { signature, slot } = entry;
      const known = recent.get(signature);
      if (known !== undefined && isOfEntry(known, entry)) return known;
      const found = await upstream.transaction(signature, ask);
      if (found?.block.slot !== slot) throw contradicting();
      recent.set(signature, found);
      return found;
    });

  /** Rows of listed transactions, newest first. Within a slot the order of the block counts, which not every list has. */
  async function placed(entries: readonly Listed[]): Promise<readonly ViewRow[]> {
    const bySlot = new Map<number, Listed[]>();
    for (const entry of entries) {
      const own = bySlot.get(entry.slot);
      if (own === undefined) bySlot.set(entry.slot, [entry]);
      else own.push(entry);
    }
    const inSlots = await Promise.all(
      [...bySlot].map(async ([slot, own]) => {
        const order = own.every(({ place }) => place !== null)
          ? null
          : await upstream.order(
              slot,
              ask,
              own.map(({ signature }) => signature),
            );
        return own.map((entry, rank): ViewRow => {
          const { signature, place } = entry;
          const known = place ?? order?.get(signature) ?? null;
          if (known === null && order !== null) throw contradicting();
          const row = { n: positionOf(slot, known ?? PROVISIONAL_PLACE + (own.length - 1 - rank)), flags: NAMED };
          entriesOf.set(row, entry);
          return row;
        });
      }),
    );
    return inSlots.flat().sort((left, right) => right.n - left.n);
  }

  /** The next whole slots of a list with at least `limit` entries, down to a slot. */
  async function take(list: AddressList, lowSlot: number, limit: number): Promise<Listed[]> {
    const taken: Listed[] = [];
    for (let entry = await list.peek(); entry !== null && entry.slot >= lowSlot; entry = await list.peek()) {
      if (taken.length >= limit && entry.slot !== taken.at(-1)!.slot) break;
      taken.push(list.take());
    }
    return taken;
  }

  async function openNarrow(below: number, lowSlot: number): Promise<Descent> {
    const list = await lists.from(address, below === EVERYTHING ? null : slotOf(below - 1));
    return {
      isWide: false,
      below,
      rows: [],
      next: async (limit) => placed(await take(list, lowSlot, limit)),
    };
  }

  /** Adds token accounts to a reader. Errors: 503 for more than it can read. */
  function join(gatherer: Gatherer, found: readonly OwnedAccount[]): void {
    if (found.length > MAX_ACCOUNTS) throw tooManyAccounts();
    for (const account of found) gatherer.add(account);
  }

  /**
   * Opens a descent that includes the transactions of token accounts. Closed accounts are found in the transactions above the page, so these
   * must be read unless an earlier page did.
   */
  async function openWide(below: number, lowSlot: number): Promise<Descent> {
    const topSlot = await lists.top();
    const known = parts.accounts.get(address);
    const isKnown = below !== EVERYTHING && known !== undefined && known.slot <= slotOf(below - 1) + 1;
    const fromSlot = isKnown ? slotOf(below - 1) : null;
    const gatherer = createGatherer({
      upstream,
      wallet: key,
      address,
      aboveSlot: lowSlot - 1,
      ask,
      openList: (text) => laterList(text, () => lists.from(text, fromSlot)),
      fetch: (_signature, _ask, entry) => fetched(entry),
    });
    join(gatherer, await upstream.tokenAccounts(address, { ...ask, minSlot: topSlot }));
    if (isKnown) join(gatherer, known.accounts);
    let skipped = 0;
    const next = async (limit: number): Promise<readonly ViewRow[]> => {
      for (;;) {
        const piece = await gatherer.next(Math.min(limit, PIECE));
        if (gatherer.accounts.size > MAX_ACCOUNTS) throw tooManyAccounts();
        const lowest = piece.at(-1)?.slot;
        if (lowest !== undefined)
          parts.accounts.set(address, { slot: lowest, accounts: [...gatherer.accounts.values()] });
        const rows = piece.map(({ signature, slot, place, fetched: { block }, tx, flags }, at): ViewRow => {
          // Newest first: a transaction without a place gets a provisional one by rank.
          const n = positionOf(slot, place ?? PROVISIONAL_PLACE + (piece.length - 1 - at));
          return { n, flags, at: { n, signature, slot, time: block.blockTime, tx, block } };
        });
        const wanted = rows.filter(({ n }) => n < below);
        if (piece.length === 0 || wanted.length > 0) return wanted;
        skipped += piece.length;
        if (skipped > MAX_SKIPPED) throw farDown();
      }
    };
    return { isWide: true, below, rows: [], next };
  }

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
        rows.map(async (row): Promise<Loaded> => {
          const { n, flags, at } = row;
          if (at !== undefined) return { ...at, flags };
          const entry = entriesOf.get(row)!;
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
function oldestOf(entries: readonly Listed[], limit: number): readonly Listed[] {
  const edge = entries.at(-limit)?.slot;
  return edge === undefined ? entries : entries.filter(({ slot }) => slot <= edge);
}

/** A list that is opened when it is first read. */
function laterList(address: string, open: () => Promise<AddressList>): AddressList {
  let list: AddressList | null = null;
  let opening: Promise<AddressList> | null = null;
  return {
    address,
    async peek() {
      opening ??= open();
      list = await opening;
      return list.peek();
    },
    take() {
      if (list === null) throw new RangeError('the list was not read');
      return list.take();
    },
  };
}

const unavailable = (details: string): RequestError =>
  new RequestError(503, 'Service unavailable', { details, retryAfterS: null });

const tooManyAccounts = (): RequestError =>
  unavailable(
    `The address is not indexed and has more than ${MAX_ACCOUNTS} token accounts; search it with \`tokenAccounts\` \`none\``,
  );

const farDown = (): RequestError =>
  unavailable(
    `The address is not indexed, and its token accounts are found from its newest transaction down, in at most ${MAX_SKIPPED} transactions before a page begins; search it with \`tokenAccounts\` \`none\`, or from the top`,
  );
