import { CodedError } from '../lib/coded-error.ts';
import { readMarks, writeFirstFloor } from './chain-row.ts';
import type { Position } from './decide.ts';
import { isSameChain } from './doubt.ts';
import { countGaps } from './gap-count.ts';
import { recordGap } from './gaps.ts';
import { missedBy, readMembers } from './members.ts';
import { readCursor, readHeaders } from './positions.ts';
import { healFork, rewind } from './reorg.ts';
import type { Run } from './run.ts';

const LONGEST_REACH_SLOTS = 100_000;

/**
 * Finds out where to go on: behind the stored cursor, or on a first start where the configuration says. A cursor that no upstream
 * reaches back to, or that is too old, makes a gap record. Errors: those of source and store; can be called again.
 */
export async function openChain(run: Run): Promise<void> {
  const { chain, store, source, state, follow, signal } = run;
  if (!(await isSameChain(run)))
    throw new CodedError('CHAIN_UNREACHABLE', 'no upstream is known to serve this chain', { retryable: true });
  const tip = await source.tip({ commitment: follow.commitment, signal });
  const first = await source.firstAvailable(signal);
  if (follow.rewindTo !== null) await rewind(run, follow.rewindTo);
  const marks = await readMarks(store.read, chain);
  state.cursor = await readCursor(store.read, chain);
  for (const header of (await readHeaders(store.read, chain, 0)).reverse())
    state.slotLength.sawBlock(header.slot, header.blockTime);
  if (marks === null) {
    const floor = follow.startSlot === 'latest' ? tip : follow.startSlot;
    state.floor = await store.write((tx) => writeFirstFloor(tx, chain, floor));
  } else {
    state.floor = marks.floor;
    state.finalizedSlot = marks.finalizedSlot;
    Object.assign(state, await readMembers(store.read, chain, run.processors, state.cursor, state.floor));
    await passOver(run, await earliestOf(run, first, tip), first, tip);
  }
  Object.assign(state, await readMembers(store.read, chain, run.processors, state.cursor, state.floor));
  await countGaps(store.read, chain, state);
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

/**
 * The earliest slot to go on from. Where slots would be given up, the upstream is asked again, between two questions which chain it
 * serves: it may have been another one when it answered.
 */
async function earliestOf(run: Run, first: number, tip: number): Promise<number> {
  const { state, source, signal } = run;
  const next = state.cursor === null ? state.floor : state.cursor.slot + 1;
  if (first <= next) return catchUpFrom(run, tip);
  const isOurs = await isSameChain(run);
  const again = await source.firstAvailable(signal);
  if (!isOurs || !(await isSameChain(run)))
    throw new CodedError('CHAIN_UNREACHABLE', 'no upstream is known to serve this chain', { retryable: true });
  return Math.max(Math.min(first, again), catchUpFrom(run, tip));
}

/** The earliest slot that is not too long ago, by the length of the slots that were followed last; 0 while that is unknown. */
function catchUpFrom({ state, follow }: Run, tip: number): number {
  if (follow.maxCatchupSlots !== null) return tip - follow.maxCatchupSlots;
  const slotMs = state.slotLength.ms();
  return slotMs === null ? 0 : Math.floor(tip - (follow.maxCatchupHours * 3_600_000) / slotMs);
}

/** Gives up the slots between the cursor, or a beginning that nobody came to, and the earliest one that can be had. */
async function passOver(run: Run, earliest: number, first: number, tip: number): Promise<void> {
  const { state, chain } = run;
  const before = state.cursor;
  if (earliest <= state.floor || (before !== null && earliest <= before.slot + 1)) return;
  // Nothing above the gap will show any more that the last block below it was forked away.
  if (before !== null && first <= before.slot) await checkCursor(run, before, tip);
  if (before !== null && state.cursor === null) return;
  const gap = {
    fromSlot: state.cursor === null ? state.floor : state.cursor.slot + 1,
    toSlot: earliest - 1,
    reason: earliest > first ? 'too_old' : 'pruned',
    below: state.cursor,
  } as const;
  await run.store.write((tx) => recordGap(tx, chain, gap, missedBy(state, gap), run.clock.now()));
  state.floor = earliest;
  run.log.error({ chain, ...gap }, 'slots are missing for good unless they are filled later');
}

/** Rolls back when the block at the cursor is no longer of the chain. */
async function checkCursor(run: Run, cursor: Position, tip: number): Promise<void> {
  const { source, follow, signal } = run;
  const ask = { commitment: follow.commitment, signal } as const;
  let slot: number | undefined;
  let to = cursor.slot;
  // A long stretch without a block must not hide what comes behind it.
  for (let reach = follow.window; slot === undefined && to < tip; reach = Math.min(reach * 2, LONGEST_REACH_SLOTS)) {
    const from = to + 1;
    to = Math.min(tip, to + reach);
    [slot] = await source.produced(from, to, ask);
  }
  const above = slot === undefined ? null : await source.header(slot, ask);
  if (above === null || (above.parentSlot === cursor.slot && above.previousBlockhash === cursor.blockhash)) return;
  await healFork(run, above);
}
