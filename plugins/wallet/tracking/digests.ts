import { LRUCache } from 'lru-cache';
import { slotOf } from '../store/position.ts';
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

interface Entry {
  readonly digest: Digest;
  readonly bytes: number;
}

const ENTRY_BYTES = 300;

export function createDigests(maxBytes: number): Digests {
  const entries = new LRUCache<string, Entry>({ maxSize: maxBytes, sizeCalculation: ({ bytes }) => bytes });
  return {
    of<D extends Digest>(kind: DigestKind<D>): ReadDigests<D> {
      return async (view, rows) => {
        const isFinal = ({ n, at }: ViewRow) => at === undefined && slotOf(n) <= view.finalSlot;
        const keyOf = ({ n }: ViewRow) => `${kind.name}${view.id}:${n}`;
        const known = rows.map((row) =>
          isFinal(row) ? (entries.get(keyOf(row))?.digest as D | undefined) : undefined,
        );
        const unknown = rows.filter((_, at) => known[at] === undefined);
        const made = new Map<number, D>();
        for (const loaded of unknown.length === 0 ? [] : await view.load(unknown))
          made.set(loaded.n, kind.make(loaded, view));
        for (const row of unknown) {
          const digest = isFinal(row) ? made.get(row.n) : undefined;
          if (digest !== undefined) entries.set(keyOf(row), { digest, bytes: ENTRY_BYTES + kind.bytesOf(digest) });
        }
        return rows.flatMap((row, at) => {
          const digest = known[at] ?? made.get(row.n);
          return digest === undefined ? [] : [{ row, digest }];
        });
      };
    },
  };
}
