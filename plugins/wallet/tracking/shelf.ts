import { LRUCache } from 'lru-cache';
import type { LoadedTransaction } from './view.ts';

/** Transactions that were read from the store, in memory: their bodies are unpacked and decoded once. */
export interface Shelf {
  /** What is there of these positions, if their transactions still are the ones with these signatures. */
  take(n: number, signature: Uint8Array): LoadedTransaction | null;
  /** For what is final: another fork may put another transaction into its place, or give it another outcome. */
  put(loaded: LoadedTransaction, signature: Uint8Array, textLength: number): void;
}

interface Entry {
  readonly loaded: LoadedTransaction;
  readonly signature: Uint8Array;
  readonly bytes: number;
}

export function createShelf(maxBytes: number): Shelf {
  const entries = new LRUCache<number, Entry>({ maxSize: maxBytes, sizeCalculation: ({ bytes }) => bytes });
  return {
    take(n, signature) {
      const entry = entries.get(n);
      return entry !== undefined && Buffer.compare(entry.signature, signature) === 0 ? entry.loaded : null;
    },
    put(loaded, signature, textLength) {
      // What is decoded takes about twice the room of its text.
      entries.set(loaded.n, { loaded, signature, bytes: textLength * 2 + 1_000 });
    },
  };
}
