import { LRUCache } from 'lru-cache';
import { createLru } from '../../../src/lib/lru.ts';
import type { ChainReader } from '../../../src/plugin/plugin.ts';
import type { CallContext } from '../../../src/plugin/request.ts';
import { type Caller, tenantOf } from '../../../src/ports/access.ts';
import type { AddressHistory, OpenAddressHistory } from '../../../src/ports/address-history.ts';
import { type RangeState, rangeOf } from '../store/range.ts';
import { createRowReader } from '../store/rows.ts';
import type { WalletRow } from '../store/tables.ts';
import { createWalletReader, forgetPruned, isPastKnown, registerWallet, type WalletNow } from '../store/wallets.ts';
import { refusedAs503 } from '../wallet-route.ts';
import type { FetchedTransaction } from './chain-history.ts';
import { createWalletView, type ShownPlace } from './create-view.ts';
import { createDirectViews, type DirectViews } from './direct-view.ts';
import { createTransactionCache } from './loaded-transactions.ts';
import type { TrackerParts } from './parts.ts';
import { createPlaceResolver } from './provisional-places.ts';
import { isNotIndexed, type LoadedRow, noChain, type PageRange, type ViewRow, type WalletView } from './view.ts';

/** Opens the histories of wallets. A requested wallet is indexed from then on. */
export interface Tracker {
  /** `key` and its base58. Errors: those of the store, and of the admission of a wallet that is not indexed yet. */
  open(key: Uint8Array, address: string, caller: Caller | null, signal: AbortSignal): Promise<WalletView>;
  /** The history of any address, read without an index. */
  readonly direct: DirectViews;
}

/** Resolution of the time of the last request. */
const ASKED_MS = 3_600_000;
const SCHEDULED_MS = 1_000;
const SCHEDULED_KEPT = 10_000;
/** Upstreams are asked for the missing past of a wallet again after this time. */
const LOOK_AGAIN_MS = 5_000;
const WANTED_KEPT = 20_000;
/** Transactions whose returned position is remembered until they are final. */
const SHOWN_KEPT = 20_000;

export function createTracker(parts: TrackerParts): Tracker {
  const { store, clock, schedule, admission } = parts;
  // Half for fetched, half for stored transactions.
  const cacheBytes = Math.ceil(parts.cacheBytes / 2);
  const recent = new LRUCache<string, FetchedTransaction>({
    maxSize: cacheBytes,
    // Text and decoded form.
    sizeCalculation: ({ text }) => text.length * 3 + 1_000,
  });
  const shown = new LRUCache<string, ShownPlace>({ max: SHOWN_KEPT });
  const transactionCache = createTransactionCache(cacheBytes);
  const readWallet = createWalletReader(store);
  const viewParts = {
    ...parts,
    recent,
    shown,
    transactionCache,
    readWallet,
    readRows: createRowReader(store),
    resolvePlaces: createPlaceResolver(parts),
  };
  const scheduled = createLru<string, number>({ max: SCHEDULED_KEPT });

  const wanted = createLru<string, number>({ max: WANTED_KEPT });
  /** When upstreams were asked for what is missing, by address. */
  const looked = createLru<string, number>({ max: WANTED_KEPT });

  /** Whether the caller's project is recorded as using the wallet. */
  function isWanted(id: number, caller: Caller | null): boolean {
    if (caller === null) return true;
    const last = wanted.get(`${caller.projectId} ${id}`);
    return last !== undefined && clock.monotonic() - last < ASKED_MS;
  }

  /** Whether what was missing below a slot is kept here by now, or an upstream has it again. */
  async function isThereAgain(address: string, below: number, signal: AbortSignal): Promise<boolean> {
    if (await parts.upstream.isKept(address, below - 1)) return true;
    const last = looked.get(address);
    if (last !== undefined && clock.monotonic() - last < LOOK_AGAIN_MS) return false;
    looked.set(address, clock.monotonic());
    const missing = await parts.upstream.missingBelow(address, signal).catch(() => below);
    return missing === null || missing < below;
  }

  /** A filled gap, or blocks that were imported: the past of the wallet goes on at once where it ended. */
  async function refilled(row: WalletNow | undefined, signal: AbortSignal): Promise<WalletNow | undefined> {
    const below = row?.pruned_below ?? null;
    if (row === undefined || below === null || row.is_complete === 1) return row;
    if (!(await isThereAgain(row.address, below, signal))) return row;
    await store.write((tx) => forgetPruned(tx, row.id, below));
    return { ...row, pruned_below: null, pruned_at: null };
  }

  /** The row of the wallet, unless it has just changed. `isStart`: this call starts its index. */
  async function ensure(
    key: Uint8Array,
    address: string,
    caller: Caller | null,
    signal: AbortSignal,
  ): Promise<{ readonly known: WalletNow | undefined; readonly isStart: boolean }> {
    const now = clock.now();
    const row = await refilled(await readWallet(address), signal);
    const isKnown =
      row !== undefined && row.is_followed === 1 && row.requested_at > now - ASKED_MS && isWanted(row.id, caller);
    if (isKnown && !needsWork(row, now)) return { known: row, isStart: false };
    const last = scheduled.get(address);
    if (isKnown && last !== undefined && clock.monotonic() - last < SCHEDULED_MS) return { known: row, isStart: false };
    await admission?.check(row, address, caller, signal);
    scheduled.set(address, clock.monotonic());
    const isStart = row === undefined || row.is_followed === 0;
    let id = row?.id;
    await store.write(async (tx) => {
      id = isKnown ? row.id : await registerWallet(tx, { key, address, now });
      if (caller !== null && !isKnown) await admission?.take(tx, id, caller, isStart);
      if (row === undefined || needsWork(row, now)) await schedule(tx, [id]);
    });
    if (caller !== null) wanted.set(`${caller.projectId} ${id}`, clock.monotonic());
    return { known: undefined, isStart };
  }

  return {
    async open(key, address, caller, signal) {
      const { known, isStart } = await ensure(key, address, caller, signal);
      return await createWalletView(viewParts, { key, address, known, isStart }, signal);
    },
    direct: createDirectViews({ ...parts, recent, shown }),
  };
}

/** Nothing is missing above the floor, or no block came yet that shows what is. */
const IDLE: ReadonlySet<RangeState> = new Set(['stored', 'joined']);

const needsWork = (row: WalletRow, now: number): boolean => !IDLE.has(rangeOf(row)) || !isPastKnown(row, now);

/** Opens the history of a wallet for one request. Errors: 503 when nothing can be known; 400 and 429 for wallets that are not admitted. */
export type OpenWallet = (
  key: Uint8Array,
  address: string,
  call: Pick<CallContext, 'caller' | 'signal'>,
) => Promise<WalletView>;

const safe =
  <A extends readonly unknown[], T>(work: (...args: A) => Promise<T>) =>
  (...args: A): Promise<T> =>
    refusedAs503('the history of the wallet', work(...args));

/** Without a chain every call is refused; a refusal of the upstream becomes a 503. */
export function createOpenWallet(chain: ChainReader | null, tracker: Tracker | null): OpenWallet {
  if (chain === null || tracker === null) return () => Promise.reject(noChain());
  return async (key, address, { caller, signal }) => {
    const view = await refusedAs503('the history of the wallet', tracker.open(key, address, caller, signal));
    return {
      ...view,
      page: safe(view.page),
      load: safe(view.load),
      texts: safe(view.texts),
      slotAfter: safe(view.slotAfter),
      locate: safe(view.locate),
      reach: safe(view.reach),
      whole: safe(view.whole),
      accountRows: safe(view.accountRows),
      accountsOf: safe(view.accountsOf),
      slotAt: safe(view.slotAt),
      timeNear: safe(view.timeNear),
    };
  };
}

/** Histories for other plugins: from the index, or without one where the call allows it. */
export function createOpenHistory(openWallet: OpenWallet, tracker: Tracker | null): OpenAddressHistory {
  return async (key, address, { caller, signal, unindexed = 'none' }) => {
    if (tracker === null || unindexed === 'none') return await openWallet(key, address, { caller, signal });
    const openDirect = (): AddressHistory => tracker.direct.open(key, address, { group: tenantOf(signal).id, signal });
    let view: AddressHistory;
    try {
      view = await openWallet(key, address, { caller, signal });
    } catch (error) {
      if (!isNotIndexed(error, unindexed)) throw error;
      view = openDirect();
    }
    const indexed = view;
    /** An index can also be dropped during the call; positions are the same without it. */
    const either = <A extends readonly unknown[], T>(work: (one: AddressHistory, ...args: A) => Promise<T>) =>
      safe(async (...args: A): Promise<T> => {
        try {
          return await work(view, ...args);
        } catch (error) {
          if (view !== indexed || !isNotIndexed(error, unindexed)) throw error;
          view = openDirect();
          return await work(view, ...args);
        }
      });
    return {
      finalSlot: view.finalSlot,
      isStored: () => view.isStored(),
      noteShown: (signature, n) => view.noteShown(signature, n),
      reach: either((one, slot: number) => one.reach(slot)),
      page: either((one, range: PageRange) => one.page(range)),
      load: either((one, rows: readonly ViewRow[]) => one.load(rows)),
      texts: either((one, rows: readonly LoadedRow[]) => one.texts(rows)),
      locate: either((one, signature: string, wanted: 'older' | 'newer') => one.locate(signature, wanted)),
      slotAt: either((one, time: number) => one.slotAt(time)),
      slotAfter: either((one, time: number) => one.slotAfter(time)),
      timeNear: either((one, slot: number) => one.timeNear(slot)),
    };
  };
}
