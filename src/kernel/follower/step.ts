import { codeOf, messageOf } from '../../lib/coded-error.ts';
import { backoffMs } from './backoff.ts';
import type { Held } from './buffer.ts';
import { releaseBlock } from './commit-block.ts';
import { decide } from './decide.ts';
import { type GapReason, recordGap } from './gaps.ts';
import { healFork } from './heal-fork.ts';
import { listInTime } from './poll.ts';
import { readCursor } from './positions.ts';
import type { Run } from './run.ts';
import { reasonOf } from './trouble.ts';

/** Does the next thing that can be done; false when there is nothing to do but wait. Errors: see `afterFailure`. */
export async function step(run: Run): Promise<boolean> {
  const { state, buffer, fetcher } = run;
  buffer.dropThrough(state.cursor?.slot ?? -1);
  if (state.cursor === null || state.cursor.slot < state.floor) buffer.dropThrough(state.floor - 1);
  fetcher.dropThrough(state.cursor?.slot ?? -1);
  fetcher.pump();
  listInTime(run);
  const next = buffer.first();
  const decision = decide({ cursor: state.cursor, floor: state.floor, next: next?.block ?? null });
  switch (decision.kind) {
    case 'wait': {
      const pruned = fetcher.allPruned();
      return pruned === null ? false : await giveUp(run, pruned, 'pruned');
    }
    case 'hole':
      return await wantHole(run, next as Held, decision.slot);
    case 'fork':
      return await meetFork(run, next as Held);
    case 'release':
      return await release(run, next as Held);
  }
}

async function wantHole(run: Run, next: Held, slot: number): Promise<boolean> {
  const { state, fetcher, clock, follow } = run;
  const ask = fetcher.need(slot);
  const now = clock.monotonic();
  // While the block above the hole is fetched anew, the next one names that block: the hole itself is still the same.
  const isSame = state.hole !== null && state.hole.slot <= slot && !run.buffer.has(state.hole.slot);
  if (state.hole === null || !isSame) state.hole = { slot, since: now, denied: false };
  fetcher.pump();
  const canGiveUp = state.listedTo >= slot && !fetcher.openBelow(slot);
  if (canGiveUp && fetcher.isPruned(slot)) return await giveUp(run, slot, 'pruned');
  if (ask.deniedRounds === 0) return false;
  if (!state.hole.denied) {
    state.hole.denied = true;
    run.log.error({ slot, namedBy: next.block.slot }, 'a block exists that no upstream has: waiting for it');
  }
  const isOld = state.hole.slot === slot && now - state.hole.since >= follow.holeTimeoutSeconds * 1_000;
  if (canGiveUp && isOld && follow.holePolicy === 'gap') return await giveUp(run, slot, 'hole');
  // It may be the later block that is wrong: it is fetched anew once per round, and only ever dropped for another one.
  ask.deniedRounds = 0;
  fetcher.again(next.block.slot, next.upstream);
  return false;
}

/** Accepts that slots up to `slot` cannot be had: they become a gap record, and the chain goes on behind them. */
async function giveUp(run: Run, slot: number, reason: GapReason): Promise<boolean> {
  const { state, chain, store, clock } = run;
  const fromSlot = state.cursor === null ? state.floor : state.cursor.slot + 1;
  const first = state.cursor === null ? Math.min(fromSlot, slot) : fromSlot;
  const gap = { fromSlot: first, toSlot: slot, reason };
  await run.turn(() => store.write((tx) => recordGap(tx, chain, gap, clock.now())));
  state.floor = slot + 1;
  state.hole = null;
  state.openGaps += 1;
  run.fetcher.dropThrough(slot);
  run.log.error({ chain, ...gap }, 'slots are missing for good unless they are filled later');
  return true;
}

async function meetFork(run: Run, next: Held): Promise<boolean> {
  const healed = await healFork(run, next.block);
  if (healed === 'rolled-back') return true;
  if (healed === 'stale') run.meter.stale.add();
  run.fetcher.again(next.block.slot, next.upstream);
  return true;
}

async function release(run: Run, { block }: Held): Promise<boolean> {
  const { state, chain, store, follow, clock } = run;
  const pressed = [...state.live, ...state.joining].flatMap((processor) => {
    const pressure = processor.pressure?.() ?? { ok: true };
    return pressure.ok ? [] : [`${processor.name}: ${pressure.reason}`];
  });
  if (pressed.length > 0) {
    state.trouble = pressed.join('; ');
    return false;
  }
  const startedAt = clock.monotonic();
  const released = await run.turn(async () => {
    const { cursor, live, joining } = state;
    await releaseBlock({ store, chain, headers: follow.headers }, block, cursor, live, joining);
    state.cursor = { slot: block.slot, blockhash: block.blockhash };
    state.live = [...live, ...joining];
    state.joining = [];
    return cursor;
  });
  run.meter.commitMs.record(clock.monotonic() - startedAt);
  run.meter.released.add();
  if (released !== null && released.slot >= state.floor) run.meter.skipped.add(block.slot - released.slot - 1);
  run.buffer.remove(block.slot);
  state.hole = null;
  state.trouble = null;
  state.failures = 0;
  state.lastReleaseAt = clock.monotonic();
  run.told(block);
  return true;
}

/**
 * After a failed step: waits longer each time, and looks where the cursor really stands, because a commit whose answer was lost
 * may have happened.
 */
export async function afterFailure(run: Run, error: unknown): Promise<void> {
  const { state, log, clock, random, chain, store } = run;
  state.failures += 1;
  state.notBefore = clock.monotonic() + backoffMs(state.failures, random);
  state.trouble = reasonOf(error, 'the last block');
  log.error({ chain, code: codeOf(error), error: messageOf(error), failures: state.failures }, 'following failed');
  if (!(codeOf(error) ?? '').startsWith('STORE_')) return;
  const { cursor } = state;
  const next = run.buffer.first()?.block;
  const stored = await readCursor(store.read, chain).catch(() => cursor);
  if (next === undefined || stored?.slot !== next.slot || stored.blockhash !== next.blockhash) return;
  state.cursor = stored;
  state.live = [...state.live, ...state.joining];
  state.joining = [];
  run.told(next);
}
