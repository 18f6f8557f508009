import type { Clock } from '../../../src/plugin/plugin.ts';

/** The least rate at which a client must read what is waiting for it. */
export interface ReadingLimits {
  /** 0: none. */
  readonly minReadBytesPerSecond: number;
  readonly readWindowMs: number;
}

/** Bytes since the call began. */
interface Progress {
  readonly queued: number;
  readonly sent: number;
  /** Nothing more is queued: another limit is for what is left. */
  readonly isEnding: boolean;
}

/** Looks at what is waiting, per window of the reading rate. */
const LOOKS = 3;

/**
 * Watches whether a client takes enough of what is waiting, over a whole window. Who has taken what waited at the last look keeps up, also when
 * something new waits at each: a ping can be written in the same turn as every look. Returns what ends it.
 */
export function watchReading(
  clock: Clock,
  { minReadBytesPerSecond, readWindowMs }: ReadingLimits,
  parts: { readonly progress: () => Progress; readonly tooSlow: () => void },
): () => void {
  if (minReadBytesPerSecond <= 0) return () => undefined;
  let slow: { readonly sinceMs: number; readonly sentBefore: number } | null = null;
  let queuedBefore = 0;
  /** Monotonic milliseconds of the next look. */
  let lookDueMs = clock.monotonic();
  let cancel = (): void => undefined;

  function look(): void {
    const { queued, sent, isEnding } = parts.progress();
    const now = clock.monotonic();
    // While the process did not run, nothing left it: that is not the time of its reader.
    const lateMs = Math.max(0, now - lookDueMs);
    const waitMs = Math.ceil(readWindowMs / LOOKS);
    lookDueMs = now + waitMs;
    cancel = clock.timeout(waitMs, look);
    const keepsUp = sent >= queuedBefore;
    queuedBefore = queued;
    if (keepsUp || isEnding) slow = null;
    else if (slow === null) slow = { sinceMs: now, sentBefore: sent };
    else {
      slow = { sinceMs: slow.sinceMs + lateMs, sentBefore: slow.sentBefore };
      if (now - slow.sinceMs < readWindowMs) return;
      const rate = ((sent - slow.sentBefore) * 1_000) / (now - slow.sinceMs);
      if (rate < minReadBytesPerSecond) parts.tooSlow();
      slow = { sinceMs: now, sentBefore: sent };
    }
  }

  look();
  return () => cancel();
}
