import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { BlockHeader, ChainBlock } from '../ports/block.ts';
import { backoffMs } from '../runtime/waiting.ts';
import { cursorWaits } from './catch-up.ts';
import { dropFromOtherChain, isSameChain, moveChain, releaseBlock } from './commit.ts';
import { decide, samePosition } from './cursor.ts';
import { describeFault, faultOfProcessor, reasonOf, stackOf } from './faults.ts';
import type { Held } from './fetch.ts';
import { countGaps, type Gap, recordGap } from './gaps.ts';
import { keepReleased, prepareNext } from './keep.ts';
import { missedBy, onFault } from './processors.ts';
import { followFork } from './reorg.ts';
import { type Run, tellListeners } from './run.ts';
import { STREAM } from './state.ts';
import { distrustStream, listAhead } from './tip.ts';

/** Does the next possible step; false when it has to wait, or when a release failed, whose error goes to `failed`. Throws other errors. */
export async function step(run: Run, failed: (error: unknown) => void): Promise<boolean> {
  const { state, buffer, fetcher } = run;
  if (state.unverified !== null) await run.exclusive(async () => undefined);
  dropFromOtherChain(run);
  buffer.dropThrough(state.cursor?.slot ?? -1);
  if (state.cursor === null || state.cursor.slot < state.floor) buffer.dropThrough(state.floor - 1);
  fetcher.dropThrough(state.cursor?.slot ?? -1);
  fetcher.pump();
  listAhead(run);
  const next = buffer.first();
  const decision = decide({ cursor: state.cursor, floor: state.floor, next: next?.block ?? null });
  switch (decision.kind) {
    case 'wait': {
      const pruned = fetcher.allPruned();
      return pruned === null ? false : await skipSlots(run, pruned, 'pruned');
    }
    case 'hole':
      distrustStream(run);
      return await onHole(run, next as Held, decision.slot);
    case 'fork':
      distrustStream(run);
      return await onFork(run, next as Held);
    case 'release':
      return await run.traceBlock(
        (next as Held).block.slot,
        () => release(run, next as Held),
        (error) => {
          failed(error);
          return false;
        },
      );
  }
}

async function onHole(run: Run, next: Held, slot: number): Promise<boolean> {
  const { state, fetcher, clock, follow } = run;
  const ask = fetcher.need(slot);
  const now = clock.monotonic();
  // While the block above the hole is fetched again, the next one names that block: the hole is still the same.
  const isSame = state.hole !== null && state.hole.slot <= slot && !run.buffer.has(state.hole.slot);
  if (state.hole === null || !isSame) state.hole = { slot, since: now, denied: false };
  fetcher.pump();
  const canGiveUp = state.listedTo >= slot && !fetcher.openBelow(slot);
  if (canGiveUp && fetcher.isPruned(slot)) return await skipSlots(run, slot, 'pruned');
  if (ask.deniedRounds === 0) return false;
  if (!state.hole.denied) {
    state.hole.denied = true;
    run.log.error({ slot, namedBy: next.block.slot }, 'no upstream has a block that exists: waiting for it');
  }
  const isOld = state.hole.slot === slot && now - state.hole.since >= follow.holeTimeoutSeconds * 1_000;
  if (canGiveUp && isOld && follow.holePolicy === 'gap') return await skipSlots(run, slot, 'hole');
  // The later block may be the wrong one: it is fetched again once per round, and replaced only by another one.
  ask.deniedRounds = 0;
  fetcher.again(next.block.slot, next.upstream);
  return false;
}

/** Records the slots up to `slot` as a gap and lets the chain continue above it. */
async function skipSlots(run: Run, slot: number, reason: Gap['reason']): Promise<boolean> {
  const { state, chain, store, clock } = run;
  if (!(await isSameChain(run))) return false;
  if (reason === 'pruned' && state.prunedTo !== slot) {
    // The upstream may have served another chain when it reported this: it has to report all of it again.
    state.prunedTo = slot;
    state.listedTo = -1;
    run.fetcher.dropThrough(slot);
    return false;
  }
  const seen = state.cursor;
  const fromSlot = seen === null ? Math.min(state.floor, slot) : seen.slot + 1;
  const gap = { fromSlot, toSlot: slot, reason, below: seen };
  const isNoted = await run.exclusive(async () => {
    if (!samePosition(state.cursor, seen)) return false;
    await store.write((tx) => recordGap(tx, chain, gap, missedBy(state, gap), clock.now()));
    return true;
  });
  if (!isNoted) return true;
  state.floor = slot + 1;
  state.hole = null;
  await countGaps(store.read, chain, state);
  run.fetcher.dropThrough(slot);
  run.log.error({ chain, ...gap }, 'slots are missing until they are filled');
  return true;
}

async function onFork(run: Run, next: Held): Promise<boolean> {
  const result = await followFork(run, next.block);
  if (result === 'rolled-back') return true;
  if (result === 'stale') run.meter.stale.add();
  run.fetcher.again(next.block.slot, next.upstream);
  return true;
}

async function release(run: Run, next: Held): Promise<boolean> {
  const { state, chain, store, follow, clock } = run;
  const { block, upstream } = next;
  if (cursorWaits(state, clock.monotonic())) return false;
  const pressed = [...state.live, ...state.joining].flatMap((processor) => {
    const pressure = processor.pressure?.() ?? { ok: true };
    return pressure.ok ? [] : [`${processor.name}: ${pressure.reason}`];
  });
  if (pressed.length > 0) {
    state.trouble = pressed.join('; ');
    return false;
  }
  const seen = state.cursor;
  const isUnlinked = seen === null || seen.slot < state.floor;
  if (isUnlinked && !(await isSameChain(run))) return false;
  if (isUnlinked && !(await isLinkConfirmed(run, next))) {
    run.fetcher.again(block.slot, upstream);
    return true;
  }
  const write = run.exclusive(async () => {
    // An audit may have rolled back meanwhile: then the block is checked again.
    if (!samePosition(state.cursor, seen)) return;
    const { live, joining, floor } = state;
    const startedAt = clock.monotonic();
    const isFinal = follow.commitment === 'finalized';
    const options = { store, chain, headers: follow.headers, floor, isFinal };
    prepareNext(run, block);
    await keepReleased(run, block, seen);
    const commit = () => releaseBlock(options, block, seen, live, joining);
    await moveChain(run, commit, { to: block, adopt: () => released(run, block, startedAt) });
    if (isFinal) await state.ledger?.finalize(block.slot);
    if (state.stream !== null && upstream === STREAM) state.stream.leads = true;
  });
  await write.catch((error: unknown) => onFault(run, next, error));
  return true;
}

/**
 * No released block can contradict the parent that the first block of all, or above a gap, names; and one that names a parent too low
 * would hide a block that is never asked for again. So its header is requested a second time, from another upstream where possible.
 * False when the answer differs; without an answer the block is accepted.
 */
async function isLinkConfirmed({ source, follow, signal }: Run, { block, upstream }: Held): Promise<boolean> {
  const ask = { commitment: follow.commitment, signal } as const;
  const header = async (avoid: readonly string[]) =>
    await source.header(block.slot, { ...ask, avoid }).catch(() => null);
  const again = (source.upstreamCount() > 1 ? await header([upstream]) : null) ?? (await header([]));
  signal.throwIfAborted();
  return (
    again === null ||
    (again.blockhash === block.blockhash &&
      again.parentSlot === block.parentSlot &&
      again.previousBlockhash === block.previousBlockhash)
  );
}

/** Applies the commit of a block to memory. */
function released(run: Run, block: ChainBlock, startedAt: number): void {
  const { state, meter, clock } = run;
  const before = state.cursor;
  state.cursor = { slot: block.slot, blockhash: block.blockhash };
  state.slotLength.sawBlock(block.slot, block.blockTime);
  if (run.follow.commitment === 'finalized') state.finalizedSlot = block.slot;
  state.live = [...state.live, ...state.joining];
  state.joining = [];
  meter.commitSeconds.record((clock.monotonic() - startedAt) / 1000);
  meter.released.add();
  if (before !== null && before.slot >= state.floor) meter.skipped.add(block.slot - before.slot - 1);
  run.buffer.remove(block.slot);
  state.hole = null;
  state.trouble = null;
  state.processorFault = null;
  state.fetchedAgain = null;
  state.failures = 0;
  state.lastReleaseAt = clock.monotonic();
  run.onReleased(headerOf(block));
  tellListeners(run, (listener) => listener.released(block));
  if (run.follow.commitment === 'finalized') tellListeners(run, (listener) => listener.finalized(block.slot));
}

/** Without the transactions: listeners may be in other threads, and must not keep them. */
function headerOf(block: ChainBlock): BlockHeader {
  const { slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime } = block;
  return { slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime };
}

/** After a failed step: waits longer each time. */
export function afterFailure({ state, log, clock, random, chain }: Run, error: unknown): void {
  state.failures += 1;
  state.notBefore = clock.monotonic() + backoffMs(state.failures, random);
  state.trouble = reasonOf(error, 'the last block');
  const fault = faultOfProcessor(error);
  state.processorFault = fault === null ? null : describeFault(fault);
  const facts = { chain, code: codeOf(error), error: messageOf(error), failures: state.failures };
  if (fault === null) log.error(facts, 'a step of the follower failed');
  else log.error({ ...facts, ...fault, stack: stackOf(error) }, 'a block processor fails');
}
