import type { Digest, Digested, ReadDigests } from './tracking/digests.ts';
import type { PageRange, WalletView } from './tracking/view.ts';

/** Why a walk ended: told to, after as many transactions as allowed, at the end, or where the upstream has nothing more. */
export interface WalkEnd {
  readonly reason: 'stopped' | 'scanned' | 'complete' | 'pruned';
  /** The last one that was visited. */
  readonly last: Digest | null;
  /** The first slot that the upstream has; null where that was not what ended it. */
  readonly prunedBelow: number | null;
}

export interface WalkRange extends Omit<PageRange, 'limit'> {
  /** Transactions that are visited at most. */
  readonly most: number;
  /** How many will be needed, probably. */
  readonly expected: number;
}

/** Pieces in which transactions are read. */
const LEAST_PIECE = 20;
const MOST_PIECE = 200;

/** Visits transactions of a wallet in order until `visit` answers true. Errors: those of the view. */
export async function walkTransactions<D extends Digest>(
  view: WalletView,
  range: WalkRange,
  read: ReadDigests<D>,
  visit: (found: Digested<D>) => boolean,
): Promise<WalkEnd> {
  let { below, above } = range;
  let last: Digest | null = null;
  let scanned = 0;
  let piece = Math.min(MOST_PIECE, Math.max(LEAST_PIECE, range.expected));
  for (;;) {
    const limit = Math.min(piece, range.most - scanned);
    const page = await view.page({ below, above, mask: range.mask, order: range.order, limit: limit + 1 });
    const rows = page.rows.slice(0, limit);
    for (const found of await read(view, rows)) {
      last = found.digest;
      if (visit(found)) return { reason: 'stopped', last, prunedBelow: null };
    }
    scanned += rows.length;
    if (page.rows.length <= limit)
      return { reason: page.prunedBelow === null ? 'complete' : 'pruned', last, prunedBelow: page.prunedBelow };
    if (scanned >= range.most) return { reason: 'scanned', last, prunedBelow: null };
    const edge = rows.at(-1)?.n ?? null;
    if (range.order === 'asc') above = edge;
    else below = edge;
    piece = MOST_PIECE;
  }
}
