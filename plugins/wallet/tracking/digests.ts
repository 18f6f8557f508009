import { LRUCache } from 'lru-cache';
import { endOf } from '../store/tables.ts';
import type { Loaded, ViewRow, WalletView } from './view.ts';

/** What an answer tells of a transaction. It follows from the transaction and the wallet alone, so it holds as long as that stands. */
export interface Digest {
  /** base58 */
  readonly signature: string;
}

export interface DigestKind<D extends Digest> {
  /** Tells kinds apart. */
  readonly name: string;
  make(loaded: Loaded, view: WalletView): D;
  /** Room that it takes in memory, about. */
  bytesOf(digest: D): number;
}

export interface Digested<D extends Digest> {
  readonly row: ViewRow;
  readonly digest: D;
}

/** In the order of the rows, without those that `load` of the view leaves out. Errors: those of the view. */
export type ReadDigests<D extends Digest> = (
  view: WalletView,
  rows: readonly ViewRow[],
) => Promise<readonly Digested<D>[]>;

/** Digests in memory. Only what is final is kept: a fork may put another transaction into its place, or give it another outcome. */
export interface Digests {
  of<D extends Digest>(kind: DigestKind<D>): ReadDigests<D>;
}

/** Those of one kind for one wallet, by position. */
interface Kept {
  readonly digests: Map<number, Digest>;
  readonly bytes: number;
}

const ENTRY_BYTES = 300;
/** Part of the room that one wallet may take. */
const SHARE = 1 / 4;

export function createDigests(maxBytes: number): Digests {
  const wallets = new LRUCache<string, Kept>({ maxSize: maxBytes, sizeCalculation: ({ bytes }) => bytes });

  function keep<D extends Digest>(
    kind: DigestKind<D>,
    name: string,
    rows: readonly ViewRow[],
    made: ReadonlyMap<number, D>,
  ): void {
    if (rows.length === 0) return;
    const bytesOf = (digest: Digest | undefined) =>
      digest === undefined ? 0 : ENTRY_BYTES + kind.bytesOf(digest as D);
    const { digests, bytes: before } = wallets.get(name) ?? { digests: new Map<number, Digest>(), bytes: ENTRY_BYTES };
    let bytes = before;
    for (const { n } of rows) {
      const digest = made.get(n);
      if (digest === undefined) continue;
      bytes += bytesOf(digest) - bytesOf(digests.get(n));
      digests.set(n, digest);
    }
    for (const [n, digest] of digests) {
      if (bytes <= maxBytes * SHARE) break;
      bytes -= bytesOf(digest);
      digests.delete(n);
    }
    wallets.set(name, { digests, bytes });
  }

  return {
    of<D extends Digest>(kind: DigestKind<D>): ReadDigests<D> {
      return async (view, rows) => {
        const name = `${kind.name}${view.id}`;
        const end = endOf(view.finalSlot);
        const isFinal = ({ n, at }: ViewRow) => at === undefined && n < end;
        const kept = wallets.get(name)?.digests as ReadonlyMap<number, D> | undefined;
        const found = rows.map((row) => ({ row, digest: isFinal(row) ? kept?.get(row.n) : undefined }));
        const unknown = found.filter(({ digest }) => digest === undefined).map(({ row }) => row);
        if (unknown.length === 0) return found as Digested<D>[];
        const made = new Map((await view.load(unknown)).map((loaded) => [loaded.n, kind.make(loaded, view)]));
        keep(kind, name, unknown.filter(isFinal), made);
        return found.flatMap(({ row, digest = made.get(row.n) }) => (digest === undefined ? [] : [{ row, digest }]));
      };
    },
  };
}
