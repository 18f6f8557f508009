import { LRUCache } from 'lru-cache';
import { endOf } from '../store/tables.ts';
import type { LoadedRow, PageRange, ViewRow, WalletView } from './view.ts';

/** A response row derived from a transaction and a wallet alone, so it is valid as long as the transaction is. */
export interface DerivedRow {
  /** base58 */
  readonly signature: string;
}

export interface DerivedKind<D extends DerivedRow> {
  /** Unique among kinds. */
  readonly name: string;
  make(loaded: LoadedRow, view: WalletView): D;
  /** Approximate size in memory. */
  bytesOf(derived: D): number;
}

export interface WithDerived<D extends DerivedRow> {
  readonly row: ViewRow;
  readonly derived: D;
}

/** In the order of the rows, without those that `load` of the view omits. Errors: those of the view. */
export type ReadDerived<D extends DerivedRow> = (
  view: WalletView,
  rows: readonly ViewRow[],
) => Promise<readonly WithDerived<D>[]>;

/** Derived rows in memory. Only final ones are cached: a reorg may replace a transaction or change its outcome. */
export interface DerivedRows {
  of<D extends DerivedRow>(kind: DerivedKind<D>): ReadDerived<D>;
}

/** Rows of one kind for one wallet, by position. */
interface CachedRows {
  readonly derivedRows: Map<number, DerivedRow>;
  readonly bytes: number;
}

const ENTRY_BYTES = 300;
/** Largest share of the memory for one wallet. */
const SHARE = 1 / 4;

export function createDerivedRows(maxBytes: number): DerivedRows {
  const wallets = new LRUCache<string, CachedRows>({ maxSize: maxBytes, sizeCalculation: ({ bytes }) => bytes });

  function keep<D extends DerivedRow>(
    kind: DerivedKind<D>,
    name: string,
    rows: readonly ViewRow[],
    made: ReadonlyMap<number, D>,
  ): void {
    if (rows.length === 0) return;
    const bytesOf = (derived: DerivedRow | undefined) =>
      derived === undefined ? 0 : ENTRY_BYTES + kind.bytesOf(derived as D);
    const { derivedRows, bytes: before } = wallets.get(name) ?? {
      derivedRows: new Map<number, DerivedRow>(),
      bytes: ENTRY_BYTES,
    };
    let bytes = before;
    for (const { n } of rows) {
      const derived = made.get(n);
      if (derived === undefined) continue;
      bytes += bytesOf(derived) - bytesOf(derivedRows.get(n));
      derivedRows.set(n, derived);
    }
    for (const [n, derived] of derivedRows) {
      if (bytes <= maxBytes * SHARE) break;
      bytes -= bytesOf(derived);
      derivedRows.delete(n);
    }
    wallets.set(name, { derivedRows, bytes });
  }

  return {
    of<D extends DerivedRow>(kind: DerivedKind<D>): ReadDerived<D> {
      return async (view, rows) => {
        const name = `${kind.name}${view.id}`;
        const end = endOf(view.finalSlot);
        const isFinal = ({ n, at }: ViewRow) => at === undefined && n < end;
        const kept = wallets.get(name)?.derivedRows as ReadonlyMap<number, D> | undefined;
        const found = rows.map((row) => ({ row, derived: isFinal(row) ? kept?.get(row.n) : undefined }));
        const unknown = found.filter(({ derived }) => derived === undefined).map(({ row }) => row);
        if (unknown.length === 0) return found as WithDerived<D>[];
        const made = new Map((await view.load(unknown)).map((loaded) => [loaded.n, kind.make(loaded, view)]));
        keep(kind, name, unknown.filter(isFinal), made);
        return found.flatMap(({ row, derived = made.get(row.n) }) => (derived === undefined ? [] : [{ row, derived }]));
      };
    },
  };
}

/** Why a walk ended: `visit` stopped it, the limit was reached, the history ended, or the upstream is pruned. */
export interface WalkEnd {
  readonly reason: 'stopped' | 'scanned' | 'complete' | 'pruned';
  /** The last visited row. */
  readonly last: DerivedRow | null;
  /** The first slot of the upstream, if that ended the walk; else null. */
  readonly prunedBelow: number | null;
}

export interface WalkRange extends Omit<PageRange, 'limit'> {
  /** Maximum number of visited transactions. */
  readonly most: number;
  /** Estimated number of transactions needed. */
  readonly expected: number;
}

/** Pieces in which transactions are read. */
const MIN_PIECE = 20;
const MAX_PIECE = 200;

/** Visits transactions of a wallet in order until `visit` returns true. Errors: those of the view. */
export async function walkTransactions<D extends DerivedRow>(
  view: WalletView,
  range: WalkRange,
  read: ReadDerived<D>,
  visit: (found: WithDerived<D>) => boolean,
): Promise<WalkEnd> {
  let { below, above } = range;
  let last: DerivedRow | null = null;
  let scanned = 0;
  let piece = Math.min(MAX_PIECE, Math.max(MIN_PIECE, range.expected));
  for (;;) {
    const limit = Math.min(piece, range.most - scanned);
    const page = await view.page({ below, above, mask: range.mask, order: range.order, limit: limit + 1 });
    const rows = page.rows.slice(0, limit);
    for (const found of await read(view, rows)) {
      last = found.derived;
      if (visit(found)) return { reason: 'stopped', last, prunedBelow: null };
    }
    scanned += rows.length;
    if (page.rows.length <= limit)
      return { reason: page.prunedBelow === null ? 'complete' : 'pruned', last, prunedBelow: page.prunedBelow };
    if (scanned >= range.most) return { reason: 'scanned', last, prunedBelow: null };
    const edge = rows.at(-1)?.n ?? null;
    if (range.order === 'asc') above = edge;
    else below = edge;
    piece = MAX_PIECE;
  }
}
