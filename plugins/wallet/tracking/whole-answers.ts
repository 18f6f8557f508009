import { LRUCache } from 'lru-cache';
import { msOfSlots } from '../../../src/lib/chain-lag.ts';
import type { ChainReader, Store } from '../../../src/plugin/plugin.ts';
import type { ChainStatus } from '../../../src/ports/chain.ts';
import type { TokenWords } from '../token-words.ts';

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

interface WholeAnswersParts {
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
      if (one === undefined || chain === null) return undefined;
      const status = chain.status();
      if (!isFresh(status, status.cursorSlot)) return undefined;
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

/** How far the blocks may be behind the chain before the upstream is asked as well. */
const FRESH_MS = 2_000;

/** Whether what came with the blocks up to a slot is all that there is, but for the last moments. */
export function isFresh(status: ChainStatus, slot: number | null): boolean {
  const { tipSlot, stalled, slotMs } = status;
  return stalled === null && tipSlot !== null && slot !== null && msOfSlots(tipSlot - slot, slotMs) <= FRESH_MS;
}
