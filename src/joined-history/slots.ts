import type { Tenant } from '../ports/access.ts';
import {
  ceilingOf,
  type Heads,
  type ListEnd,
  type PastReader,
  type SlotList,
  type SlotQuery,
} from '../ports/ledger.ts';
import { Contradiction, type Joined, MAX_LAG_SLOTS, missingAt, PASS_ON } from './ends.ts';
import type { SlotAsker, UpstreamSide } from './upstream.ts';

/** Slots of one call of an upstream. */
const MAX_SLOTS = 500_000;
/** Slots that a list with a limit looks through beyond twice the limit. */
const EXTRA_SLOTS = 1_000;

interface SlotListParts {
  readonly past: PastReader;
  readonly upstream: UpstreamSide;
  readonly heads: (tenant: Tenant) => Promise<Heads>;
}

/** Lists of the slots that have a block. Errors: Contradiction. */
export function createSlotLists({ past, upstream, heads }: SlotListParts) {
  async function join({ from, to, limit, commitment, tenant }: SlotQuery): Promise<Joined<SlotList>> {
    const now = await heads(tenant);
    const ceiling = ceilingOf(now, commitment);
    const end = Math.min(to, ceiling);
    const behind = ceiling < 0 ? await upstream.behindHeld(now.newestSlot) : null;
    if (behind !== null)
      return { list: { slots: [], end: missingAt(end + 1, `the upstream is only at slot ${behind}`) } };
    if ((await past.newestBelow(end)) < 0) {
      // All of it is below what is held: a node that has not come so far would cut it.
      const theirs = end < from ? null : await upstream.tip(commitment);
      if (theirs === null || theirs >= end) return PASS_ON;
      return { list: { slots: [], end: missingAt(end + 1, `the upstream is only at slot ${theirs}`) } };
    }
    if (ceiling < from) return await slotsOfUpstream(from, tenant);
    const found: number[] = [];
    let ending: ListEnd = { kind: 'bounded' };
    // A list with a limit looks no further than it has to.
    for (let low = from; low <= end && found.length < limit; ) {
      const high = Math.min(end, low + 2 * Math.min(limit - found.length, MAX_SLOTS) + EXTRA_SLOTS);
      const part = await slotsOfRange(low, high, { commitment, tenant });
      if (part.end.kind === 'missing') return { list: { slots: found, end: part.end } };
      if (part.end.kind === 'pruned') ending = part.end;
      for (const slot of part.slots) found.push(slot);
      low = high + 1;
    }
    const theirs = found.length < limit && to > ceiling ? await upstream.tipNow(commitment) : null;
    if (theirs === null || theirs.slot <= ceiling) return { list: { slots: found.slice(0, limit), end: ending } };
    const asker = { commitment, tenant, only: theirs.by };
    const top = await slotsAbove(now.finalSlot, Math.min(to, theirs.slot), asker);
    if (top === null) {
      if (theirs.slot - ceiling > MAX_LAG_SLOTS)
        return {
          list: { slots: [], end: missingAt(theirs.slot, `no upstream gives the blocks above slot ${ceiling}`) },
        };
      // A node that sees no newer slots answers the same.
      return { list: { slots: found.slice(0, limit), end: ending } };
    }
    // What is not final is of one branch: that of the upstream, which is ahead.
    const slots = [...found.filter((slot) => slot <= now.finalSlot), ...top.filter((slot) => slot >= from)];
    const newest = top.at(-1) ?? -1;
    if (newest < ceiling && found.some((slot) => slot > newest)) throw new Contradiction();
    return { list: { slots: slots.slice(0, limit), end: ending } };
  }

  /** A list above all that is held: that of the upstream, unless it begins above the start of the list. */
  async function slotsOfUpstream(from: number, tenant: Tenant): Promise<Joined<SlotList>> {
    const start = upstream.beginsBelow(from) ? null : await upstream.firstSlot(tenant);
    if (start === null || start <= from) return PASS_ON;
    return { list: { slots: [], end: missingAt(start, `nobody has all blocks from slot ${from} on`) } };
  }

  /**
   * Above the final slot, as an upstream has it; null where it does not say. Its list begins with the newest final block that is held, so that
   * none is missing between them. Errors: Contradiction.
   */
  async function slotsAbove(finalSlot: number, to: number, asker: SlotAsker): Promise<readonly number[] | null> {
    const anchor = await past.newestBelow(finalSlot);
    const asked = anchor < 0 ? null : await upstream.askSlots(anchor, Math.min(to, anchor + MAX_SLOTS), asker);
    if (asked?.kind !== 'answered' || asked.value.length === 0) return null;
    if (asked.value[0] !== anchor) throw new Contradiction();
    return asked.value.slice(1);
  }

  /** A range up to the newest held block; what is unknown in it comes from the upstream. */
  async function slotsOfRange(from: number, to: number, asker: SlotAsker): Promise<SlotList> {
    const { blocks, unknown } = await past.states(from, to);
    const found = [...blocks];
    let end: ListEnd = { kind: 'bounded' };
    for (const [low, high] of rangesOf(unknown)) {
      const above = blocks.includes(high + 1) ? await past.header(high + 1) : null;
      if (above?.blockHeight === 0) continue;
      // Without a held block above, a node that is behind ends its list early. Its tip is asked for first: it only moves on.
      const theirs = above === null ? await upstream.tipNow(asker.commitment) : null;
      const asked = await upstream.askSlots(low, high + 1, { ...asker, only: theirs?.by });
      const isBehind = above === null && (theirs?.slot ?? -1) < high;
      if (asked.kind === 'answered' && isBehind && !asked.value.includes(high + 1))
        return { slots: [], end: missingAt(high + 1, `the upstream is behind slot ${high}`) };
      const start = await upstream.startOf(asked, asker.tenant);
      const isHeldBelow = (await past.newestBelow(low - 1)) >= 0;
      if (start === null || (start > low && isHeldBelow) || (start <= high && asked.kind !== 'answered'))
        return { slots: [], end: missingAt(high + 1, `nobody gives all blocks of slots ${low} to ${high}`) };
      if (asked.kind === 'answered') {
        // The upstream has the block above the range too, or is on another fork.
        if (above !== null && start <= high + 1 && !asked.value.includes(high + 1)) throw new Contradiction();
        for (const slot of asked.value) if (slot <= high) found.push(slot);
      }
      if (start > low) end = { kind: 'pruned', slot: Math.min(start, high + 1) };
    }
    return { slots: found.sort((a, b) => a - b), end };
  }

  return join;
}

/** Runs of consecutive slots, ascending. */
function rangesOf(slots: readonly number[]): readonly (readonly [from: number, to: number])[] {
  const found: [number, number][] = [];
  for (const slot of slots) {
    const last = found.at(-1);
    if (last !== undefined && last[1] === slot - 1) last[1] = slot;
    else found.push([slot, slot]);
  }
  return found;
}
