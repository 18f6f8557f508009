import { createLru } from '../../src/lib/lru.ts';
import type { ToolAnswer } from './tool.ts';

/** Finished results of lasting answers: to write a page and to count its bytes takes longer than to find it. */
export interface KeptResults {
  /** The result of an answer, for a largest length of answers, which is a setting; made by `make` when it is not kept. */
  resultOf(answer: ToolAnswer, maxAnswerBytes: number, make: () => Buffer): Buffer;
  /** Bytes of all kept ones. */
  readonly bytes: number;
}

/** Keeps at most `maxBytes`. The result that was not asked for the longest goes first. */
export function createKeptResults(maxBytes: number): KeptResults {
  const kept = createLru<ToolAnswer, { readonly maxAnswerBytes: number; readonly result: Buffer }>({
    max: maxBytes,
    sizeCalculation: ({ result }) => result.length,
  });
  return {
    resultOf(answer, maxAnswerBytes, make) {
      const known = kept.get(answer);
      if (known?.maxAnswerBytes === maxAnswerBytes) return known.result;
      const result = make();
      kept.set(answer, { maxAnswerBytes, result });
      return result;
    },
    get bytes() {
      return kept.calculatedSize;
    },
  };
}
