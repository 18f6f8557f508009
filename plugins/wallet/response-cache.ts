import { LRUCache } from 'lru-cache';
import type { ChainReader, Store } from '../../src/plugin/plugin.ts';
import type { MintFactsReader } from './token-facts.ts';
import { isFresh } from './tracking/view.ts';

/**
 * Finished responses that depend only on the store and the facts of mints. One is valid until the next commit or the next change of
 * facts: it serves repeated requests for a page between two commits. Without a store version nothing is kept.
 */
export interface ResponseCache {
  /** JSON; undefined on a miss. */
  find(question: string): Uint8Array | undefined;
  /** Called before any read. The returned function stores the response. */
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
