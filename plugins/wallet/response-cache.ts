import { LRUCache } from 'lru-cache';
import type { ChainReader, Store } from '../../src/plugin/plugin.ts';
import type { MintFactsReader } from './token-facts.ts';
import { isFresh } from './tracking/view.ts';

/**
 * Finished answers that follow from the store and the facts of mints. One is good until anything at all is committed, or another fact is
 * known: for many requests for the same page between two commits. Where the engine does not tell its version none is kept.
 */
export interface ResponseCache {
  /** JSON; undefined when the answer has to be made. */
  find(question: string): Uint8Array | undefined;
  /** Called before anything is read. The returned function keeps what was made of it. */
  begin(question: string): (text: string) => void;
}

interface ResponseCacheParts {
  readonly store: Store;
  readonly chain: ChainReader | null;
  readonly mintFacts: Pick<MintFactsReader, 'revision'>;
  readonly maxBytes: number;
}

interface Kept {
  readonly bytes: Uint8Array;
  readonly version: number;
  readonly revision: number;
}

const ENTRY_BYTES = 400;
const NOTHING = (): void => undefined;

export function createResponseCache({ store, chain, mintFacts, maxBytes }: ResponseCacheParts): ResponseCache {
  const kept = new LRUCache<string, Kept>({
    maxSize: maxBytes,
    sizeCalculation: ({ bytes }, question) => bytes.length + question.length + ENTRY_BYTES,
  });
  return {
    find(question) {
      const one = kept.get(question);
      if (one === undefined || chain === null) return undefined;
      const status = chain.status();
      if (!isFresh(status, status.cursorSlot)) return undefined;
      return one.revision === mintFacts.revision() && one.version === store.version() ? one.bytes : undefined;
    },
    begin(question) {
      const version = store.version();
      const revision = mintFacts.revision();
      if (version === null) return NOTHING;
      return (text) => void kept.set(question, { bytes: Buffer.from(text), version, revision });
    },
  };
}
