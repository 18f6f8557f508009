import type { LRUCache } from 'lru-cache';
import type { Store } from '../../../src/kernel/plugin.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import { readAccounts } from '../store/accounts.ts';
import { ACCOUNT } from '../store/flags.ts';
import { MADE_UP_PLACE, positionOf } from '../store/position.ts';
import type { Db, WalletRow } from '../store/tables.ts';
import { createGatherer, type Gathered } from './gather.ts';
import { createAddressList } from './list.ts';
import { beingIndexed } from './refusals.ts';
import type { FetchedTransaction, WalletUpstream } from './upstream.ts';
import type { ViewRow } from './view.ts';

/** What is above the stored part of a wallet. */
export interface Overlay {
  /** Newest first. */
  readonly rows: readonly ViewRow[];
  /** The same for the wallet's token accounts, by base58. */
  readonly accounts: ReadonlyMap<string, readonly ViewRow[]>;
  /** Mints (base58) of the accounts that showed up. */
  readonly mints: ReadonlyMap<string, Uint8Array>;
}

export interface OverlayParts {
  readonly store: Store;
  readonly upstream: WalletUpstream;
  /** Transactions that may still be taken back, by signature. */
  readonly recent: LRUCache<string, FetchedTransaction>;
  readonly commitment: Commitment;
}

const PIECE = 200;
/** Transactions that one request reads beyond what is stored; with more it waits for the index. */
const MOST = 2_000;

/** Reads everything of a wallet above a slot. Errors: those of upstream and store, 503 when it is too much for one request. */
export async function readOverlay(
  parts: OverlayParts,
  wallet: WalletRow,
  key: Uint8Array,
  aboveSlot: number,
  signal: AbortSignal,
): Promise<Overlay> {
  const { upstream, store, recent, commitment } = parts;
  const ask = { commitment, signal };
  const gatherer = createGatherer({
    ...{ upstream, wallet: key, address: wallet.address, aboveSlot, ask },
    openList: (address) =>
      createAddressList({ upstream, address, belowSlot: Number.MAX_SAFE_INTEGER, before: null, ask }),
    async fetch(signature, _ask, slot) {
      const known = recent.get(signature);
      // After a fork it may stand elsewhere.
      if (known?.block.slot === slot) return known;
      const fetched = await upstream.transaction(signature, ask);
      if (fetched !== null) recent.set(signature, fetched);
      return fetched;
    },
  });
  for (const account of await readAccounts(store.read as Db, wallet.id)) gatherer.add(account);
  for (const account of await upstream.tokenAccounts(wallet.address, ask)) gatherer.add(account);
  const found: Gathered[] = [];
  for (;;) {
    const piece = await gatherer.next(PIECE);
    if (piece.length === 0) break;
    found.push(...piece);
    if (found.length > MOST) throw beingIndexed(wallet.found);
  }
  return overlayOf(found, new Map([...gatherer.accounts].map(([text, { mint }]) => [text, mint])));
}

function overlayOf(found: readonly Gathered[], mints: ReadonlyMap<string, Uint8Array>): Overlay {
  const rows: ViewRow[] = [];
  const accounts = new Map<string, ViewRow[]>();
  found.forEach((one, at) => {
    // Newest first: what has no place of its own keeps its rank.
    const n = positionOf(one.slot, one.place ?? MADE_UP_PLACE + (found.length - 1 - at));
    const { block } = one.fetched;
    const loaded = { n, signature: one.signature, slot: one.slot, time: block.blockTime, tx: one.tx, block };
    if (one.flags !== 0) rows.push({ n, flags: one.flags, at: loaded });
    for (const account of one.accounts) {
      const list = accounts.get(account) ?? [];
      list.push({ n, flags: ACCOUNT, at: loaded });
      accounts.set(account, list);
    }
  });
  return { rows, accounts, mints };
}
