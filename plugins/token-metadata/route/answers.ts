import { LRUCache } from 'lru-cache';
import type { Clock } from '../../../src/ports/clock.ts';

/** Finished elements of answers, as JSON text: of a mint, with or without its document. */
export interface Answers {
  get(mint: string, withDocument: boolean): string | undefined;
  /** Counts until a time of the monotonic clock. */
  set(mint: string, withDocument: boolean, text: string, untilMs: number): void;
  drop(mints: readonly string[]): void;
}

const ENTRY_BYTES = 200;

export function createAnswers(clock: Clock, cacheBytes: number): Answers {
  const cache = new LRUCache<string, string>({
    maxSize: cacheBytes,
    sizeCalculation: (text) => text.length + ENTRY_BYTES,
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  });
  const keyOf = (mint: string, withDocument: boolean): string => (withDocument ? `+${mint}` : mint);
  return {
    get: (mint, withDocument) => cache.get(keyOf(mint, withDocument)),
    set(mint, withDocument, text, untilMs) {
      const ttl = untilMs - clock.monotonic();
      if (ttl > 0) cache.set(keyOf(mint, withDocument), text, { ttl });
    },
    drop(mints) {
      for (const mint of mints) for (const withDocument of [false, true]) cache.delete(keyOf(mint, withDocument));
    },
  };
}
