/** Which upstreams gave a useless or wrong answer for a slot. When all have, everyone is asked anew. */
export interface AvoidList {
  add(slot: number, upstream: string): void;
  of(slot: number): readonly string[];
  /** Whether every upstream was in the list at the last `add`; the list of that slot is then empty again. */
  exhausted(slot: number): boolean;
  forgetUpTo(slot: number): void;
}

export function createAvoidList(upstreamCount: number): AvoidList {
  const bySlot = new Map<number, Set<string>>();
  const exhausted = new Set<number>();
  return {
    add(slot, upstream) {
      const set = bySlot.get(slot) ?? new Set();
      set.add(upstream);
      bySlot.set(slot, set);
      if (set.size < upstreamCount) return;
      bySlot.delete(slot);
      exhausted.add(slot);
    },
    of: (slot) => [...(bySlot.get(slot) ?? [])],
    exhausted: (slot) => exhausted.delete(slot),
    forgetUpTo(slot) {
      for (const known of bySlot.keys()) if (known <= slot) bySlot.delete(known);
      for (const known of exhausted) if (known <= slot) exhausted.delete(known);
    },
  };
}
