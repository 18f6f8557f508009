import { lowerBound, type Segment } from './segment.ts';

/** Where a block stands: in which file, and at which place of its lists. */
export interface SegmentPlace {
  readonly segment: Segment;
  readonly at: number;
}

/**
 * Which blocks the files have. A later file replaces an earlier one, and its cuts apply to it. `trustedTo`: slots above it are unknown; everything
 * is asked again at each look, because a writer adds to the files.
 */
export class KeptSlots {
  private readonly segments: () => readonly Segment[];
  private readonly trustedTo: () => number;

  constructor(segments: () => readonly Segment[], trustedTo: () => number = () => Number.MAX_SAFE_INTEGER) {
    this.segments = segments;
    this.trustedTo = trustedTo;
  }

  get finalSlot(): number {
    return Math.min(finalSlotOf(this.segments()), this.trustedTo());
  }

  find(slot: number): SegmentPlace | null {
    if (slot > this.trustedTo()) return null;
    const all = this.segments();
    for (let number = all.length - 1; number >= 0; number--) {
      const segment = all[number]!;
      const { slots } = segment;
      if (slots.length > 0 && slot >= slots[0]! && slot <= slots.at(-1)!) {
        const at = lowerBound(slots, slot);
        if (slots[at] === slot) return { segment, at };
      }
      if (segment.cutTo < slot) return null;
    }
    return null;
  }

  /** -1: none. */
  newest(atMost = Number.MAX_SAFE_INTEGER): number {
    const all = this.segments();
    let found = -1;
    let limit = Math.min(atMost, this.trustedTo());
    for (let number = all.length - 1; number >= 0; number--) {
      const { slots, cutTo } = all[number]!;
      found = Math.max(found, slots[lowerBound(slots, limit + 1) - 1] ?? -1);
      limit = Math.min(limit, cutTo);
    }
    return found;
  }

  /** Blocks that were written out of order end the run early, which is safe. */
  firstOfRun(): number {
    const all = this.segments();
    let lowest = -1;
    let parent: number | null = null;
    let limit = this.trustedTo();
    for (let number = all.length - 1; number >= 0; number--) {
      const { slots, parents, cutTo } = all[number]!;
      for (let at = lowerBound(slots, limit + 1) - 1; at >= 0; at--) {
        if (parent !== null && slots[at] !== parent) return lowest;
        lowest = slots[at]!;
        parent = parents[at]!;
      }
      limit = Math.min(limit, cutTo);
    }
    return lowest;
  }

  state(slot: number): 'block' | 'skipped' | 'unknown' {
    if (this.find(slot) !== null) return 'block';
    const next = this.above(slot);
    return next !== null && next.parent < slot ? 'skipped' : 'unknown';
  }

  /** The slots of a range that have a block, and those of which nothing is known. */
  states(from: number, to: number): { readonly blocks: number[]; readonly unknown: number[] } {
    const blocks: number[] = [];
    const unknown: number[] = [];
    for (let slot = from; slot <= to; slot++) {
      const is = this.state(slot);
      if (is === 'block') blocks.push(slot);
      else if (is === 'unknown') unknown.push(slot);
    }
    return { blocks, unknown };
  }

  /** The files, newest first, and the slots of each from the newest valid one down. */
  *filesDown() {
    let limit = this.trustedTo();
    for (const segment of this.segments().toReversed()) {
      const { slots, number, outOfOrder, isComplete } = segment;
      yield { number, outOfOrder, isComplete, slots: downFrom(slots, lowerBound(slots, limit + 1)) };
      limit = Math.min(limit, segment.cutTo);
    }
  }

  /** The lowest known block above a slot. */
  private above(slot: number): { readonly slot: number; readonly parent: number } | null {
    const all = this.segments();
    let found: { slot: number; parent: number } | null = null;
    let limit = this.trustedTo();
    for (let number = all.length - 1; number >= 0; number--) {
      const { slots, parents, cutTo } = all[number]!;
      const at = lowerBound(slots, slot + 1);
      const lowest = slots[at];
      if (lowest !== undefined && lowest <= limit && lowest < (found?.slot ?? Number.POSITIVE_INFINITY))
        found = { slot: lowest, parent: parents[at]! };
      limit = Math.min(limit, cutTo);
    }
    return found;
  }
}

/** The newest slot that the files know to be final; -1: none. */
export const finalSlotOf = (segments: readonly Segment[]): number =>
  segments.reduce((slot, each) => Math.max(Math.min(slot, each.cutTo), each.finalSlot), -1);

/** The first items of a list, in reverse order. */
function* downFrom(slots: readonly number[], count: number): Generator<number> {
  for (let at = count - 1; at >= 0; at--) yield slots[at]!;
}
