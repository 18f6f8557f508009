import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { BlockHeader } from '../ports/block.ts';
import { backoffMs, createWakeup } from '../runtime/waiting.ts';
import { dropFromOtherChain, releaseToLane } from './commit.ts';
import { commitmentOf } from './consensus.ts';
import {
  type BlockPosition,
  decide,
  hasPendingReverts,
  readCursor,
  readHeader,
  readOldestSlot,
  readPendingReverts,
  removePendingReverts,
} from './cursor.ts';
import { describeFault, faultOfProcessor, stackOf } from './faults.ts';
import { createBlockBuffer, createFetcher, type FetchedBlock } from './fetch.ts';
import { countGaps, isInGap } from './gap-records.ts';
import { recordProcessorGap } from './gaps.ts';
import type { Run } from './run.ts';
import { type FollowState, type Lane, LEDGER } from './state.ts';

/** Small, so that processors at the tip are never delayed. */
const LANE_BLOCKS = 8;
const LANE_FETCHES = 2;
const PAUSES_PER_HOLD = 20;

/** Brings one processor from its own cursor to the chain's, block by block, and joins it there. Errors go to `onError`. */
export async function catchUp(
  run: Run,
  processor: BlockProcessor,
  onError: (error: unknown) => void,
  fromSlot?: number,
): Promise<void> {
  const { state, signal, clock, random } = run;
  const lane = createLane(run, processor, fromSlot ?? processor.startSlot ?? 0);
  let failures = 0;
  while (!signal.aborted && state.catchingUp.includes(processor)) {
    const startedAt = clock.monotonic();
    try {
      const acted = state.started && state.halted === null && !state.draining && (await lane.step());
      failures = 0;
      if (!acted) await lane.wait();
    } catch (error) {
      if (signal.aborted) break;
      failures += 1;
      reportFailure(run, processor, error, failures);
      onError(error);
      // While a processor hangs no one else can write: that must stay a small part of the time.
      const heldMs = faultOfProcessor(error) === null ? 0 : clock.monotonic() - startedAt;
      await clock.sleep(backoffMs(failures, random) + heldMs * PAUSES_PER_HOLD, signal).catch(() => undefined);
    }
  }
  state.lanes.delete(processor.name);
  run.shared.trim();
  run.wake.wake();
  await lane.settled();
}

function reportFailure(
  { state, follow, log, chain, meter }: Run,
  processor: BlockProcessor,
  error: unknown,
  failures: number,
) {
  const { name } = processor;
  const facts = { chain, processor: name, code: codeOf(error), error: messageOf(error), failures };
  const fault = faultOfProcessor(error);
  if (fault === null) return log.warn(facts, 'catching up failed');
  meter.processorFailures.with(fault.plugin).add();
  const lane = state.lanes.get(name);
  if (lane !== undefined) lane.movedAt = Number.NEGATIVE_INFINITY;
  (follow.onError === 'skip-plugin' ? state.leftBehind : state.laneTrouble).set(name, describeFault(fault));
  // It fails until somebody looks at it: logged at powers of two.
  if ((failures & (failures - 1)) === 0)
    log.error({ ...facts, ...fault, stack: stackOf(error) }, 'a block processor fails');
}

function createLane(run: Run, processor: BlockProcessor, firstFloor: number) {
  const { state, source, follow, clock, random, signal, store, chain, log } = run;
  const wake = createWakeup(clock);
  const buffer = createBlockBuffer(LANE_BLOCKS, follow.bufferBytes);
  let position: BlockPosition | null = null;
  let floor = firstFloor;
  let fetchedAgain = -1;
  /** The slot that was reported as pruned everywhere; a second report is needed. */
  let saidPruned = -1;
  let listedTo = -1;
  // The chain does not wait for a failing processor, which rejoins only after it has applied the block it failed at.
  const startsFailing = state.leftBehind.has(processor.name);
  let hasMoved = false;
  /** Whether a roll-back may have left reverts to this processor. */
  let mayHavePending = true;
  const lane: Lane = { slot: null, movedAt: startsFailing ? Number.NEGATIVE_INFINITY : clock.monotonic() };
  state.lanes.set(processor.name, lane);
  const fetcher = createFetcher({
    source,
    buffer,
    clock,
    random,
    signal,
    forget: run.shared.forget,
    commitment: () => commitmentOf(run),
    concurrency: () => (cursorWaits(state, clock.monotonic()) ? follow.catchUpConcurrency : LANE_FETCHES),
    releasedSlot: () => position?.slot ?? -1,
    wake: wake.wake,
    count: () => {},
  });

  /** Only slots up to the chain's own cursor are of interest. */
  async function list(): Promise<void> {
    const available = Math.min(state.listFrom, source.firstKept());
    const from = Math.max((position?.slot ?? -1) + 1, floor, listedTo + 1, available);
    const to = Math.min(state.cursor?.slot ?? -1, from + follow.window - 1);
    // A long run of slots without blocks must not hide what follows.
    const hasWork = buffer.size > 0 || fetcher.nextDueAt() !== null;
    // The chain's own block exists, also where an upstream left it out or denied it; at the tip no later one names it as its parent.
    if (!hasWork && state.cursor !== null && listedTo >= state.cursor.slot) fetcher.want(state.cursor.slot);
    if (to < from || (hasWork && from > (position?.slot ?? floor) + follow.window * 2)) return;
    for (const slot of await source.produced(from, to, { commitment: commitmentOf(run), signal })) fetcher.want(slot);
    listedTo = to;
  }

  /** A block that no upstream has any more is recorded as missing in this processor; slots in a gap of the chain are not waited for. */
  async function onHole(slot: number): Promise<boolean> {
    const ask = fetcher.need(slot);
    fetcher.pump();
    if (fetcher.openBelow(slot)) return false;
    const isPruned = fetcher.isPruned(slot);
    if (!isPruned && (ask.deniedRounds === 0 || !(await isInGap(store.read, chain, slot)))) return false;
    if (!(await isTrusted())) return false;
    if (isPruned && saidPruned !== slot) {
      // A second report is needed: an upstream may have served another chain when it gave the first one.
      saidPruned = slot;
      fetcher.dropThrough(slot);
      return false;
    }
    const gap = {
      fromSlot: (position?.slot ?? floor - 1) + 1,
      toSlot: slot,
      reason: isPruned ? 'pruned' : 'hole',
      below: position,
    } as const;
    if (processor.wantsGaps !== false)
      await run.exclusive(() => store.write((tx) => recordProcessorGap(tx, chain, processor, gap, clock.now())));
    await countGaps(store.read, chain, state);
    log.error({ chain, processor: processor.name, ...gap }, 'slots are missing in this processor');
    floor = slot + 1;
    return true;
  }

  /** A block that does not continue this lane: either it is not part of the chain, or the lane's own block was forked away. */
  async function onFork({ block, upstream }: FetchedBlock): Promise<void> {
    fetcher.again(block.slot, upstream);
    if (position === null) return;
    const stored = await readHeader(store.read, chain, block.slot);
    const isOurs = stored?.blockhash === block.blockhash;
    const final = isOurs ? null : await source.header(position.slot, { commitment: 'finalized', signal });
    if (!isOurs && (final === null || final.blockhash === position.blockhash)) return;
    const reason = `processor ${processor.name} is at slot ${position.slot} of another branch: index it again`;
    if (!state.laneTrouble.has(processor.name)) log.error({ chain, processor: processor.name }, reason);
    state.laneTrouble.set(processor.name, reason);
  }

  /** Blocks older than the stored headers are taken as they are: forks do not reach there. */
  async function isOfChain(block: BlockHeader): Promise<boolean> {
    const known = await readHeader(store.read, chain, block.slot);
    if (known !== null) return known.blockhash === block.blockhash;
    const oldest = await readOldestSlot(store.read, chain);
    return oldest !== null && block.slot < oldest;
  }

  /** Blocks that filled a gap have no stored header: what is final is of the chain. */
  async function isFinal({ block, upstream }: FetchedBlock): Promise<boolean> {
    if (upstream === LEDGER && block.slot <= (state.ledger?.finalSlot ?? -1)) return true;
    if (block.slot > (state.finalizedSlot ?? -1) || (await isOfChain(block))) return false;
    if ((await readHeader(store.read, chain, block.slot)) !== null) return false;
    const final = await source.header(block.slot, { commitment: 'finalized', signal });
    return final?.blockhash === block.blockhash;
  }

  /** Whether upstream and buffer still belong to this chain. Drops blocks of another chain from the buffer. */
  async function isTrusted(): Promise<boolean> {
    const isSame = await source.confirmChain(signal);
    return !dropFromOtherChain({ source, buffer, state }) && isSame;
  }

  async function commit(held: FetchedBlock): Promise<void> {
    const { block } = held;
    const isUnlinked = position === null || position.slot < floor;
    if (isUnlinked && !(await isTrusted())) return;
    const isOurs = await isFinal(held);
    await run.exclusive(async () => {
      const main = state.cursor;
      // Only blocks of the branch of the chain's cursor, and never beyond it.
      if (main === null || block.slot > main.slot || !(isOurs || (await isOfChain(block)))) {
        fetcher.again(block.slot, held.upstream);
        return;
      }
      const options = { store, chain, headers: follow.headers, floor };
      try {
        await releaseToLane(options, block, position, processor);
      } catch (error) {
        // Once it may be the answer that is wrong; from then on it is the processor.
        if (faultOfProcessor(error) === null || fetchedAgain === block.slot) throw error;
        fetchedAgain = block.slot;
        fetcher.again(block.slot, held.upstream);
        return;
      }
      buffer.remove(block.slot);
      lane.slot = block.slot;
      hasMoved = true;
      lane.movedAt = clock.monotonic();
      // The chain's cursor waits for this lane: it is not stalled.
      if (cursorWaits(state, lane.movedAt)) state.lastReleaseAt = lane.movedAt;
      run.shared.trim();
      state.laneTrouble.delete(processor.name);
      if (block.blockhash === main.blockhash) join();
    });
  }

  function join(): void {
    state.catchingUp = state.catchingUp.filter((other) => other !== processor);
    state.live = [...state.live, processor];
    state.laneTrouble.delete(processor.name);
    state.leftBehind.delete(processor.name);
    log.info({ processor: processor.name, slot: state.cursor?.slot }, 'caught up');
  }

  async function step(): Promise<boolean> {
    const stored = await readCursor(store.read, chain, processor);
    if (stored?.slot !== position?.slot || stored?.blockhash !== position?.blockhash) {
      // A roll-back went below it, and maybe below what it had passed over.
      if ((stored?.slot ?? -1) < (position?.slot ?? -1)) {
        listedTo = -1;
        floor = firstFloor;
      }
      position = stored;
      mayHavePending = true;
    }
    lane.slot = position?.slot ?? floor - 1;
    if (mayHavePending) {
      if (await revertPending(run, processor)) {
        hasMoved = true;
        lane.movedAt = clock.monotonic();
        state.laneTrouble.delete(processor.name);
      }
      mayHavePending = false;
    }
    dropFromOtherChain({ source, buffer, state });
    buffer.dropThrough(Math.max(position?.slot ?? -1, position === null ? floor - 1 : -1));
    fetcher.dropThrough(position?.slot ?? -1);
    if (await joinIfEqual()) return true;
    if (laneWaits(state, processor.name, clock.monotonic())) return false;
    await list();
    fetcher.pump();
    const next = buffer.first();
    const decision = decide({ cursor: position, floor, next: next?.block ?? null });
    if (decision.kind === 'release') {
      await commit(next as FetchedBlock);
      return true;
    }
    if (decision.kind === 'fork') await onFork(next as FetchedBlock);
    return decision.kind === 'hole' && (await onHole(decision.slot));
  }

  async function joinIfEqual(): Promise<boolean> {
    if (startsFailing && !hasMoved) return false;
    return await run.exclusive(async () => {
      const main = state.cursor;
      if (main === null || position?.slot !== main.slot || position.blockhash !== main.blockhash) return false;
      join();
      return true;
    });
  }

  return { step, wait: () => wake.sleep(follow.pollMs, signal), settled: () => fetcher.settled() };
}

/**
 * Reverts the blocks that a roll-back left to this processor, newest first, in one transaction. False when there were none.
 * Errors: those of the store, those of the processor.
 */
async function revertPending({ store, chain, exclusive }: Run, processor: BlockProcessor): Promise<boolean> {
  if (!(await hasPendingReverts(store.read, chain, processor))) return false;
  await exclusive(() =>
    store.write(async (tx) => {
      for (const header of await readPendingReverts(tx.db, chain, processor)) await processor.revert(tx, header, chain);
      await removePendingReverts(tx, chain, processor);
    }),
  );
  return true;
}

/** A lane that has not moved for this time is not waited for. */
const PATIENCE_MS = 30_000;
/** Maximum distance of lanes that move together. */
const LEAD_SLOTS = 8;
/** A lane that is behind by less is always waited for. */
const NEAR_SLOTS = 1_000;

const isMoving = ({ movedAt }: Lane, now: number) => now - movedAt < PATIENCE_MS;

/**
 * Whether the chain's cursor waits for processors behind it, so that they continue together and each block is fetched once: only while
 * the cursor is farther behind the tip than they are behind the cursor, never at the tip.
 */
export function cursorWaits({ cursor, tip, lanes }: FollowState, now: number): boolean {
  if (cursor === null || tip === null) return false;
  const lag = tip - cursor.slot;
  return [...lanes.values()].some(
    (lane) => lag > 0 && isMoving(lane, now) && (lane.slot === null || cursor.slot - lane.slot <= lag),
  );
}

/** Whether a lane waits for one farther behind, so that they move together: not when that would take long. */
function laneWaits({ cursor, lanes }: FollowState, name: string, now: number): boolean {
  const own = lanes.get(name)?.slot ?? null;
  if (own === null || cursor === null) return false;
  const most = Math.max(NEAR_SLOTS, cursor.slot - own);
  return [...lanes].some(([other, lane]) => {
    if (other === name || lane.slot === null || !isMoving(lane, now)) return false;
    const behind = own - lane.slot;
    return behind > LEAD_SLOTS && behind <= most;
  });
}

/** How many readers still need the block of a slot: the chain, lanes, open gaps. */
export function readersOf({ cursor, lanes, gaps }: FollowState, slot: number): number {
  const isBelow = (at: number | null) => at === null || at < slot;
  const behind = [...lanes.values()].filter((lane) => isBelow(lane.slot)).length;
  const missing = gaps.filter(
    ({ fromSlot, toSlot, filledTo }) => fromSlot <= slot && slot <= toSlot && isBelow(filledTo),
  ).length;
  return behind + missing + (isBelow(cursor?.slot ?? null) ? 1 : 0);
}
