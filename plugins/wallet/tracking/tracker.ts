import { LRUCache } from 'lru-cache';
import { createLru } from '../../../src/lib/lru.ts';
import { createRowReader } from '../store/rows.ts';
import type { WalletRow } from '../store/tables.ts';
import { createWalletReader, isJoined, isSettled, registerWallet, type WalletNow } from '../store/wallets.ts';
import { createView } from './create-view.ts';
import { createRealOrder } from './real-order.ts';
import { createShelf } from './shelf.ts';
import type { TrackerParts } from './tracker-parts.ts';
import type { FetchedTransaction } from './upstream.ts';
import type { WalletView } from './view.ts';

/** Opens the histories of wallets. A wallet that is asked for is indexed from then on. */
export interface Tracker {
  /** `key` and its base58. Errors: those of the store. */
  open(key: Uint8Array, address: string, signal: AbortSignal): Promise<WalletView>;
}

/** How exactly the time of the last request is kept. */
const ASKED_MS = 3_600_000;
const SCHEDULED_MS = 1_000;
const SCHEDULED_KEPT = 10_000;

export function createTracker(parts: TrackerParts): Tracker {
  const { store, clock, schedule } = parts;
  // One half for what was fetched, one for what was stored.
  const cacheBytes = Math.ceil(parts.cacheBytes / 2);
  const recent = new LRUCache<string, FetchedTransaction>({
    maxSize: cacheBytes,
    // Text, and what is read from it.
    sizeCalculation: ({ text }) => text.length * 3 + 1_000,
  });
  const shelf = createShelf(cacheBytes);
  const readWallet = createWalletReader(store);
  const viewParts = {
    ...parts,
    recent,
    shelf,
    readWallet,
    readRows: createRowReader(store),
    takeRealOrder: createRealOrder(parts),
  };
  const scheduled = createLru<string, number>({ max: SCHEDULED_KEPT });

  /** What is known of the wallet, unless that has changed just now. */
  async function ensure(key: Uint8Array, address: string): Promise<WalletNow | undefined> {
    const now = clock.now();
    const row = await readWallet(address);
    const isKnown = row !== undefined && row.is_followed === 1 && row.asked_at > now - ASKED_MS;
    if (isKnown && !needsWork(row, now)) return row;
    const last = scheduled.get(address);
    if (isKnown && last !== undefined && clock.monotonic() - last < SCHEDULED_MS) return row;
    scheduled.set(address, clock.monotonic());
    await store.write(async (tx) => {
      const id = isKnown ? row.id : await registerWallet(tx, { key, address, now });
      if (row === undefined || needsWork(row, now)) await schedule(tx, id);
    });
    return undefined;
  }

  return {
    async open(key, address, signal) {
      const known = await ensure(key, address);
      return await createView(viewParts, { key, address, known }, signal);
    },
  };
}

const needsWork = (row: WalletRow, now: number): boolean =>
  row.head === null || !isSettled(row, now) || (row.live_from !== null && !isJoined(row)) || row.is_followed === 0;
