import type { SignatureRow } from './transactions.ts';

/** Bounds of a history, all inclusive; null: open. */
export interface Window {
  readonly fromSlot: number | null;
  readonly toSlot: number | null;
  /** Unix seconds. */
  readonly fromTime: number | null;
  readonly toTime: number | null;
}

/** Newer than the window: older ones may still be in it. */
export function isAbove({ slot, blockTime }: SignatureRow, { toSlot, toTime }: Window): boolean {
  return (toSlot !== null && slot > toSlot) || (toTime !== null && blockTime != null && blockTime > toTime);
}

/** Older than the window, and so is everything behind it. */
export function isBelow({ slot, blockTime }: SignatureRow, { fromSlot, fromTime }: Window): boolean {
  return (fromSlot !== null && slot < fromSlot) || (fromTime !== null && blockTime != null && blockTime < fromTime);
}
