import type { BlockAnswer } from '../../ports/chain.ts';

export interface FetchAhead {
  /** The answer for the next slot, in order; null when all were taken. Rejects with the error of that slot's call. */
  next(): Promise<{ readonly slot: number; readonly answer: BlockAnswer } | null>;
  /** Forgets the rest; calls that run are left to their signal. */
  cancel(): void;
}

/** Asks for blocks in order, at most `ahead` of them before they are taken. */
export function createFetchAhead(
  slots: readonly number[],
  ahead: number,
  ask: (slot: number, signal: AbortSignal) => Promise<BlockAnswer>,
  outer: AbortSignal,
): FetchAhead {
  const stop = new AbortController();
  const signal = AbortSignal.any([outer, stop.signal]);
  const running: { readonly slot: number; readonly answer: Promise<BlockAnswer> }[] = [];
  let asked = 0;

  function fill(): void {
    while (asked < slots.length && running.length < ahead) {
      const slot = slots[asked++] as number;
      const answer = ask(slot, signal);
      // Its error is seen when its turn comes; until then it must not count as unhandled.
      answer.catch(() => {});
      running.push({ slot, answer });
    }
  }

  return {
    async next() {
      fill();
      const first = running.shift();
      if (first === undefined) return null;
      const answer = await first.answer;
      fill();
      return { slot: first.slot, answer };
    },
    cancel() {
      asked = slots.length;
      running.length = 0;
      stop.abort(new Error('not needed any more'));
    },
  };
}
