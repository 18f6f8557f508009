import type { FollowerStatus } from './contract.ts';
import type { Run } from './run.ts';

export function statusOf(run: Run): FollowerStatus {
  const { tip, cursor, finalizedSlot, openGaps, gaps } = run.state;
  const lagSlots = tip === null || cursor === null ? null : Math.max(0, tip - cursor.slot);
  return {
    tipSlot: tip,
    cursorSlot: cursor?.slot ?? null,
    finalizedSlot,
    lagSlots,
    stalled: stalledBy(run, lagSlots),
    openGaps,
    gaps,
  };
}

function stalledBy({ state, clock, follow }: Run, lagSlots: number | null): string | null {
  if (state.halted !== null) return state.halted;
  if (state.mismatch !== null) return state.mismatch;
  if (state.hole?.denied) return `the block at slot ${state.hole.slot} exists and no upstream has it`;
  if (state.trouble !== null) return state.trouble;
  if (state.stuck.length > 0) return state.stuck.join('; ');
  const [laneTrouble] = state.laneTrouble.values();
  if (laneTrouble !== undefined) return laneTrouble;
  const now = clock.monotonic();
  const silentS = (since: number) => Math.floor((now - since) / 1_000);
  if (silentS(state.lastAnswerAt) >= follow.stalledAfterSeconds)
    return `no upstream has told its tip for ${silentS(state.lastAnswerAt)} s`;
  // A chain that makes no blocks is not our standstill; one that has blocks which do not come is.
  if (state.begun && lagSlots !== 0 && silentS(state.lastReleaseAt) >= follow.stalledAfterSeconds)
    return `no block could be released for ${silentS(state.lastReleaseAt)} s`;
  return null;
}
