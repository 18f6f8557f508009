import { LRUCache } from 'lru-cache';
import { decode, decode32, encode32, encode64 } from '../../../src/lib/base58.ts';
import { createLru } from '../../../src/lib/lru.ts';
import { type ChainReader, type Clock, CodedError, type Store } from '../../../src/plugin/plugin.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import { type ReadRows, unite } from '../store/rows.ts';
import {
  ACCOUNT,
  CHANGED,
  type Db,
  endOf,
  firstOf,
  type HistoryRow,
  MADE_UP_PLACE,
  NAMED,
  placeOf,
  positionOf,
  readKeyNumbers,
  slotOf,
} from '../store/tables.ts';
import {
  findPlaces,
  findSignature,
  readBodies,
  readSignatures,
  slotAtTime,
  takeOrder,
  timeBefore,
} from '../store/transactions.ts';
import { isJoined, isSettled, readAccounts, type WalletNow } from '../store/wallets.ts';
import type { WalletAdmission } from './admission.ts';
import { touchOf } from './gather.ts';
import { type Overlay, readOverlay } from './overlay.ts';
import type { Schedule } from './upkeep.ts';
import type { FetchedTransaction, WalletUpstream } from './upstream.ts';
import {
  beingIndexed,
  incompleteHistory,
  type Loaded,
  type LoadedTransaction,
  type PageRange,
  refusedNow,
  upstreamBehind,
  type ViewPage,
  type ViewRow,
  type WalletView,
} from './view.ts';
import { isFresh } from './whole-answers.ts';

interface ViewParts extends TrackerParts {
  readonly recent: LRUCache<string, FetchedTransaction>;
  /** Where transactions were shown last, while a fork could still move them. */
  readonly shown: LRUCache<string, ShownPlace>;
  readonly shelf: Shelf;
  readonly readWallet: (address: string) => Promise<WalletNow | undefined>;
  readonly readRows: ReadRows;
  /** Whether rows have to be read again, because they stand elsewhere now. */
  readonly takeRealOrder: ReturnType<typeof createRealOrder>;
}

const POLL_MS = 40;
const AGAIN_MS = 200;
const EVERYTHING = Number.MAX_SAFE_INTEGER;
/** Transactions above the stored part at which it is time to store them. */
const LONG_OVERLAY = 50;

/** Where an answer showed a transaction. Above `finalSlot` a fork may have changed everything since. */
export interface ShownPlace {
  readonly slot: number;
  readonly finalSlot: number;
}

/** What of a wallet is there. */
interface Covered {
  readonly row: WalletNow;
  /** Positions, both exclusive. */
  readonly above: number;
  readonly below: number;
  readonly isSettled: boolean;
}

/** `known`: what was read of the wallet just now, if it was. `isStart`: its index starts with this call, which is charged for it. */
export async function createView(
  parts: ViewParts,
  {
    key,
    address,
    known,
    isStart,
  }: {
    readonly key: Uint8Array;
    readonly address: string;
    readonly known: WalletNow | undefined;
    readonly isStart: boolean;
  },
  signal: AbortSignal,
): Promise<WalletView> {
  const { store, clock, chain, readRows, readWallet } = parts;
  const db = store.read as Db;
  const deadlineMs = clock.monotonic() + parts.readThroughMs;
  // Before anything is read that it is about: what becomes final later may be another transaction than was read.
  const finalSlot = chain.status().finalizedSlot ?? -1;
  let overlay: Promise<Overlay> | null = null;
  let isAboveRead = false;
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
      if (clock.monotonic() >= deadlineMs) throw beingIndexed(row?.found ?? 0, isStart);
      if (row !== undefined && row.refused !== null) throw refusedNow(row);
      await clock.sleep(POLL_MS, signal);
    }
  }

  /** Reads what is above the stored part, up to `atLeast`; nothing where the blocks are close enough. */
  async function openOverlay(row: WalletNow, atLeast: number): Promise<Overlay> {
    const liveSlot = isJoined(row) ? row.live_slot : null;
    isAboveRead = liveSlot === null || liveSlot < atLeast || !isFresh(chain.status(), liveSlot);
    if (!isAboveRead) return { ...NOTHING, upTo: liveSlot as number };
    const isLive = liveSlot !== null;
    const aboveSlot = liveSlot ?? (row.head as number);
    const found = await patiently(() => readOverlay(parts, row, key, { aboveSlot, atLeast }, signal));
    if ((await parts.upstream.firstSlot(signal)) > aboveSlot + 1) {
      // The upstream has lost a part of it meanwhile: the index has to begin anew above that.
      await store.write((tx) => parts.schedule(tx, row.id));
      throw beingIndexed(row.found);
    }
    if (!isLive && found.rows.length > LONG_OVERLAY) await store.write((tx) => parts.schedule(tx, row.id));
    return found;
  }

  /** Upstreams that are behind, or on different branches, agree within moments mostly. Errors: 503 when they do not in time. */
  async function patiently<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isDisagreement(error)) throw error;
        if (clock.monotonic() + AGAIN_MS >= deadlineMs) throw isBehind(error) ? upstreamBehind() : error;
        await clock.sleep(AGAIN_MS, signal);
      }
    }
  }

  /** Everything above the stored part as it was when the request first looked. */
  const above = (row: WalletNow): Promise<Overlay> => {
    overlay ??= openOverlay(row, -1);
    return overlay;
  };

  /** Goes on only when everything up to a slot is known: below a place nothing may be missing. Errors: 503. */
  async function reach(slot: number): Promise<void> {
    if (slot <= (await above(first)).upTo) return;
    const row = await until(async (covered) => covered.row);
    overlay = openOverlay(row, slot);
    await overlay;
  }

  /** Rows without those of transactions that were read above: after a fork that the index has yet to hear of they are stored elsewhere too. */
  async function withoutMoved(stored: readonly HistoryRow[], read: readonly ViewRow[]): Promise<readonly HistoryRow[]> {
    const signatures = read.flatMap(({ at }) => (at === undefined ? [] : [decode(at.signature) as Uint8Array]));
    if (stored.length === 0 || signatures.length === 0) return stored;
    const places = new Set([...(await findPlaces(db, signatures)).values()].flat());
    return stored.filter(({ n }) => !places.has(n));
  }

  const first = await until(async ({ row }) => row);
  await above(first);
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

  async function locate(signature: string, wanted: 'older' | 'newer'): Promise<number | null> {
    const bytes = decode(signature);
    if (bytes === null) return null;
    const n = await placeNow(signature, bytes);
    if (wanted === 'older') {
      if (n !== null) await reach(slotOf(n));
      return n;
    }
    // A fork moved it, or took it away: what came into the other branch has not been seen.
    const shown = parts.shown.get(signature);
    if (shown === undefined || (n !== null && slotOf(n) === shown.slot)) return n;
    // Not to be found while the upstream is behind it.
    if (n === null && (await above(first)).upTo < shown.slot) return endOf(shown.slot) - 1;
    return Math.min(n ?? EVERYTHING, endOf(shown.finalSlot) - 1);
  }

  async function placeNow(signature: string, bytes: Uint8Array): Promise<number | null> {
    // First what was read above: what is stored may be where it stood before a fork.
    const fresh = (await above(first)).rows.find(({ at }) => at?.signature === signature);
    if (fresh !== undefined) return fresh.n;
    const known = await findSignature(db, bytes);
    if (known !== null) return known;
    const ask = { commitment: parts.commitment, signal };
    const fetched = await parts.upstream.transaction(signature, ask);
    if (fetched === null) return null;
    const { slot } = fetched.block;
    const place = fetched.place ?? (await parts.upstream.order(slot, ask, [signature]))?.get(signature);
    if (place !== undefined) return positionOf(slot, place);
    // Nobody tells the place: then it is what the stored list of the wallet makes of it.
    await until(async ({ row, isSettled }) => isSettled || slot >= (row.floor as number) || null);
    return (await findSignature(db, bytes)) ?? positionOf(slot, MADE_UP_PLACE);
  }

  return {
    ...{ key, address, id: first.id, finalSlot, page, locate, reach },
    isStored: () => !isAboveRead,
    noteShown(signature, n) {
      const slot = slotOf(n);
      if (slot > finalSlot) parts.shown.set(signature, { slot, finalSlot });
    },
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
      const { rows, accounts } = await above(first);
      const read = [...rows, ...[...accounts.values()].flat()];
      const slots = read.flatMap(({ at }) => (at?.time != null && at.time <= time ? [at.slot] : []));
      return slots.reduce<number | null>((newest, slot) => Math.max(newest ?? slot, slot), stored);
    },
    async timeNear(slot) {
      return (await parts.upstream.blockTime(slot, signal)) ?? (await timeBefore(db, slot));
    },
  };
}

const NOTHING: Omit<Overlay, 'upTo'> = { rows: [], accounts: new Map(), mints: new Map() };

/** The node's error code for a slot that it has not come to. */
const MIN_CONTEXT_SLOT = -32016;

const isBehind = (error: unknown): boolean =>
  error instanceof CodedError &&
  (error.code === 'WALLET_BEHIND' || (error.code === 'CHAIN_RPC_ERROR' && error.facts['rpcCode'] === MIN_CONTEXT_SLOT));

const isDisagreement = (error: unknown): boolean =>
  isBehind(error) || (error instanceof CodedError && error.code === 'WALLET_NO_TRANSACTION');

/** Null before the first step. */
function coveredOf(row: WalletNow, now: number): Covered | null {
  if (row.head === null || row.floor === null) return null;
  return {
    row,
    above: row.is_complete === 1 ? -1 : firstOf(row.floor) - 1,
    // Above what is covered, by the past or by blocks, rows may be stored in part.
    below: endOf(isJoined(row) ? Math.max(row.head, row.live_slot ?? row.head) : row.head),
    isSettled: isSettled(row, now),
  };
}

interface LoadParts {
  readonly store: Store;
  readonly upstream: WalletUpstream;
  readonly commitment: Commitment;
  readonly shelf: Shelf;
  /** What is stored up to this slot stands for ever. */
  readonly finalSlot: number;
  readonly signal: AbortSignal;
}

/**
 * The transactions of rows of a wallet and its accounts, in their order. What a fork took away meanwhile is left out, and so are rows of
 * another address with the same number. Errors: those of store and upstream.
 */
async function loadRows(parts: LoadParts, wallet: Uint8Array, rows: readonly ViewRow[]): Promise<Loaded[]> {
  const stored = await loadStored(
    parts,
    rows.filter(({ at }) => at === undefined).map(({ n }) => n),
  );
  const loaded = rows.map(({ n, flags, at = stored.get(n) }) => (at === undefined ? null : { ...at, flags }));
  // Rows of token accounts are told apart by whoever reads their balances; those of old transactions name no owner.
  const isOwn = ({ flags, tx, block }: Loaded) =>
    (flags & (NAMED | CHANGED)) === 0 || touchOf(tx, block, wallet).flags !== 0 || (flags & ACCOUNT) !== 0;
  return loaded.filter((one): one is Loaded => one !== null && isOwn(one));
}

/** From memory, from the store, or where only the place of one is kept from the upstream. */
async function loadStored(parts: LoadParts, ns: readonly number[]): Promise<ReadonlyMap<number, LoadedTransaction>> {
  const db = parts.store.read as Db;
  const signatures = await readSignatures(db, ns);
  const found = new Map<number, LoadedTransaction>();
  for (const [n, signature] of signatures) {
    const known = parts.shelf.take(n, signature);
    if (known !== null) found.set(n, known);
  }
  const unread = [...signatures].filter(([n]) => !found.has(n));
  const bodies = await readBodies(
    db,
    unread.map(([n]) => n),
  );
  const read = async ([n, signature]: [number, Uint8Array]) => {
    const text = bodies.get(n) ?? null;
    const loaded = await readOne(parts, { n, signature: encode64(signature), text });
    found.set(n, loaded);
    if (text !== null && loaded.slot <= parts.finalSlot) parts.shelf.put(loaded, signature, text.length);
  };
  await Promise.all(unread.map(read));
  return found;
}

async function readOne(
  { upstream, commitment, signal }: LoadParts,
  { n, signature, text }: { readonly n: number; readonly signature: string; readonly text: string | null },
): Promise<LoadedTransaction> {
  const block =
    text === null
      ? (await upstream.transaction(signature, { commitment, signal }))?.block
      : decodeTransaction(JSON.parse(text));
  const tx = block?.transactions[0];
  if (block === undefined || tx === undefined)
    throw new CodedError('WALLET_NO_TRANSACTION', 'an upstream lists a transaction that no upstream has', {
      retryable: true,
    });
  return { n, signature, slot: block.slot, time: block.blockTime, tx, block };
}

/** A block that no upstream had is asked for again after this time. */
const ASK_AGAIN_MS = 10_000;
const REMEMBERED = 10_000;

interface RealOrderParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly upstream: WalletUpstream;
}

/**
 * Rows whose places were made up, because no upstream had their block, may stand in a wrong order within their slot. Asks for it once
 * more; true where it came and the rows have to be read again. Never rejects: such an order is better than no answer.
 */
export function createRealOrder({ store, clock, upstream }: RealOrderParts) {
  const missing = createLru<number, number>({ max: REMEMBERED });

  async function take(slot: number, signal: AbortSignal): Promise<boolean> {
    const since = missing.get(slot);
    if (since !== undefined && clock.monotonic() - since < ASK_AGAIN_MS) return false;
    missing.set(slot, clock.monotonic());
    const order = await upstream.order(slot, { commitment: 'finalized', signal });
    if (order === null) return false;
    await store.write((tx) => takeOrder(tx, slot, order));
    return true;
  }

  return async (rows: readonly HistoryRow[], signal: AbortSignal): Promise<boolean> => {
    const slots = new Set(rows.filter(({ n }) => placeOf(n) >= MADE_UP_PLACE).map(({ n }) => slotOf(n)));
    if (slots.size === 0) return false;
    const taken = await Promise.allSettled([...slots].map((slot) => take(slot, signal)));
    return taken.some((one) => one.status === 'fulfilled' && one.value);
  };
}

/** Transactions that were read from the store, in memory: their bodies are unpacked and decoded once. */
interface Shelf {
  /** What is there of these positions, if their transactions still are the ones with these signatures. */
  take(n: number, signature: Uint8Array): LoadedTransaction | null;
  /** For what is final: another fork may put another transaction into its place, or give it another outcome. */
  put(loaded: LoadedTransaction, signature: Uint8Array, textLength: number): void;
}

interface Entry {
  readonly loaded: LoadedTransaction;
  readonly signature: Uint8Array;
  readonly bytes: number;
}

export function createShelf(maxBytes: number): Shelf {
  const entries = new LRUCache<number, Entry>({ maxSize: maxBytes, sizeCalculation: ({ bytes }) => bytes });
  return {
    take(n, signature) {
      const entry = entries.get(n);
      return entry !== undefined && Buffer.compare(entry.signature, signature) === 0 ? entry.loaded : null;
    },
    put(loaded, signature, textLength) {
      // What is decoded takes about twice the room of its text.
      entries.set(loaded.n, { loaded, signature, bytes: textLength * 2 + 1_000 });
    },
  };
}

/** What histories of wallets are read from. */
export interface TrackerParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly chain: ChainReader;
  readonly upstream: WalletUpstream;
  readonly schedule: Schedule;
  /** Null: every address may be indexed. */
  readonly admission: WalletAdmission | null;
  readonly commitment: Commitment;
  readonly readThroughMs: number;
  readonly cacheBytes: number;
}
