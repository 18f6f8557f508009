import type { BlockProcessor } from '../plugin/plugin.ts';
import type { BlockHeader } from '../ports/block.ts';
import { createWakeup, type Wakeup } from '../runtime/waiting.ts';
import { dropFromOtherChain, releaseToLane } from './commit.ts';
import { followedCommitment } from './consensus.ts';
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
import { faultOfProcessor } from './faults.ts';
import { createBlockBuffer, createFetcher, type FetchedBlock } from './fetch.ts';
import { countGaps, isInGap } from './gap-records.ts';
import { recordProcessorGap } from './gaps.ts';
import type { Run } from './run.ts';
import { type FollowState, type Lane, LEDGER } from './state.ts';

/** Small, so that processors at the tip are never delayed. */
const LANE_BLOCKS = 8;
const LANE_FETCHES = 2;

/** One processor behind the chain's cursor, and the blocks that it gets. */
export class CatchUpLane {
  private readonly run: Run;
  private readonly processor: BlockProcessor;
  /** Where it begins when it has no position. */
  private readonly firstFloor: number;
  private readonly wake: Wakeup;
  private readonly buffer: ReturnType<typeof createBlockBuffer>;
  private readonly fetcher: ReturnType<typeof createFetcher>;
  /** What others see of it. */
  private readonly lane: Lane;
  /** The chain does not wait for a failing processor, which rejoins only after it has applied the block it failed at. */
  private readonly startsFailing: boolean;
  private position: BlockPosition | null = null;
  /** Slots below it are not asked for. */
  private floor: number;
  private fetchedAgain = -1;
  /** The slot that was reported as pruned everywhere; a second report is needed. */
  private saidPruned = -1;
  private listedTo = -1;
  private hasMoved = false;
  /** Whether a roll-back may have left reverts to this processor. */
  private mayHavePending = true;

  constructor(run: Run, processor: BlockProcessor, firstFloor: number) {
    const { state, source, follow, clock, random, signal } = run;
    this.run = run;
    this.processor = processor;
    this.firstFloor = firstFloor;
    this.floor = firstFloor;
    this.wake = createWakeup(clock);
    this.buffer = createBlockBuffer(LANE_BLOCKS, follow.bufferBytes);
    this.startsFailing = state.leftBehind.has(processor.name);
    this.lane = { slot: null, movedAt: this.startsFailing ? Number.NEGATIVE_INFINITY : clock.monotonic() };
    state.lanes.set(processor.name, this.lane);
    this.fetcher = createFetcher({
      source,
      buffer: this.buffer,
      clock,
      random,
      signal,
      forget: run.shared.forget,
      commitment: () => followedCommitment(run),
      concurrency: () => (cursorWaits(state, clock.monotonic()) ? follow.catchUpConcurrency : LANE_FETCHES),
      releasedSlot: () => this.position?.slot ?? -1,
      wake: this.wake.wake,
      count: () => {},
    });
  }

  wait(): Promise<void> {
    const { follow, signal } = this.run;
    return this.wake.sleep(follow.pollMs, signal);
  }

  settled(): Promise<void> {
    return this.fetcher.settled();
  }

  /** Whether there was something to do. */
  async step(): Promise<boolean> {
    const { state, source, clock, store, chain } = this.run;
    const { lane, fetcher, buffer, processor, run } = this;
    const stored = await readCursor(store.read, chain, processor);
    if (stored?.slot !== this.position?.slot || stored?.blockhash !== this.position?.blockhash) {
      // A roll-back went below it, and maybe below what it had passed over.
      if ((stored?.slot ?? -1) < (this.position?.slot ?? -1)) {
        this.listedTo = -1;
        this.floor = this.firstFloor;
      }
      this.position = stored;
      this.mayHavePending = true;
    }
    lane.slot = this.position?.slot ?? this.floor - 1;
    if (this.mayHavePending) {
      if (await revertPending(run, processor)) {
        this.hasMoved = true;
        lane.movedAt = clock.monotonic();
        state.laneTrouble.delete(processor.name);
      }
      this.mayHavePending = false;
    }
    dropFromOtherChain({ source, buffer, state });
    buffer.dropThrough(Math.max(this.position?.slot ?? -1, this.position === null ? this.floor - 1 : -1));
    fetcher.dropThrough(this.position?.slot ?? -1);
    if (await this.joinIfEqual()) return true;
    if (laneWaits(state, processor.name, clock.monotonic())) return false;
    await this.list();
    fetcher.pump();
    const next = buffer.first();
    const decision = decide({ cursor: this.position, floor: this.floor, next: next?.block ?? null });
    if (decision.kind === 'release') {
      await this.commit(next as FetchedBlock);
      return true;
    }
    if (decision.kind === 'fork') await this.onFork(next as FetchedBlock);
    return decision.kind === 'hole' && (await this.onHole(decision.slot));
  }

  private async joinIfEqual(): Promise<boolean> {
    const { state } = this.run;
    const { run } = this;
    if (this.startsFailing && !this.hasMoved) return false;
    return await run.exclusive(async () => {
      const main = state.cursor;
      if (main === null || this.position?.slot !== main.slot || this.position.blockhash !== main.blockhash)
        return false;
      this.join();
      return true;
    });
  }

  private join(): void {
    const { state, log } = this.run;
    const { processor } = this;
    state.catchingUp = state.catchingUp.filter((other) => other !== processor);
    state.live = [...state.live, processor];
    state.laneTrouble.delete(processor.name);
    state.leftBehind.delete(processor.name);
    log.info({ processor: processor.name, slot: state.cursor?.slot }, 'caught up');
  }

  /** Only slots up to the chain's own cursor are of interest. */
  private async list(): Promise<void> {
    const { state, source, follow, signal } = this.run;
    const { fetcher, buffer, run } = this;
    const available = Math.min(state.listFrom, source.firstKept());
    const from = Math.max((this.position?.slot ?? -1) + 1, this.floor, this.listedTo + 1, available);
    const to = Math.min(state.cursor?.slot ?? -1, from + follow.window - 1);
    // A long run of slots without blocks must not hide what follows.
    const hasWork = buffer.size > 0 || fetcher.nextDueAt() !== null;
    // The chain's own block exists, also where an upstream left it out or denied it; at the tip no later one names it as its parent.
    if (!hasWork && state.cursor !== null && this.listedTo >= state.cursor.slot) fetcher.want(state.cursor.slot);
    if (to < from || (hasWork && from > (this.position?.slot ?? this.floor) + follow.window * 2)) return;
    for (const slot of await source.produced(from, to, { commitment: followedCommitment(run), signal }))
      fetcher.want(slot);
    this.listedTo = to;
  }

  /** A block that no upstream has any more is recorded as missing in this processor; slots in a gap of the chain are not waited for. */
  private async onHole(slot: number): Promise<boolean> {
    const { state, clock, store, chain, log } = this.run;
    const { fetcher, processor, run } = this;
    const ask = fetcher.need(slot);
    fetcher.pump();
    if (fetcher.openBelow(slot)) return false;
    const isPruned = fetcher.isPruned(slot);
    if (!isPruned && (ask.deniedRounds === 0 || !(await isInGap(store.read, chain, slot)))) return false;
    if (!(await this.isTrusted())) return false;
    if (isPruned && this.saidPruned !== slot) {
      // A second report is needed: an upstream may have served another chain when it gave the first one.
      this.saidPruned = slot;
      fetcher.dropThrough(slot);
      return false;
    }
    const gap = {
      fromSlot: (this.position?.slot ?? this.floor - 1) + 1,
      toSlot: slot,
      reason: isPruned ? 'pruned' : 'hole',
      below: this.position,
    } as const;
    if (processor.wantsGaps !== false)
      await run.exclusive(() => store.write((tx) => recordProcessorGap(tx, chain, processor, gap, clock.now())));
    await countGaps(store.read, chain, state);
    log.error({ chain, processor: processor.name, ...gap }, 'slots are missing in this processor');
    this.floor = slot + 1;
    return true;
  }

  /** A block that does not continue this lane: either it is not part of the chain, or the lane's own block was forked away. */
  private async onFork({ block, upstream }: FetchedBlock): Promise<void> {
    const { state, source, signal, store, chain, log } = this.run;
    const { fetcher, processor } = this;
    fetcher.again(block.slot, upstream);
    if (this.position === null) return;
    const stored = await readHeader(store.read, chain, block.slot);
    const isOurs = stored?.blockhash === block.blockhash;
    const final = isOurs ? null : await source.header(this.position.slot, { commitment: 'finalized', signal });
    if (!isOurs && (final === null || final.blockhash === this.position.blockhash)) return;
    const reason = `processor ${processor.name} is at slot ${this.position.slot} of another branch: index it again`;
    if (!state.laneTrouble.has(processor.name)) log.error({ chain, processor: processor.name }, reason);
    state.laneTrouble.set(processor.name, reason);
  }

  private async commit(held: FetchedBlock): Promise<void> {
    const { state, follow, clock, store, chain } = this.run;
    const { lane, fetcher, buffer, processor, run } = this;
    const { block } = held;
    const isUnlinked = this.position === null || this.position.slot < this.floor;
    if (isUnlinked && !(await this.isTrusted())) return;
    const isOurs = await this.isFinal(held);
    await run.exclusive(async () => {
      const main = state.cursor;
      // Only blocks of the branch of the chain's cursor, and never beyond it.
      if (main === null || block.slot > main.slot || !(isOurs || (await this.isOfChain(block)))) {
        fetcher.again(block.slot, held.upstream);
        return;
      }
      const options = { store, chain, headers: follow.headers, floor: this.floor };
      try {
        await releaseToLane(options, block, this.position, processor);
      } catch (error) {
        // Once it may be the answer that is wrong; from then on it is the processor.
        if (faultOfProcessor(error) === null || this.fetchedAgain === block.slot) throw error;
        this.fetchedAgain = block.slot;
        fetcher.again(block.slot, held.upstream);
        return;
      }
      buffer.remove(block.slot);
      lane.slot = block.slot;
      this.hasMoved = true;
      lane.movedAt = clock.monotonic();
      // The chain's cursor waits for this lane: it is not stalled.
      if (cursorWaits(state, lane.movedAt)) state.lastReleaseAt = lane.movedAt;
      run.shared.trim();
      state.laneTrouble.delete(processor.name);
      if (block.blockhash === main.blockhash) this.join();
    });
  }

  /** Blocks older than the stored headers are taken as they are: forks do not reach there. */
  private async isOfChain(block: BlockHeader): Promise<boolean> {
    const { store, chain } = this.run;
    const known = await readHeader(store.read, chain, block.slot);
    if (known !== null) return known.blockhash === block.blockhash;
    const oldest = await readOldestSlot(store.read, chain);
    return oldest !== null && block.slot < oldest;
  }

  /** Blocks that filled a gap have no stored header: what is final is of the chain. */
  private async isFinal({ block, upstream }: FetchedBlock): Promise<boolean> {
    const { state, source, signal, store, chain } = this.run;
    if (upstream === LEDGER && block.slot <= (state.ledger?.finalSlot ?? -1)) return true;
    if (block.slot > (state.finalizedSlot ?? -1) || (await this.isOfChain(block))) return false;
    if ((await readHeader(store.read, chain, block.slot)) !== null) return false;
    const final = await source.header(block.slot, { commitment: 'finalized', signal });
    return final?.blockhash === block.blockhash;
  }

  /** Whether upstream and buffer still belong to this chain. Drops blocks of another chain from the buffer. */
  private async isTrusted(): Promise<boolean> {
    const { state, source, signal } = this.run;
    const { buffer } = this;
    const isSame = await source.confirmChain(signal);
    return !dropFromOtherChain({ source, buffer, state }) && isSame;
  }
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
