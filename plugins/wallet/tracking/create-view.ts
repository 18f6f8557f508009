import { LRUCache } from 'lru-cache';
import { decode, decode32, encode32, encode64 } from '../../../src/lib/base58.ts';
import { parseExact } from '../../../src/lib/json.ts';
import { createLru } from '../../../src/lib/lru.ts';
import { type ChainReader, type Clock, CodedError, type Store } from '../../../src/plugin/plugin.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import { decodeTransaction } from '../../../src/solana/decode/decode-block.ts';
import type { WalletConfig } from '../config.ts';
import { type ReadRows, unite } from '../store/rows.ts';
import {
  ACCOUNT,
  CHANGED,
  type Db,
  endOf,
  firstOf,
  type HistoryRow,
  NAMED,
  PROVISIONAL_PLACE,
  placeOf,
  positionOf,
  readKeyNumbers,
  slotOf,
} from '../store/tables.ts';
import {
  findPlaces,
  findSignature,
  placeFromOrder,
  readBodies,
  readSignatures,
  slotAfterTime,
  slotAtTime,
} from '../store/transactions.ts';
import { isJoined, isPastKnown, readAccounts, type WalletNow } from '../store/wallets.ts';
import type { WalletAdmission } from './admission.ts';
import type { ChainHistory, FetchedTransaction } from './chain-history.ts';
import { entryOf, isOfEntry, type Overlay, readOverlay, touchOf } from './gather.ts';
import { behind, createPatience } from './patience.ts';
import type { Schedule } from './upkeep.ts';
import {
  beingIndexed,
  incompleteHistory,
  isFresh,
  type Loaded,
  type LoadedTransaction,
  type PageRange,
  refusedNow,
  type ViewPage,
  type ViewRow,
  type WalletView,
} from './view.ts';

interface ViewParts extends TrackerParts {
  readonly recent: LRUCache<string, FetchedTransaction>;
  /** Positions at which transactions were last returned, while a reorg could still move them. */
  readonly shown: LRUCache<string, ShownPlace>;
  readonly transactionCache: TransactionCache;
  readonly readWallet: (address: string) => Promise<WalletNow | undefined>;
  readonly readRows: ReadRows;
  /** True when rows have moved and must be read again. */
  readonly resolvePlaces: ReturnType<typeof createPlaceResolver>;
}

const POLL_MS = 40;
const EVERYTHING = Number.MAX_SAFE_INTEGER;
/** Number of transactions above the stored part from which on they are stored. */
const LONG_OVERLAY = 50;

/** Position at which a response contained a transaction. Above `finalSlot` a reorg may have changed everything since. */
export interface ShownPlace {
  readonly slot: number;
  readonly finalSlot: number;
}

/** The stored range of a wallet. */
interface Covered {
  readonly row: WalletNow;
  /** Positions, both exclusive. */
  readonly above: number;
  readonly below: number;
  readonly isPastKnown: boolean;
}

/** `known`: the wallet's row if it was just read. `isStart`: this call starts the index and is charged for it. */
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
    const liveSlot = isJoined(row) ? row.live_slot : null;
    isAboveRead = liveSlot === null || liveSlot < atLeast || !isFresh(chain.status(), liveSlot);
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
    isStored: () => !isAboveRead,
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

const NOTHING: Omit<Overlay, 'upTo'> = {
  aboveSlot: Number.MAX_SAFE_INTEGER,
  rows: [],
  accounts: new Map(),
  mints: new Map(),
};

/** Null before the first step. */
function coveredOf(row: WalletNow, now: number): Covered | null {
  if (row.head === null || row.floor === null) return null;
  return {
    row,
    above: row.is_complete === 1 ? -1 : firstOf(row.floor) - 1,
    // Above the covered range rows may be incomplete.
    below: endOf(isJoined(row) ? Math.max(row.head, row.live_slot ?? row.head) : row.head),
    isPastKnown: isPastKnown(row, now),
  };
}

interface LoadParts {
  readonly store: Store;
  readonly upstream: ChainHistory;
  readonly commitment: Commitment;
  readonly transactionCache: TransactionCache;
  /** Stored rows up to this slot are final. */
  readonly finalSlot: number;
  readonly signal: AbortSignal;
}

/**
 * The transactions of rows of a wallet and its accounts, in their order. Omits transactions that a reorg removed, and rows of
 * another address with the same number. Errors: those of store and upstream.
 */
async function loadRows(parts: LoadParts, wallet: Uint8Array, rows: readonly ViewRow[]): Promise<Loaded[]> {
  const stored = await loadStored(
    parts,
    rows.filter(({ at }) => at === undefined).map(({ n }) => n),
  );
  const loaded = rows.map(({ n, flags, at = stored.get(n) }) => (at === undefined ? null : { ...at, flags }));
  // Readers of balances filter rows of token accounts themselves; old transactions name no owner.
  const isOwn = ({ flags, tx, block }: Loaded) =>
    (flags & (NAMED | CHANGED)) === 0 || touchOf(tx, block, wallet).flags !== 0 || (flags & ACCOUNT) !== 0;
  return loaded.filter((one): one is Loaded => one !== null && isOwn(one));
}

/** From memory, from the store, or from the upstream when only the position is stored. */
async function loadStored(parts: LoadParts, ns: readonly number[]): Promise<ReadonlyMap<number, LoadedTransaction>> {
  const db = parts.store.read as Db;
  const signatures = await readSignatures(db, ns);
  const found = new Map<number, LoadedTransaction>();
  for (const [n, signature] of signatures) {
    const known = parts.transactionCache.take(n, signature);
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
    if (text !== null && loaded.slot <= parts.finalSlot) parts.transactionCache.put(loaded, signature, text.length);
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
      : decodeTransaction(parseExact(text));
  const tx = block?.transactions[0];
  if (block === undefined || tx === undefined) throw noTransaction();
  return { n, signature, slot: block.slot, time: block.blockTime, tx, block };
}

const noTransaction = (): CodedError =>
  new CodedError('WALLET_NO_TRANSACTION', 'an upstream lists a transaction that no upstream has', { retryable: true });

/**
 * Whether a stored body is what the node sent. Those of blocks were once stored without some members, and their large numbers were
 * rounded when the block was decoded.
 */
const isWhole = (text: string): boolean =>
  /"transaction":\s*\[/.test(text) || (text.includes('"status":') && !/[:,[]-?\d{16}/.test(text));

/** A block that no upstream had is requested again after this time. */
const ASK_AGAIN_MS = 10_000;
const REMEMBERED = 10_000;

interface PlaceResolverParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly upstream: ChainHistory;
}

/**
 * Rows with provisional positions (no upstream had their block) may be in a wrong order within their slot. Asks for the order
 * again; true when it arrived and the rows must be read again. Never rejects: a wrong order is better than no response.
 */
export function createPlaceResolver({ store, clock, upstream }: PlaceResolverParts) {
  const missing = createLru<number, number>({ max: REMEMBERED });

  async function take(slot: number, signal: AbortSignal): Promise<boolean> {
    const since = missing.get(slot);
    if (since !== undefined && clock.monotonic() - since < ASK_AGAIN_MS) return false;
    missing.set(slot, clock.monotonic());
    const order = await upstream.order(slot, { commitment: 'finalized', signal });
    if (order === null) return false;
    await store.write((tx) => placeFromOrder(tx, slot, order));
    return true;
  }

  return async (rows: readonly HistoryRow[], signal: AbortSignal): Promise<boolean> => {
    const slots = new Set(rows.filter(({ n }) => placeOf(n) >= PROVISIONAL_PLACE).map(({ n }) => slotOf(n)));
    if (slots.size === 0) return false;
    const taken = await Promise.allSettled([...slots].map((slot) => take(slot, signal)));
    return taken.some((one) => one.status === 'fulfilled' && one.value);
  };
}

/** Decoded transactions from the store, in memory. */
interface TransactionCache {
  /** The cached transaction at a position, if it still has this signature. */
  take(n: number, signature: Uint8Array): LoadedTransaction | null;
  /** For final transactions only: a reorg may replace a transaction or change its outcome. */
  put(loaded: LoadedTransaction, signature: Uint8Array, textLength: number): void;
}

interface CachedTransaction {
  readonly loaded: LoadedTransaction;
  readonly signature: Uint8Array;
  readonly bytes: number;
}

export function createTransactionCache(maxBytes: number): TransactionCache {
  const entries = new LRUCache<number, CachedTransaction>({ maxSize: maxBytes, sizeCalculation: ({ bytes }) => bytes });
  return {
    take(n, signature) {
      const entry = entries.get(n);
      return entry !== undefined && Buffer.compare(entry.signature, signature) === 0 ? entry.loaded : null;
    },
    put(loaded, signature, textLength) {
      // The decoded form takes about twice the size of its text.
      entries.set(loaded.n, { loaded, signature, bytes: textLength * 2 + 1_000 });
    },
  };
}

/** Sources of wallet histories. */
export interface TrackerParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly chain: ChainReader;
  readonly upstream: ChainHistory;
  readonly schedule: Schedule;
  /** Null: every address may be indexed. */
  readonly admission: WalletAdmission | null;
  readonly commitment: Commitment;
  readonly config: Pick<WalletConfig, 'readThroughMs'>;
  readonly cacheBytes: number;
}
