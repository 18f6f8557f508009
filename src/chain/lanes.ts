import type { FollowState, Lane } from './follow-state.ts';

/** Nobody waits for one that has not moved for so long. */
const PATIENCE_MS = 30_000;
/** How far the first of several that go together may be ahead of the last. */
const LEAD_SLOTS = 8;
/** One that is behind by less is waited for in any case. */
const NEAR_SLOTS = 1_000;

const isMoving = ({ movedAt }: Lane, now: number) => now - movedAt < PATIENCE_MS;

/**
 * Whether the chain's own cursor waits for processors behind it, so that they go on together and each block is fetched once: only while
 * the cursor itself is farther behind the tip than they are behind the cursor, never for those at the tip.
 */
export function cursorWaits({ cursor, tip, lanes }: FollowState, now: number): boolean {
  if (cursor === null || tip === null) return false;
  const lag = tip - cursor.slot;
  return [...lanes.values()].some(
    (lane) => lag > 0 && isMoving(lane, now) && (lane.slot === null || cursor.slot - lane.slot <= lag),
  );
}

/** Whether a processor that catches up waits for one farther behind, which is to come along: not when that would take long. */
export function laneWaits({ cursor, lanes }: FollowState, name: string, now: number): boolean {
  const own = lanes.get(name)?.slot ?? null;
  if (own === null || cursor === null) return false;
  const most = Math.max(NEAR_SLOTS, cursor.slot - own);
  return [...lanes].some(([other, lane]) => {
    if (other === name || lane.slot === null || !isMoving(lane, now)) return false;
    const behind = own - lane.slot;
    return behind > LEAD_SLOTS && behind <= most;
  });
}

/** How many have yet to come to the block of a slot: the chain itself, those that catch up, open gaps. */
export function readersOf({ cursor, lanes, gaps }: FollowState, slot: number): number {
  const isBelow = (at: number | null) => at === null || at < slot;
  const behind = [...lanes.values()].filter((lane) => isBelow(lane.slot)).length;
  const missing = gaps.filter(
    ({ fromSlot, toSlot, filledTo }) => fromSlot <= slot && slot <= toSlot && isBelow(filledTo),
  ).length;
  return behind + missing + (isBelow(cursor?.slot ?? null) ? 1 : 0);
}
