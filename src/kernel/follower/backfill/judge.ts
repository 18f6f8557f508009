import type { BlockHeader } from '../../../ports/block.ts';
import { decide, type Position } from '../decide.ts';
import type { GapEnd } from './gap-record.ts';

export interface FillSituation {
  /** The block below the next one: of the gap, or the one that stands below the gap; null when that is not known. */
  readonly cursor: Position | null;
  /** First slot of the gap. */
  readonly fromSlot: number;
  readonly end: GapEnd;
  /** The lowest block at hand above the cursor. */
  readonly next: BlockHeader | null;
  /** The lowest one at hand above `next`. */
  readonly child: BlockHeader | null;
}

export type FillVerdict =
  /** `next` continues the cursor, and what comes after it names it as its parent. */
  | { readonly kind: 'apply' }
  /** The block at this slot exists: another block names it as its parent. */
  | { readonly kind: 'need'; readonly slot: number }
  /** What comes after `next` is not at hand. */
  | { readonly kind: 'child' }
  /** These contradict each other or the cursor. */
  | { readonly kind: 'again'; readonly slots: readonly number[] };

/**
 * Decides from links alone, and one block later than the follower does: nothing that was filled can be taken back, so a block counts
 * only when its child names it.
 */
export function judgeFill({ cursor, fromSlot, end, next, child }: FillSituation): FillVerdict {
  if (next === null) return { kind: 'need', slot: end.parentSlot };
  if (next.slot > end.parentSlot) return { kind: 'again', slots: [next.slot] };
  const decision = decide({ cursor, floor: cursor === null ? fromSlot : 0, next });
  if (decision.kind === 'hole') return { kind: 'need', slot: decision.slot };
  if (decision.kind === 'fork') return { kind: 'again', slots: [next.slot] };
  if (next.slot === end.parentSlot)
    return next.blockhash === end.previousBlockhash ? { kind: 'apply' } : { kind: 'again', slots: [next.slot] };
  if (child === null) return { kind: 'child' };
  if (child.parentSlot > next.slot) return { kind: 'need', slot: child.parentSlot };
  return child.parentSlot === next.slot && child.previousBlockhash === next.blockhash
    ? { kind: 'apply' }
    : { kind: 'again', slots: [next.slot, child.slot] };
}
