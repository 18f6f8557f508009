/** A sliding window: at most so many calls in any span of its length, no burst. */
export interface SlidingWindow {
  /** Counts a call at `nowMs`, or tells by false that it would be one too many; then it is not counted. */
  take(nowMs: number): boolean;
}

export function createSlidingWindow(limit: number, lengthMs: number): SlidingWindow {
  const taken: number[] = [];
  return {
    take(nowMs) {
      // A call exactly one length ago is in the same span no more.
      while (taken.length > 0 && nowMs - (taken[0] as number) >= lengthMs) taken.shift();
      if (taken.length >= limit) return false;
      taken.push(nowMs);
      return true;
    },
  };
}
