import type { BlockHeader } from '../ports/block.ts';

/** A block by the two things that identify it. */
export interface Position {
  readonly slot: number;
  readonly blockhash: string;
}

export const samePosition = (a: Position | null, b: Position | null): boolean =>
  a === null || b === null ? a === b : a.slot === b.slot && a.blockhash === b.blockhash;

export interface Situation {
  /** The last released block; null before the first. */
  readonly cursor: Position | null;
  /** While the cursor is below it, the first block at or above it is accepted although its parent is unknown. */
  readonly floor: number;
  /** The lowest block at hand above the cursor; null for none. */
  readonly next: BlockHeader | null;
}

export type Decision =
  /** Nothing at hand. */
  | { readonly kind: 'wait' }
  /** `next` continues the chain: everything between is proven skipped. */
  | { readonly kind: 'release' }
  /** The block at this slot exists, because `next` names it as its parent, and is missing here. */
  | { readonly kind: 'hole'; readonly slot: number }
  /** `next` and the cursor are on different branches. */
  | { readonly kind: 'fork' };

/** Decides from links alone: no error code and no list of slots can make it release past a block that exists. */
export function decide({ cursor, floor, next }: Situation): Decision {
  if (next === null) return { kind: 'wait' };
  if (cursor === null || cursor.slot < floor) {
    return next.parentSlot < floor || next.slot === 0 ? { kind: 'release' } : { kind: 'hole', slot: next.parentSlot };
  }
  if (next.parentSlot > cursor.slot) return { kind: 'hole', slot: next.parentSlot };
  if (next.parentSlot < cursor.slot || next.previousBlockhash !== cursor.blockhash) return { kind: 'fork' };
  return { kind: 'release' };
}
