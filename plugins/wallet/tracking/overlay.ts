import type { LRUCache } from 'lru-cache';
import { CodedError, type Store } from '../../../src/plugin/plugin.ts';
import type { Commitment } from '../../../src/ports/chain.ts';
import { ACCOUNT, type Db, MADE_UP_PLACE, positionOf, type WalletRow } from '../store/tables.ts';
import { readAccounts } from '../store/wallets.ts';
import { createAddressList, createGatherer, type Gathered } from './gather.ts';
import type { FetchedTransaction, WalletUpstream } from './upstream.ts';
import { beingIndexed, type ViewRow } from './view.ts';

/** What is above the stored part of a wallet. */
export interface Overlay {
  /** Everything of the wallet up to this slot is known, and nothing above it is shown. */
  readonly upTo: number;
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

export interface OverlayRange {
  /** Exclusive. */
  readonly aboveSlot: number;
  /** The upstream must have come to this slot. */
  readonly atLeast: number;
}

const PIECE = 200;
/** Transactions that one request reads beyond what is stored; with more it waits for the index. */
const MOST = 2_000;

/**
 * Reads everything of a wallet above a slot, from all its lists up to one and the same slot: lists that end at different slots would show
 * a transaction and lack an older one, and whoever asks for what is newer than the first would never see the second. Errors: those of
 * upstream and store; WALLET_BEHIND, retryable; WALLET_NO_TRANSACTION where upstreams contradict each other, retryable; 503 when it is
 * too much for one request.
 */
export async function readOverlay(
  parts: OverlayParts,
  wallet: WalletRow,
  key: Uint8Array,
  { aboveSlot, atLeast }: OverlayRange,
  signal: AbortSignal,
): Promise<Overlay> {
  const { upstream, store, recent, commitment } = parts;
  const ask = { commitment, signal };
  const upTo = await upstream.slot(ask);
  if (upTo < atLeast) throw behind();
  if (upTo <= aboveSlot) return { upTo: aboveSlot, rows: [], accounts: new Map(), mints: new Map() };
  const gatherer = createGatherer({
    ...{ upstream, wallet: key, address: wallet.address, aboveSlot, ask },
    openList: (address) =>
      createAddressList({ upstream, address, belowSlot: upTo + 1, before: null, minSlot: upTo, ask }),
    async fetch(signature, _ask, slot) {
      const known = recent.get(signature);
      // After a fork it may stand elsewhere.
      if (known?.block.slot === slot) return known;
      const fetched = await upstream.transaction(signature, ask);
      if (fetched === null) return null;
      if (fetched.block.slot !== slot) throw contradicting();
      recent.set(signature, fetched);
      return fetched;
    },
  });
  for (const account of await readAccounts(store.read as Db, wallet.id)) gatherer.add(account);
  for (const account of await upstream.tokenAccounts(wallet.address, { ...ask, minSlot: upTo })) gatherer.add(account);
  const found: Gathered[] = [];
  for (;;) {
    const piece = await gatherer.next(PIECE);
    if (piece.length === 0) break;
    found.push(...piece);
    if (found.length > MOST) throw beingIndexed(wallet.found);
  }
  checkPlaces(found);
  return overlayOf(upTo, found, new Map([...gatherer.accounts].map(([text, { mint }]) => [text, mint])));
}

const behind = (): CodedError =>
  new CodedError('WALLET_BEHIND', 'the upstream has not come to a slot that was shown already', { retryable: true });

const contradicting = (): CodedError =>
  new CodedError('WALLET_NO_TRANSACTION', 'upstreams do not agree about the slot of a transaction', {
    retryable: true,
  });

/** Lists order a slot as they like. Shown in one order and continued in another, a transaction would be passed over. */
function checkPlaces(found: readonly Gathered[]): void {
  found.forEach((one, at) => {
    const isAlone = found[at - 1]?.slot !== one.slot && found[at + 1]?.slot !== one.slot;
    if (one.place === null && !isAlone) throw contradicting();
  });
}

function overlayOf(upTo: number, found: readonly Gathered[], mints: ReadonlyMap<string, Uint8Array>): Overlay {
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
  return { upTo, rows, accounts, mints };
}
