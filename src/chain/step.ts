import { codeOf, messageOf } from '../lib/coded-error.ts';
import { type BlockHeader, type ChainBlock, isPlaceholder } from '../ports/block.ts';
import { backoffMs } from '../runtime/waiting.ts';
import { dropFromOtherChain, isSameChain, moveChain, releaseBlock } from './commit.ts';
import { decide, samePosition } from './cursor.ts';
import { describeFault, failureReasonOf, faultOfProcessor, stackOf } from './faults.ts';
import type { FetchedBlock } from './fetch.ts';
import { countGaps } from './gap-records.ts';
import { type Gap, recordGap } from './gaps.ts';
import { keepReleased, prepareNext } from './keep.ts';
import { cursorWaits } from './lane.ts';
import { missedBy, onFault } from './processors.ts';
import { followFork } from './reorg.ts';
import { type Run, tellListeners } from './run.ts';
import { STREAM, sawSlot } from './state.ts';
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
      return await onHole(run, next as FetchedBlock, decision.slot);
    case 'fork':
      distrustStream(run);
      return await onFork(run, next as FetchedBlock);
    case 'release':
      return await run.traceBlock(
        (next as FetchedBlock).block.slot,
        () => release(run, next as FetchedBlock),
        (error) => {
          failed(error);
          return false;
        },
      );
  }
}

async function onHole(run: Run, next: FetchedBlock, slot: number): Promise<boolean> {
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

async function onFork(run: Run, next: FetchedBlock): Promise<boolean> {
  const result = await followFork(run, next.block);
  if (result === 'rolled-back') return true;
  if (result === 'stale') run.meter.stale.add();
  run.fetcher.again(next.block.slot, next.upstream);
  return true;
}

async function release(run: Run, next: FetchedBlock): Promise<boolean> {
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
    const finalSlot = provenFinal(run, next);
    const options = { store, chain, headers: follow.headers, floor, finalSlot };
    prepareNext(run, block);
    await keepReleased(run, block, seen);
    const commit = () => releaseBlock(options, block, seen, live, joining);
    await moveChain(run, commit, { to: block, adopt: () => released(run, next, finalSlot, startedAt) });
    if (finalSlot !== null) await state.ledger?.finalize(finalSlot);
    if (state.stream !== null && upstream === STREAM) state.stream.leads = true;
  });
  await write.catch((error: unknown) => onFault(run, next, error));
  return true;
}

/**
 * The highest slot that is final once this block is released; null: not known. Where the operator follows `finalized`, it is the block's
 * own. Where `auto` chose it, the block proves its parent: if one upstream serves a wrong newest block, the next block shows it, and the
 * wrong one can still be rolled back.
 */
function provenFinal({ state, follow }: Run, { block, commitment }: FetchedBlock): number | null {
  if (commitment !== 'finalized') return null;
  if (follow.commitment === 'finalized') return block.slot;
  return state.cursor !== null && state.cursor.slot >= state.floor ? state.cursor.slot : null;
}

/**
 * No released block can contradict the parent that the first block of all, or above a gap, names; and one that names a parent too low
 * would hide a block that is never asked for again. So its header is requested a second time, from another upstream where possible.
 * False when the answer differs; without an answer the block is accepted.
 */
async function isLinkConfirmed({ source, signal }: Run, next: FetchedBlock): Promise<boolean> {
  const { block, upstream } = next;
  const ask = { commitment: next.commitment, signal } as const;
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

/** Blocks whose upstream is remembered. */
const MAX_SERVED = 64;

/** Applies the commit of a block to memory. */
function released(
  run: Run,
  { block, upstream, commitment }: FetchedBlock,
  finalSlot: number | null,
  startedAt: number,
): void {
  const { state, meter, clock } = run;
  const before = state.cursor;
  state.cursor = { slot: block.slot, blockhash: block.blockhash };
  if (commitment === 'finalized') state.served = [...state.served.slice(1 - MAX_SERVED), { ...state.cursor, upstream }];
  state.slotLength.sawBlock(block.slot, block.blockTime);
  if (finalSlot !== null) {
    state.finalizedSlot = Math.max(finalSlot, state.finalizedSlot ?? 0);
    state.finalizedAt = clock.monotonic();
  }
  state.live = [...state.live, ...state.joining];
  state.joining = [];
  meter.commitSeconds.record((clock.monotonic() - startedAt) / 1000);
  meter.released.add();
  countUnread(run, block);
  if (before !== null && before.slot >= state.floor) meter.skipped.add(block.slot - before.slot - 1);
  run.buffer.remove(block.slot);
  state.hole = null;
  state.deepForkSince = null;
  state.trouble = null;
  state.processorFault = null;
  state.fetchedAgain = null;
  state.failures = 0;
  state.lastReleaseAt = clock.monotonic();
  sawSlot(state, block.slot, state.lastReleaseAt);
  run.onReleased(headerOf(block));
  tellListeners(run, (listener) => listener.released(block));
  if (finalSlot !== null) tellListeners(run, (listener) => listener.finalized(finalSlot));
}

/** A transaction in a new form stops nothing, so that only this says that there was one. */
function countUnread({ state, meter }: Run, block: ChainBlock): void {
  for (const tx of block.transactions) {
    if (tx.fault === null) continue;
    const { fault, isOpaque, signature } = tx;
    meter.unread.with(isOpaque ? 'opaque' : fault.kind).add();
    const { opaque, partial } = state.unread ?? { opaque: 0, partial: 0 };
    state.unread = {
      opaque: opaque + (isOpaque ? 1 : 0),
      partial: partial + (isOpaque ? 0 : 1),
      last: { slot: block.slot, signature: isPlaceholder(signature) ? null : signature, reason: fault.reason },
    };
  }
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
  state.trouble = failureReasonOf(error, 'the last block');
  const fault = faultOfProcessor(error);
  state.processorFault = fault === null ? null : describeFault(fault);
  const facts = { chain, code: codeOf(error), error: messageOf(error), failures: state.failures };
  if (fault === null) log.error(facts, 'a step of the follower failed');
  else log.error({ ...facts, ...fault, stack: stackOf(error) }, 'a block processor fails');
}
