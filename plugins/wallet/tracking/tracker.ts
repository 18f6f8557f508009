import { LRUCache } from 'lru-cache';
import { createLru } from '../../../src/lib/lru.ts';
import type { Caller } from '../../../src/ports/access.ts';
import { createRowReader } from '../store/rows.ts';
import type { WalletRow } from '../store/tables.ts';
import { createWalletReader, isJoined, isSettled, registerWallet, type WalletNow } from '../store/wallets.ts';
import { createRealOrder, createShelf, createView, type ShownPlace, type TrackerParts } from './create-view.ts';
import type { FetchedTransaction } from './upstream.ts';
import type { WalletView } from './view.ts';

/** Opens the histories of wallets. A wallet that is asked for is indexed from then on. */
export interface Tracker {
  /** `key` and its base58. Errors: those of the store, and of the admission of a wallet that is not indexed yet. */
  open(key: Uint8Array, address: string, caller: Caller | null, signal: AbortSignal): Promise<WalletView>;
}

/** How exactly the time of the last request is kept. */
const ASKED_MS = 3_600_000;
const SCHEDULED_MS = 1_000;
const SCHEDULED_KEPT = 10_000;
/** Pairs of project and wallet whose last request is written down. */
const WANTED_KEPT = 20_000;
/** Transactions whose place is remembered as it was shown, before they were final. */
const SHOWN_KEPT = 20_000;

export function createTracker(parts: TrackerParts): Tracker {
  const { store, clock, schedule, admission } = parts;
  // One half for what was fetched, one for what was stored.
  const cacheBytes = Math.ceil(parts.cacheBytes / 2);
  const recent = new LRUCache<string, FetchedTransaction>({
    maxSize: cacheBytes,
    // Text, and what is read from it.
    sizeCalculation: ({ text }) => text.length * 3 + 1_000,
  });
  const shown = new LRUCache<string, ShownPlace>({ max: SHOWN_KEPT });
  const shelf = createShelf(cacheBytes);
  const readWallet = createWalletReader(store);
  const viewParts = {
    ...parts,
    recent,
    shown,
    shelf,
    readWallet,
    readRows: createRowReader(store),
    takeRealOrder: createRealOrder(parts),
  };
  const scheduled = createLru<string, number>({ max: SCHEDULED_KEPT });

  const wanted = createLru<string, number>({ max: WANTED_KEPT });

  /** Whether the caller's project counts as one that wants the wallet. */
  function isWanted(id: number, caller: Caller | null): boolean {
    if (caller === null) return true;
    const last = wanted.get(`${caller.projectId} ${id}`);
    return last !== undefined && clock.monotonic() - last < ASKED_MS;
  }

  /** What is known of the wallet, unless that has changed just now. `isStart`: this call starts its index. */
  async function ensure(
    key: Uint8Array,
    address: string,
    caller: Caller | null,
    signal: AbortSignal,
  ): Promise<{ readonly known: WalletNow | undefined; readonly isStart: boolean }> {
    const now = clock.now();
    const row = await readWallet(address);
    const isKnown =
      row !== undefined && row.is_followed === 1 && row.asked_at > now - ASKED_MS && isWanted(row.id, caller);
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
      if (row === undefined || needsWork(row, now)) await schedule(tx, id);
    });
    if (caller !== null) wanted.set(`${caller.projectId} ${id}`, clock.monotonic());
    return { known: undefined, isStart };
  }

  return {
    async open(key, address, caller, signal) {
      const { known, isStart } = await ensure(key, address, caller, signal);
      return await createView(viewParts, { key, address, known, isStart }, signal);
    },
  };
}

const needsWork = (row: WalletRow, now: number): boolean =>
  row.head === null || !isSettled(row, now) || (row.live_from !== null && !isJoined(row)) || row.is_followed === 0;
