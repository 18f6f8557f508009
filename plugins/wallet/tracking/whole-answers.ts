import { LRUCache } from 'lru-cache';
import type { ChainReader, Store } from '../../../src/kernel/plugin.ts';
import type { TokenWords } from '../input/token-words.ts';
import { isFresh } from './is-fresh.ts';

/**
 * Finished answers that follow from the store and the facts of mints. One is good until anything at all is committed, or another fact is
 * known: for many requests for the same page between two commits. Where the engine does not tell its version none is kept.
 */
export interface WholeAnswers {
  /** JSON; undefined when the answer has to be made. */
  find(question: string): Uint8Array | undefined;
  /** Called before anything is read. The returned function keeps what was made of it. */
  begin(question: string): (text: string) => void;
}

export interface WholeAnswersParts {
  readonly store: Store;
  readonly chain: ChainReader | null;
  readonly words: Pick<TokenWords, 'revision'>;
  readonly maxBytes: number;
}

interface Kept {
  readonly bytes: Uint8Array;
  readonly version: number;
  readonly revision: number;
}

const ENTRY_BYTES = 400;
const NOTHING = (): void => undefined;

export function createWholeAnswers({ store, chain, words, maxBytes }: WholeAnswersParts): WholeAnswers {
  const kept = new LRUCache<string, Kept>({
    maxSize: maxBytes,
    sizeCalculation: ({ bytes }, question) => bytes.length + question.length + ENTRY_BYTES,
  });
  return {
    find(question) {
      const one = kept.get(question);
      if (one === undefined || chain === null || !isFresh(chain)) return undefined;
      return one.revision === words.revision() && one.version === store.version() ? one.bytes : undefined;
    },
    begin(question) {
      const version = store.version();
      const revision = words.revision();
      if (version === null) return NOTHING;
      return (text) => void kept.set(question, { bytes: Buffer.from(text), version, revision });
    },
  };
}
