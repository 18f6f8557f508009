import type { LRUCache } from 'lru-cache';
import { encode32 } from '../../../src/lib/base58.ts';
import { CodedError, type Store } from '../../../src/plugin/plugin.ts';
import type { ChainBlock, NormalTransaction } from '../../../src/ports/block.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import { tokenChanges } from '../../../src/solana/movements/movement.ts';
import {
  ACCOUNT,
  CHANGED,
  NAMED,
  PROVISIONAL_PLACE,
  placeOf,
  positionOf,
  TOUCHED,
  type WalletDb,
  type WalletRow,
} from '../store/tables.ts';
import { type OwnedAccount, readOwnedAccounts } from '../store/wallets.ts';
import {
  type ChainHistory,
  type FetchedTransaction,
  type HistoryAskOptions,
  type HistoryEntry,
  isNotFound,
} from './chain-history.ts';
import { behind, contradicting } from './patience.ts';
import { beingIndexed, type LoadedRow, type ViewRow } from './view.ts';

/** A transaction of a wallet, from the upstream. */
export interface GatheredTransaction {
  readonly signature: string;
  readonly slot: number;
  /** Place in the block; null when unknown: the order of the list then applies. */
  place: number | null;
  /** Places of all transactions of the block by signature (base58), when they were looked up and an upstream has them. */
  order: ReadonlyMap<string, number> | null;
  readonly fetched: FetchedTransaction;
  readonly tx: NormalTransaction;
  /** Relation to the wallet. */
  readonly flags: number;
  /** Token accounts (base58) of the wallet that it touches, and the wallet if it is a token account. */
  readonly accounts: readonly string[];
}

/** Reads the transactions of a wallet and its token accounts, newest first. */
export interface Gatherer {
  /**
   * The next slots with at least `most` transactions, or the rest; newest first. Token accounts found in them are read from then
   * on as well. Empty at the end. Errors: those of the upstream, WALLET_NO_TRANSACTION.
   */
  next(most: number): Promise<readonly GatheredTransaction[]>;
  /** Adds a token account of the wallet; known ones are ignored. */
  add(account: OwnedAccount): void;
  /** All token accounts seen so far. */
  readonly accounts: ReadonlyMap<string, OwnedAccount>;
}

interface GatherOptions {
  readonly upstream: ChainHistory;
  readonly wallet: Uint8Array;
  /** base58 of `wallet`. */
  readonly address: string;
  /** Opens the list of an address. */
  openList(address: string): AddressList;
  /** Exclusive lower bound. */
  readonly aboveSlot: number;
  readonly ask: HistoryAskOptions;
  /** `entry` is that of the list. */
  fetch(signature: string, ask: HistoryAskOptions, entry: HistoryEntry): Promise<FetchedTransaction | null>;
}

interface SourcedSignature {
  readonly slot: number;
  readonly entry: HistoryEntry;
  readonly sources: Set<string>;
}

export function createGatherer(options: GatherOptions): Gatherer {
  const { address, aboveSlot } = options;
  const lists: AddressList[] = [options.openList(address)];
  const accounts = new Map<string, OwnedAccount>();

  function add(owned: OwnedAccount): void {
    const text = encode32(owned.account);
    if (accounts.has(text)) return;
    accounts.set(text, owned);
    // An account that owns itself, as some pool vaults do: its list is the wallet's.
    if (text !== address) lists.push(options.openList(text));
  }

  async function peekSlot(list: AddressList): Promise<number | null> {
    const entry = await list.peek();
    return entry === null || entry.slot <= aboveSlot ? null : entry.slot;
  }

  /** Takes the entries in `slot` or above from all lists. */
  async function takeDownTo(
    slot: number,
    wanted: Map<string, SourcedSignature>,
    from: readonly AddressList[],
  ): Promise<void> {
    await Promise.all(
      from.map(async (list) => {
        for (let top = await peekSlot(list); top !== null && top >= slot; top = await peekSlot(list)) {
          const entry = list.take();
          const known = wanted.get(entry.signature);
          if (known === undefined)
            wanted.set(entry.signature, { slot: entry.slot, entry, sources: new Set([list.address]) });
          else known.sources.add(list.address);
        }
      }),
    );
  }

  async function takeNewest(most: number): Promise<Map<string, SourcedSignature>> {
    const wanted = new Map<string, SourcedSignature>();
    while (wanted.size < most) {
      const tops = (await Promise.all(lists.map(peekSlot))).filter((slot) => slot !== null);
      if (tops.length === 0) break;
      await takeDownTo(Math.max(...tops), wanted, lists);
    }
    return wanted;
  }

  return {
    accounts,
    add,
    async next(most) {
      const wanted = await takeNewest(most);
      const done = new Map<string, GatheredTransaction>();
      while (done.size < wanted.size) {
        const missing = [...wanted].filter(([signature]) => !done.has(signature));
        const fetched = await Promise.all(missing.map(([signature, wanted]) => fetchOne(options, signature, wanted)));
        const lowest = Math.min(...[...wanted.values()].map(({ slot }) => slot));
        const before = lists.length;
        for (const { gathered, owned } of fetched) {
          done.set(gathered.signature, gathered);
          for (const account of owned) add(account);
        }
        // Transactions of a new account above the slot are part of this piece too.
        await takeDownTo(lowest, wanted, lists.slice(before));
      }
      return await inOrder(options, [...done.values()], [...wanted.keys()]);
    },
  };
}

async function fetchOne(
  { fetch, ask, wallet, address }: GatherOptions,
  signature: string,
  { entry, sources }: SourcedSignature,
): Promise<{ readonly gathered: GatheredTransaction; readonly owned: readonly OwnedAccount[] }> {
  const fetched = await fetch(signature, ask, entry);
  const tx = fetched?.block.transactions[0];
  if (fetched === null || tx === undefined)
    throw new CodedError('WALLET_NO_TRANSACTION', 'an upstream lists a transaction that no upstream has', {
      retryable: true,
    });
  const touch = touchOf(tx, fetched.block, wallet);
  const listed = [...sources].filter((source) => source !== address);
  // When the transaction names no owners, the account's own list shows that it was touched.
  const isSilent = listed.length > 0 && tx.preTokenBalances.length === 0 && tx.postTokenBalances.length === 0;
  const flags = touch.flags | (sources.has(address) ? NAMED : 0) | (isSilent ? TOUCHED : 0);
  const accounts = new Set([
    ...listed,
    ...touch.accounts.map(({ account }) => encode32(account)),
    ...(touch.isAccount ? [address] : []),
  ]);
  return {
    gathered: {
      signature,
      slot: fetched.block.slot,
      place: fetched.place,
      order: null,
      fetched,
      tx,
      flags,
      accounts: [...accounts],
    },
    owned: touch.accounts,
  };
}

/** Newest first; a missing place is looked up in the block. */
async function inOrder(
  { upstream, ask }: GatherOptions,
  list: readonly GatheredTransaction[],
  listed: readonly string[],
): Promise<readonly GatheredTransaction[]> {
  const slots = new Map<number, string[]>();
  for (const { place, slot, signature } of list)
    if (place === null) slots.set(slot, [...(slots.get(slot) ?? []), signature]);
  const orders = new Map(
    await Promise.all(
      [...slots].map(async ([slot, signatures]) => [slot, await upstream.order(slot, ask, signatures)] as const),
    ),
  );
  for (const one of list) {
    one.order = orders.get(one.slot) ?? null;
    one.place ??= one.order?.get(one.signature) ?? null;
  }
  const rank = new Map(listed.map((signature, at) => [signature, at]));
  return list.toSorted(
    (left, right) =>
      right.slot - left.slot ||
      (left.place === null || right.place === null
        ? (rank.get(left.signature) ?? 0) - (rank.get(right.signature) ?? 0)
        : right.place - left.place),
  );
}

/** The list of one address, newest first, read page by page as it is needed. */
export interface AddressList {
  readonly address: string;
  /** The next entry without taking it; null at the end. */
  peek(): Promise<HistoryEntry | null>;
  /** Takes the entry that `peek` showed. */
  take(): HistoryEntry;
}

interface ListOptions {
  readonly upstream: ChainHistory;
  readonly address: string;
  /** Entries from this slot on are skipped. */
  readonly belowSlot: number;
  /** A signature at or above `belowSlot` after which the list is read; null for its top. */
  readonly before: string | null;
  readonly minSlot?: number;
  readonly ask: HistoryAskOptions;
}

/**
 * A short page is not the end: some nodes return fewer entries. Only a page without new entries is. Nodes order the
 * entries of one slot differently, so the lowest slot of a page is read again with the next page, which may come from another node.
 */
export function createAddressList({ upstream, address, belowSlot, before, minSlot, ask }: ListOptions): AddressList {
  let pending: HistoryEntry[] = [];
  /** Entries that the next page may repeat, with their slots. */
  let taken = new Map<string, number>();
  let at = 0;
  let cursor = before;
  /** A node that has not reached the cursor does not know it, and would answer as at the end of the list. */
  let cursorSlot = -1;
  let lowestSlot = Number.POSITIVE_INFINITY;
  let hasEnded = false;

  async function fill(): Promise<void> {
    while (at >= pending.length && !hasEnded) {
      const from = Math.max(minSlot ?? -1, cursorSlot);
      const isFresh = ({ signature }: HistoryEntry) => !taken.has(signature) && signature !== cursor;
      let page = await upstream
        .signatures(address, { before: cursor, ...(from < 0 ? {} : { minSlot: from }) }, ask)
        .catch((error: unknown) => {
          // A fork took the entry that the list was to go on at. What was taken so far may be gone too: all of it is read again.
          throw cursor !== before && isNotFound(error) ? contradicting() : error;
        });
      if (!page.some(isFresh)) page = await upstream.keptBelow(address, Math.min(belowSlot, lowestSlot), ask);
      const fresh = page.filter(isFresh);
      const last = fresh.at(-1);
      if (last === undefined) hasEnded = true;
      else {
        const next = fresh.findLast(({ slot }) => slot > last.slot) ?? last;
        cursor = next.signature;
        cursorSlot = next.slot;
        lowestSlot = last.slot;
        for (const { signature, slot } of page) taken.set(signature, slot);
        taken = new Map([...taken].filter(([, slot]) => slot <= next.slot));
      }
      pending = fresh.filter(({ slot }) => slot < belowSlot);
      at = 0;
    }
  }

  return {
    address,
    async peek() {
      await fill();
      return pending[at] ?? null;
    },
    take() {
      const entry = pending[at];
      if (entry === undefined) throw new RangeError('the list is exhausted');
      at += 1;
      return entry;
    },
  };
}

/** An empty list, for an address that is already covered. */
export const emptyList = (address: string): AddressList => ({
  address,
  peek: async () => null,
  take() {
    throw new RangeError('the list is exhausted');
  },
});

/** How a transaction relates to a wallet. */
interface Touch {
  readonly flags: number;
  /** Token accounts that the wallet owned before or after it. */
  readonly accounts: readonly OwnedAccount[];
  /** The wallet is a token account itself, whoever owns it: if it ever owned itself, its balance is in all such transactions. */
  readonly isAccount: boolean;
}

/** Derived from the transaction alone: its keys and the owners of its token balances. */
export function touchOf(tx: NormalTransaction, { keys }: Pick<ChainBlock, 'keys'>, wallet: Uint8Array): Touch {
  const id = keys.find(wallet);
  if (id < 0) return { flags: 0, accounts: [], isAccount: false };
  const accounts = new Map<number, OwnedAccount>();
  let isAccount = false;
  for (const { accountIndex, mintKey, ownerKey } of [...tx.preTokenBalances, ...tx.postTokenBalances]) {
    const account = tx.keys[accountIndex];
    isAccount ||= account === id;
    if (ownerKey !== id || mintKey < 0 || account === undefined) continue;
    accounts.set(account, { account: keys.bytes(account).slice(), mint: keys.bytes(mintKey).slice() });
  }
  const hasChanged = accounts.size > 0 && tokenChanges(tx).some(({ owner }) => owner === id);
  return {
    flags: (tx.keys.includes(id) ? NAMED : 0) | (accounts.size > 0 ? TOUCHED : 0) | (hasChanged ? CHANGED : 0),
    accounts: [...accounts.values()],
    isAccount,
  };
}

/** Rows above the stored part of a wallet. */
export interface Overlay {
  /** The wallet is completely known up to this slot; nothing above it is returned. */
  readonly upTo: number;
  /** It has all rows above this slot: those that are stored above it do not count. */
  readonly aboveSlot: number;
  /** Newest first. */
  readonly rows: readonly ViewRow[];
  /** Rows of the wallet's token accounts, by address (base58), newest first. */
  readonly accounts: ReadonlyMap<string, readonly ViewRow[]>;
  /** Mints (base58) of the accounts found. */
  readonly mints: ReadonlyMap<string, Uint8Array>;
}

export interface OverlayParts {
  readonly store: Store;
  readonly upstream: ChainHistory;
  /** Transactions that may still be reverted, by signature. */
  readonly recent: LRUCache<string, FetchedTransaction>;
  readonly commitment: Commitment;
}

export interface OverlayRange {
  /** Exclusive. */
  readonly aboveSlot: number;
  /** At or above it. An upstream that is not above this slot has nothing to add to what is stored. */
  readonly storedTo: number;
  /** Slot that the upstream must have reached. */
  readonly atLeast: number;
}

/** After a reorg it may be in another slot, or in another block of the same slot. */
export function isOfEntry({ block, place }: FetchedTransaction, entry: HistoryEntry): boolean {
  if (block.slot !== entry.slot || block.blockTime !== entry.time) return false;
  if (place !== null && entry.place !== null && place !== entry.place) return false;
  return (block.transactions[0]?.error != null) === entry.hasFailed;
}

/** What a list says of a transaction that was read. */
export const entryOf = ({ n, signature, slot, time, tx }: LoadedRow): HistoryEntry => ({
  signature,
  slot,
  hasFailed: tx.error !== null,
  time,
  place: placeOf(n) < PROVISIONAL_PLACE ? placeOf(n) : null,
});

const PIECE = 200;
/** Transactions that one request reads above the stored ones; beyond this it waits for the index. */
const MAX_GATHERED = 2_000;

/**
 * Reads all lists of a wallet above a slot, up to one common slot: with different ends a response could contain a transaction and lack an
 * older one, which a client that continues after the first would never see. Errors: those of
 * upstream and store; WALLET_BEHIND, retryable; WALLET_NO_TRANSACTION when upstreams contradict each other, retryable; 503 when it is
 * too much for one request.
 */
export async function readOverlay(
  parts: OverlayParts,
  wallet: WalletRow,
  key: Uint8Array,
  { aboveSlot, storedTo, atLeast }: OverlayRange,
  signal: AbortSignal,
): Promise<Overlay> {
  const { upstream, store, recent, commitment } = parts;
  const ask = { commitment, signal };
  const upTo = await upstream.slot(ask);
  if (upTo < atLeast) throw behind();
  if (upTo <= storedTo) return { upTo: storedTo, aboveSlot: storedTo, rows: [], accounts: new Map(), mints: new Map() };
  const gatherer = createGatherer({
    upstream,
    wallet: key,
    address: wallet.address,
    aboveSlot,
    ask,
    openList: (address) =>
      createAddressList({ upstream, address, belowSlot: upTo + 1, before: null, minSlot: upTo, ask }),
    async fetch(signature, _ask, entry) {
      const known = recent.get(signature);
      if (known !== undefined && isOfEntry(known, entry)) return known;
      const fetched = await upstream.transaction(signature, ask);
      if (fetched === null) return null;
      if (fetched.block.slot !== entry.slot) throw contradicting();
      recent.set(signature, fetched);
      return fetched;
    },
  });
  for (const account of await readOwnedAccounts(store.read as WalletDb, wallet.id)) gatherer.add(account);
  for (const account of await upstream.tokenAccounts(wallet.address, { ...ask, minSlot: upTo })) gatherer.add(account);
  const found: GatheredTransaction[] = [];
  for (;;) {
    const piece = await gatherer.next(PIECE);
    if (piece.length === 0) break;
    found.push(...piece);
    if (found.length > MAX_GATHERED) throw beingIndexed(wallet.found);
  }
  checkPlaces(found);
  return overlayOf({ upTo, aboveSlot }, found, new Map([...gatherer.accounts].map(([text, { mint }]) => [text, mint])));
}

/** Nodes order the entries of a slot differently: a page in one order, continued in another, would skip a transaction. */
function checkPlaces(found: readonly GatheredTransaction[]): void {
  found.forEach((one, at) => {
    const isAlone = found[at - 1]?.slot !== one.slot && found[at + 1]?.slot !== one.slot;
    if (one.place === null && !isAlone) throw contradicting();
  });
}

function overlayOf(
  range: Pick<Overlay, 'upTo' | 'aboveSlot'>,
  found: readonly GatheredTransaction[],
  mints: ReadonlyMap<string, Uint8Array>,
): Overlay {
  const rows: ViewRow[] = [];
  const accounts = new Map<string, ViewRow[]>();
  found.forEach((one, at) => {
    // Newest first: a transaction without a place gets a provisional one by rank.
    const n = positionOf(one.slot, one.place ?? PROVISIONAL_PLACE + (found.length - 1 - at));
    const { block } = one.fetched;
    const loaded = { n, signature: one.signature, slot: one.slot, time: block.blockTime, tx: one.tx, block };
    if (one.flags !== 0) rows.push({ n, flags: one.flags, at: loaded });
    for (const account of one.accounts) {
      const list = accounts.get(account) ?? [];
      list.push({ n, flags: ACCOUNT, at: loaded });
      accounts.set(account, list);
    }
  });
  return { ...range, rows, accounts, mints };
}
