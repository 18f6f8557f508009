import type { LRUCache } from 'lru-cache';
import type { createLru } from '../../../src/lib/lru.ts';
import { RequestError } from '../../../src/plugin/request.ts';
import { NAMED, PROVISIONAL_PLACE, positionOf, slotOf } from '../store/tables.ts';
import type { OwnedAccount } from '../store/wallets.ts';
import type { ChainHistory, FetchedTransaction, HistoryAskOptions, HistoryEntry } from './chain-history.ts';
import type { SignatureLists } from './direct-lists.ts';
import { type AddressList, createGatherer, type Gatherer, isOfEntry } from './gather.ts';
import { contradicting, type createPatience } from './patience.ts';
import type { ViewRow } from './view.ts';

export const EVERYTHING = Number.MAX_SAFE_INTEGER;
/** Transactions of an address with its token accounts that one call reads only to find where its page begins. */
export const MAX_SKIPPED = 10_000;
/** Token accounts whose lists are read beside that of the address. */
const MAX_ACCOUNTS = 1_000;
export const PIECE = 200;

/** Token accounts of an address that its transactions from the newest down to `slot` named. */
export interface KnownAccounts {
  readonly slot: number;
  readonly accounts: readonly OwnedAccount[];
}

/** A reader of rows, newest first. It goes on where the page before it has ended. */
export interface Descent {
  readonly isWide: boolean;
  /** Position; everything above it was taken. */
  below: number;
  /** Rows that were read and not taken, newest first. */
  readonly rows: ViewRow[];
  /** Whole slots, newest first; empty at the end. */
  next(limit: number): Promise<readonly ViewRow[]>;
}

interface DescentParts {
  readonly upstream: ChainHistory;
  readonly key: Uint8Array;
  readonly address: string;
  readonly ask: HistoryAskOptions;
  readonly lists: SignatureLists;
  /** Fetched transactions, by signature. */
  readonly recent: LRUCache<string, FetchedTransaction>;
  readonly accounts: ReturnType<typeof createLru<string, KnownAccounts>>;
  readonly patiently: ReturnType<typeof createPatience>;
}

/** Readers of the rows of an address, newest first, without an index. */
export function createDescents({ upstream, key, address, ask, lists, recent, accounts, patiently }: DescentParts) {
  /** Entries of rows whose transaction is not loaded. */
  const entriesOf = new WeakMap<ViewRow, HistoryEntry>();

  const fetched = (entry: HistoryEntry): Promise<FetchedTransaction> =>
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
  async function placed(entries: readonly HistoryEntry[]): Promise<readonly ViewRow[]> {
    const bySlot = new Map<number, HistoryEntry[]>();
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
  async function take(list: AddressList, lowSlot: number, limit: number): Promise<HistoryEntry[]> {
    const taken: HistoryEntry[] = [];
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
    const known = accounts.get(address);
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
        if (lowest !== undefined) accounts.set(address, { slot: lowest, accounts: [...gatherer.accounts.values()] });
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

  return { fetched, entryOf: (row: ViewRow): HistoryEntry => entriesOf.get(row)!, placed, take, openNarrow, openWide };
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

export const farDown = (): RequestError =>
  unavailable(
    `The address is not indexed, and its token accounts are found from its newest transaction down, in at most ${MAX_SKIPPED} transactions before a page begins; search it with \`tokenAccounts\` \`none\`, or from the top`,
  );
