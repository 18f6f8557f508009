import { readMarks, writeFloor } from './chain-row.ts';
import { countOpenGaps, recordGap } from './gaps.ts';
import { readMembers } from './members.ts';
import { readCursor } from './positions.ts';
import type { Run } from './run.ts';

/**
 * Finds out where to go on: behind the stored cursor, or on a first start where the configuration says. A cursor that no upstream
 * reaches back to, or that is too old, makes a gap record. Errors: those of source and store; can be called again.
 */
export async function openChain(run: Run): Promise<void> {
  const { chain, store, source, state, follow, signal } = run;
  const tip = await source.tip({ commitment: follow.commitment, signal });
  const first = await source.firstAvailable(signal);
  const marks = await readMarks(store.read, chain);
  state.cursor = await readCursor(store.read, chain);
  if (marks === null) {
    state.floor = follow.startSlot === 'latest' ? tip : follow.startSlot;
    await store.write((tx) => writeFloor(tx, chain, state.floor));
  } else {
    state.floor = marks.floor;
    state.finalizedSlot = marks.finalizedSlot;
    await passOver(run, Math.max(first, tip - follow.maxCatchupSlots), first);
  }
  Object.assign(state, await readMembers(store.read, chain, run.processors, state.cursor, state.floor));
  state.openGaps = await countOpenGaps(store.read, chain);
  state.tip = tip;
  state.listFrom = first;
  state.listedTo = -1;
  const at = run.clock.monotonic();
  state.lastAnswerAt = at;
  state.lastReleaseAt = at;
  state.begun = true;
  run.log.info(
    { chain, cursor: state.cursor?.slot ?? null, floor: state.floor, tip, stuck: state.stuck },
    'following the chain',
  );
}

/** Gives up the slots between the cursor and the earliest one that can be had. */
async function passOver(run: Run, earliest: number, first: number): Promise<void> {
  const { state, chain } = run;
  const next = Math.max((state.cursor?.slot ?? -1) + 1, state.cursor === null ? state.floor : 0);
  if (state.cursor === null || earliest <= next || earliest <= state.floor) return;
  const gap = { fromSlot: next, toSlot: earliest - 1, reason: earliest > first ? 'too_old' : 'pruned' } as const;
  await run.store.write((tx) => recordGap(tx, chain, gap, run.clock.now()));
  state.floor = earliest;
  run.log.error({ chain, ...gap }, 'slots are missing for good unless they are filled later');
}
