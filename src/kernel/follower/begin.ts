import type { FollowContext } from './context.ts';
import { type Lane, MAIN_LANE } from './lane.ts';

/**
 * Decides where a lane goes on: after its cursor, at the configured start, or, when that is out of reach, at the earliest slot that can
 * be had, with the slots between recorded as a gap when the first block is released. Opens nothing; asks the upstreams.
 */
export async function beginLane(context: FollowContext, lane: Lane): Promise<void> {
  const { source, follow, signal, log, chain } = context;
  const tip = await source.tip({ commitment: follow.commitment, signal });
  const first = await source.firstAvailable(signal).catch(() => 0);
  const next = lane.position === null ? startOf(context, lane, tip) : lane.position.slot + 1;
  const isTooOld = lane.id === MAIN_LANE && lane.position !== null && tip - lane.position.slot > follow.maxCatchupSlots;
  const from = Math.max(isTooOld ? tip - follow.maxCatchupSlots : next, first);
  if (lane.position === null) lane.startSlot = from;
  if (from <= next) return;
  lane.startSlot = from;
  lane.gap = { fromSlot: next, toSlot: from - 1, reason: isTooOld && from > first ? 'too-old' : 'pruned' };
  log.error({ chain, lane: lane.id, ...lane.gap }, 'these slots are out of reach: a gap is recorded');
}

function startOf({ follow }: FollowContext, lane: Lane, tip: number): number {
  if (lane.startSlot !== null) return lane.startSlot;
  // The newest slot may have no block; a little earlier there is one for sure.
  return follow.startSlot === 'latest' ? Math.max(0, tip - START_MARGIN_SLOTS) : follow.startSlot;
}

/** Slots before the tip at which a first start looks for its root. */
const START_MARGIN_SLOTS = 8;
