/** Walks through the history of an address, one page of a call at a time. */
import { createLru } from '../../src/lib/lru.ts';
import { type ChainReader, RequestError, RpcError } from '../../src/plugin/plugin.ts';
import { tenantOf } from '../../src/ports/access.ts';
import type { OpenAddressWalk, WalkPage } from '../../src/ports/address-history.ts';
import {
  type AddressHistory,
  endOf,
  firstOf,
  type HistoryCall,
  type LoadedRow,
  type OpenAddressHistory,
  PROVISIONAL_PLACE,
  placeOf,
  slotOf,
  type ViewRow,
} from '../../src/ports/address-history.ts';
import { type HistoryCursor, type IntegerBounds, isWithin, positionOfPlace } from './question.ts';

export interface WalkParts {
  readonly open: OpenAddressHistory;
  readonly newestSlot: NewestSlot;
  readonly scanLimit: () => number;
  readonly shown: ShownPlaces;
}

/** The history of an address as far as the commitment of a call goes. */
export interface Reading {
  readonly view: AddressHistory;
  /** The newest final slot. */
  readonly finalSlot: number;
  /** Positions, both exclusive, of what the call may see. */
  readonly above: number;
  readonly below: number;
  /** Position of the transaction that the cursor names, which may lie outside the bounds; null without a cursor. */
  readonly cursorAt: number | null;
}

export interface AddressWalkQuestion {
  readonly key: Uint8Array;
  readonly address: string;
  readonly commitment: 'confirmed' | 'finalized';
  readonly order: 'asc' | 'desc';
  readonly above: number | null;
  readonly below: number | null;
  readonly cursor: HistoryCursor | null;
  readonly blockTime: IntegerBounds | null;
  readonly minContextSlot?: number | null;
}

const EVERYTHING = Number.MAX_SAFE_INTEGER;
/** Block times may go back by this much; further back, blocks are not searched for a time. */
const TIME_SLACK_S = 7_200;

/**
 * Positions that pages ended at, with the signature there, while a fork could still move the transaction: its token then means the
 * transaction, not the place.
 */
export interface ShownPlaces {
  note(n: number, signature: string): void;
  signatureAt(n: number): string | null;
}

const SHOWN_KEPT = 20_000;

export function createShownPlaces(): ShownPlaces {
  const shown = createLru<number, string>({ max: SHOWN_KEPT });
  return {
    note: (n, signature) => void shown.set(n, signature),
    signatureAt: (n) => shown.get(n) ?? null,
  };
}

/** Opens the history of an address for a call. Errors: RequestError and RpcError. */
export async function openReading(
  { open, newestSlot, shown }: WalkParts,
  asked: AddressWalkQuestion,
  call: HistoryCall,
): Promise<Reading> {
  // Before any row is read: a row up to this slot cannot be of a branch that is abandoned later.
  const finalSlot = await newestSlot('finalized', call.signal);
  const newest = asked.commitment === 'finalized' ? finalSlot : null;
  const minSlot = asked.minContextSlot ?? null;
  // A node that is behind lacks what was released since: at that commitment its list would be shorter.
  const contextSlot = newest ?? (await newestSlot('confirmed', call.signal));
  if (minSlot !== null && minSlot > contextSlot) throw new RpcError('minContextSlot', { data: { contextSlot } });
  const view = await open(asked.key, asked.address, call);
  await view.reach(Math.max(finalSlot, contextSlot, minSlot ?? -1));
  const bounds = await boundsOf(view, asked, shown);
  return { view, finalSlot, ...bounds, below: Math.min(bounds.below, newest === null ? EVERYTHING : endOf(newest)) };
}

/** Newest slot of a commitment. What one call was told is final stays final for the next. */
export type NewestSlot = (commitment: AddressWalkQuestion['commitment'], signal: AbortSignal) => Promise<number>;

/**
 * From the follower while it keeps up, else from an upstream, which may know of a later final slot than the follower then hears of. Errors:
 * also 503 for an upstream that is behind what was released, while the follower has found nothing final yet.
 */
export function createNewestSlot(chain: ChainReader): NewestSlot {
  let finalSlot = -1;
  return async (commitment, signal) => {
    const status = chain.status();
    const asked = { signal, tenant: tenantOf(signal) };
    const known = commitment === 'finalized' ? status.finalizedSlot : status.cursorSlot;
    const slot =
      known !== null && keepsUp(status)
        ? known
        : await chain.call<number>('getSlot', [{ commitment }], asked).catch((error: unknown) => {
            // While no upstream answers, what was released is what is known.
            if (known === null || signal.aborted) throw error;
            return known;
          });
    // A node that is behind takes nothing back that was released.
    if (commitment === 'confirmed') return Math.max(slot, known ?? -1);
    if (known === null && status.cursorSlot !== null) {
      const reached = await chain.call<number>('getSlot', [{ commitment: 'confirmed' }], asked);
      if (reached < status.cursorSlot) throw upstreamBehind(reached);
    }
    finalSlot = Math.max(finalSlot, slot);
    return finalSlot;
  };
}

const upstreamBehind = (slot: number): RequestError =>
  new RequestError(503, 'Service unavailable', {
    details: `The Solana upstream is behind: it is only at slot ${slot}`,
    retryAfterS: 1,
  });

/** Whether the follower is only moments behind the chain. */
const keepsUp = ({ stalled, tipSlot, cursorSlot }: ReturnType<ChainReader['status']>): boolean =>
  stalled === null && tipSlot !== null && cursorSlot !== null && tipSlot - cursorSlot <= KEEPS_UP_SLOTS;

const KEEPS_UP_SLOTS = 8;

async function boundsOf(
  view: AddressHistory,
  asked: AddressWalkQuestion,
  shown: ShownPlaces,
): Promise<Pick<Reading, 'above' | 'below' | 'cursorAt'>> {
  let above = asked.above ?? -1;
  let below = asked.below ?? EVERYTHING;
  const { blockTime, order } = asked;
  if (blockTime?.least != null) {
    const before = await view.slotAt(Number(blockTime.least) - TIME_SLACK_S - 1);
    if (before !== null) above = Math.max(above, firstOf(before) - 1);
  }
  if (blockTime?.most != null) {
    const behind = await view.slotAfter(Number(blockTime.most) + TIME_SLACK_S);
    if (behind !== null) below = Math.min(below, endOf(behind));
  }
  if (asked.cursor === null) return { above, below, cursorAt: null };
  const at = await placeOfCursor(view, asked.cursor, order, shown);
  // A transfer of the same transaction may follow.
  const isInside = asked.cursor.kind === 'row' && asked.cursor.row !== Number.POSITIVE_INFINITY;
  if (order === 'asc') above = Math.max(above, isInside ? at - 1 : at);
  else below = Math.min(below, isInside ? at + 1 : at);
  return { above, below, cursorAt: at };
}

async function placeOfCursor(
  view: AddressHistory,
  cursor: HistoryCursor,
  order: 'asc' | 'desc',
  shown: ShownPlaces,
): Promise<number> {
  const wanted = order === 'asc' ? 'newer' : 'older';
  if (cursor.kind === 'signature') return await locateSignature(view, cursor.signature, wanted);
  const n = positionOfPlace(cursor);
  if (cursor.slot <= view.finalSlot) return n;
  const signature = shown.signatureAt(n);
  return (signature === null ? null : await view.locate(signature, wanted)) ?? n;
}

/** Position of any transaction. Errors: -32020 for one that the chain does not have. */
export async function locateSignature(
  view: AddressHistory,
  signature: string,
  wanted: 'older' | 'newer',
): Promise<number> {
  const n = await view.locate(signature, wanted);
  if (n === null) throw new RpcError('transactionNotFound', { message: `Transaction ${signature} not found` });
  return n;
}

/** Why a walk ended: `visit` stopped it, the limit was reached, or nothing is left. */
export interface HistoryWalkEnd {
  readonly reason: 'stopped' | 'scanned' | 'complete';
  /** Position of the last row that was read; null without one. */
  readonly lastN: number | null;
}

const MIN_PIECE = 20;
const MAX_PIECE = 200;

interface WalkRange {
  readonly order: 'asc' | 'desc';
  readonly mask: number;
  readonly most: number;
  readonly expected: number;
}

/**
 * Visits transactions in order until `visit` returns true. Errors: those of the view, and
 * 503 where the upstreams have pruned what would come next and nothing was visited.
 */
export async function walk(
  reading: Reading,
  range: WalkRange,
  visit: (found: LoadedRow) => boolean,
): Promise<HistoryWalkEnd> {
  for await (const { rows, lastN, end } of walkPages(reading, range)) {
    for (const found of rows) if (visit(found)) return { reason: 'stopped', lastN: found.n };
    if (end !== null) return { reason: end, lastN };
  }
  throw new Error('a walk has a last page');
}

/** The pages of a walk; the last one has an `end`. Errors: as `walk`. */
async function* walkPages(
  { view, above: from, below: to }: Reading,
  { order, mask, most, expected }: WalkRange,
): AsyncGenerator<WalkPage> {
  let [above, below] = [from, to];
  let lastN: number | null = null;
  let scanned = 0;
  let piece = Math.min(MAX_PIECE, Math.max(MIN_PIECE, expected));
  for (;;) {
    const limit = Math.min(piece, most - scanned);
    const page = await view.page({ above, below, mask, order, limit: limit + 1 });
    const rows: readonly ViewRow[] = page.rows.slice(0, limit);
    const loaded = await view.load(rows);
    scanned += rows.length;
    lastN = rows.at(-1)?.n ?? lastN;
    const isLast = page.rows.length <= limit;
    if (isLast && page.prunedBelow !== null && lastN === null)
      throw new RequestError(503, 'Incomplete history', {
        details: `The upstream node has no data before slot ${page.prunedBelow}; configure an archive endpoint`,
        retryAfterS: null,
      });
    // What was found before pruned data is a page; the call after it gets the error.
    const isEnd = isLast || scanned >= most;
    yield { rows: loaded, lastN, end: isEnd ? (isLast && page.prunedBelow === null ? 'complete' : 'scanned') : null };
    if (isEnd) return;
    if (order === 'asc') above = lastN!;
    else below = lastN!;
    piece = MAX_PIECE;
  }
}

/** Walks for other plugins. */
export function createOpenWalk(parts: WalkParts): OpenAddressWalk {
  return async (question, call) => {
    const { fromSlot, toSlot, fromTime, toTime, before, after, token } = question;
    const reading = await openReading(
      parts,
      {
        ...question,
        above: fromSlot === null ? null : firstOf(fromSlot) - 1,
        below: toSlot === null ? null : endOf(toSlot),
        cursor: token === null ? null : { kind: 'place', ...token },
        blockTime:
          fromTime === null && toTime === null
            ? null
            : {
                least: fromTime === null ? null : BigInt(fromTime),
                most: toTime === null ? null : BigInt(toTime),
              },
      },
      call,
    );
    const newer = after === null ? reading.above : await locateSignature(reading.view, after, 'newer');
    const older = before === null ? reading.below : await locateSignature(reading.view, before, 'older');
    const range = { above: Math.max(reading.above, newer), below: Math.min(reading.below, older) };
    return {
      pages: (wanted) => walkPages({ ...reading, ...range }, { ...wanted, order: question.order }),
      placeText(n, shown) {
        if (shown !== undefined) {
          parts.shown.note(n, shown);
          reading.view.noteShown(shown, n);
        }
        return placeText(n);
      },
      placeOf: exactPlace,
      texts: (rows) => reading.view.texts(rows),
    };
  };
}

export function isInTime(time: number | null, bounds: IntegerBounds | null): boolean {
  return bounds === null || (time !== null && isWithin(BigInt(time), bounds));
}

/** `slot:place`, as in tokens. Errors: as `exactPlace`. */
export const placeText = (n: number): string => `${slotOf(n)}:${exactPlace(n)}`;

/** The place in the block. Errors: 503 while no upstream has the order of the block. */
export function exactPlace(n: number): number {
  const place = placeOf(n);
  if (place < PROVISIONAL_PLACE) return place;
  throw new RequestError(503, 'Service unavailable', {
    details: `No upstream has the block of slot ${slotOf(n)}, so the place of a transaction in it is unknown`,
  });
}
