import { setMaxListeners } from 'node:events';
import { CodedError, codeOf, messageOf } from '../lib/coded-error.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainSource, ChainStatus } from '../ports/chain.ts';
import { backoffMs } from '../runtime/backoff.ts';
import { createSemaphore } from '../runtime/semaphore.ts';
import { createWakeup } from '../runtime/wakeup.ts';
import { auditLoop } from './audit.ts';
import { fillLoop } from './backfill.ts';
import { catchUp, readersOf } from './catch-up.ts';
import { isSameChain, verifyCommit } from './commit.ts';
import { type Position, readCursor, readHeaders, readMarks, writeFirstFloor } from './cursor.ts';
import { fatalOf, guardProcessor, reasonOf } from './faults.ts';
import { createBlockBuffer, createFetcher, createSharedBlocks } from './fetch.ts';
import { countGaps, recordGap } from './gaps.ts';
import { missedBy, readMembers } from './processors.ts';
import { healFork, rewind } from './reorg.ts';
import type { FollowerOptions, Run } from './run.ts';
import { createFollowMeter, lagOf, newState } from './state.ts';
import { afterFailure, step } from './step.ts';
import { isStreamLeading, pollLoop, streamLoop } from './tip.ts';

/** What the follower adds to the status of its chain. */
export type FollowerStatus = Pick<
  ChainStatus,
  'tipSlot' | 'cursorSlot' | 'finalizedSlot' | 'lagSlots' | 'slotMs' | 'stalled' | 'openGaps' | 'gaps' | 'leftBehind'
>;

export interface Follower {
  /** Begins in the background; an upstream that does not answer is waited for. */
  start(): Promise<void>;
  /** The block in work is finished, no further one is begun. */
  drain(): Promise<void>;
  /** Ends everything and waits for it. */
  stop(): Promise<void>;
  status(): FollowerStatus;
  /** Calls `listener` after each commit of a block. The returned function stops it. */
  onReleased(listener: (header: BlockHeader) => void): () => void;
}

/** Follows one chain: blocks are proven to continue each other before they are handed to the processors, one transaction each. */
export function createFollower(options: FollowerOptions): Follower {
  const stopped = new AbortController();
  // Every call that runs listens to it: they are bounded by the follower's own limits, not by ten.
  setMaxListeners(0, stopped.signal);
  const listeners = new Set<(header: BlockHeader) => void>();
  const run = createRun(options, stopped.signal, (header) => {
    for (const listener of listeners) tell(options, listener, header);
  });
  let running: Promise<unknown> = Promise.resolve();
  let offHint = (): void => {};

  /** Ends the process, halts the chain, or passes the error back as one that trying again may heal. */
  function isOver(error: unknown): boolean {
    const end = fatalOf(error);
    if (end !== null) {
      run.state.halted = reasonOf(error, 'writing');
      options.fatal(end);
      return true;
    }
    if (codeOf(error) !== 'FOLLOW_DEEP_FORK') return false;
    run.state.halted = `${codeOf(error)}: ${messageOf(error)}`;
    run.log.fatal({ chain: run.chain, code: codeOf(error) }, messageOf(error));
    return true;
  }

  return {
    async start() {
      offHint = run.source.onHint(() => {
        if (!isStreamLeading(run)) run.pollWake.wake();
      });
      running = main(run, isOver);
    },
    async drain() {
      run.state.draining = true;
      await run.exclusive(async () => undefined).catch(() => undefined);
    },
    async stop() {
      run.state.draining = true;
      offHint();
      stopped.abort(new Error('the follower stops'));
      await running;
      await run.fetcher.settled();
      await run.exclusive(async () => undefined).catch(() => undefined);
    },
    status: (): FollowerStatus => statusOf(run),
    onReleased(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function createRun(options: FollowerOptions, signal: AbortSignal, told: (header: BlockHeader) => void): Run {
  const { clock, random, core, chain } = options;
  const { follow } = core;
  const state = newState(clock.monotonic());
  const meter = createFollowMeter(options.metrics, state, clock);
  const wake = createWakeup(clock);
  const shared = createSharedBlocks({
    ...{ source: options.source, signal, readers: (slot) => readersOf(state, slot) },
    maxBytes: follow.bufferBytes / 2,
  });
  const source: ChainSource = { ...options.source, block: shared.block };
  const buffer = createBlockBuffer(follow.bufferBlocks, follow.bufferBytes);
  const fetcher = createFetcher({
    ...{ source, buffer, clock, random, signal, commitment: follow.commitment, forget: shared.forget },
    concurrency: () =>
      (state.tip ?? 0) - (state.cursor?.slot ?? 0) > follow.window ? follow.catchUpConcurrency : follow.concurrency,
    releasedSlot: () => state.cursor?.slot ?? -1,
    wake: wake.wake,
    timed: (seconds) => meter.fetchSeconds.record(seconds),
    count(what, code) {
      if (what === 'retried') meter.retried.with(code ?? 'unknown').add();
      else meter[what].add();
    },
  });
  const pluginOf = options.pluginOf ?? ((processor: string) => processor);
  const timeoutMs = follow.processorTimeoutSeconds * 1_000;
  const processors = options.processors
    .filter(({ chains }) => chains.includes(chain))
    .map((processor) => guardProcessor(processor, { plugin: pluginOf(processor.name), timeoutMs, clock, signal }));
  const pollWake = createWakeup(clock);
  const writes = createSemaphore({ concurrency: 1 });
  const run: Run = {
    ...options,
    startLane: () => undefined,
    ...{ source, shared, processors, pluginOf, follow, signal, state, buffer, fetcher, meter, wake, pollWake, told },
    exclusive: (work) => writes.run(() => verifyCommit(run).then(work)),
  };
  return run;
}

async function main(run: Run, isOver: (error: unknown) => boolean): Promise<void> {
  const { signal, state, clock, random, log } = run;
  for (let attempts = 1; !signal.aborted && !state.begun; attempts += 1) {
    try {
      await openChain(run);
    } catch (error) {
      if (signal.aborted || isOver(error)) return;
      state.trouble = reasonOf(error, 'beginning');
      log.warn({ chain: run.chain, code: codeOf(error), error: messageOf(error) }, 'cannot begin to follow yet');
      await clock.sleep(backoffMs(attempts, random), signal).catch(() => undefined);
    }
  }
  if (signal.aborted) return;
  state.trouble = null;
  const lanes = new Set<Promise<void>>();
  run.startLane = (processor, fromSlot) => {
    const lane = catchUp(run, processor, isOver, fromSlot).finally(() => lanes.delete(lane));
    lanes.add(lane);
  };
  for (const processor of state.catchingUp) run.startLane(processor);
  await Promise.all([
    pollLoop(run),
    streamLoop(run),
    auditLoop(run, isOver),
    releaseLoop(run, isOver),
    fillLoop(run, isOver),
  ]);
  await Promise.all(lanes);
}

async function releaseLoop(run: Run, isOver: (error: unknown) => boolean): Promise<void> {
  const { signal, state, clock, follow } = run;
  while (!signal.aborted) {
    let acted = false;
    const waitMs = state.notBefore - clock.monotonic();
    if (!state.draining && state.halted === null && waitMs <= 0) {
      try {
        acted = await step(run);
      } catch (error) {
        if (signal.aborted) return;
        if (!isOver(error)) afterFailure(run, error);
      }
    }
    watchStall(run);
    if (acted) continue;
    // What is due already waits for room or for a call that runs: their end wakes the loop.
    const dueInMs = (run.fetcher.nextDueAt() ?? 0) - clock.monotonic();
    const pauses = [follow.pollMs, waitMs, dueInMs].filter((ms) => ms > 0);
    await run.wake.sleep(Math.min(...pauses), signal);
  }
}

function tell({ log }: FollowerOptions, listener: (header: BlockHeader) => void, header: BlockHeader): void {
  try {
    listener(header);
  } catch (error) {
    log.error({ error: messageOf(error), slot: header.slot }, 'a listener for released blocks threw');
  }
}

function statusOf(run: Run): FollowerStatus {
  const { tip, cursor, finalizedSlot, openGaps, gaps, slotLength, leftBehind } = run.state;
  const lagSlots = tip === null || cursor === null ? null : lagOf(run.state, run.clock.monotonic());
  return {
    tipSlot: tip,
    cursorSlot: cursor?.slot ?? null,
    finalizedSlot,
    lagSlots,
    slotMs: slotLength.ms(),
    stalled: stalledBy(run, lagSlots),
    openGaps,
    gaps,
    ...(leftBehind.size === 0 ? {} : { leftBehind: [...leftBehind.values()] }),
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

/** Tells once when following has stood still for long, and once when it goes on. */
function watchStall(run: Run): void {
  const { state, chain, log, clock, follow } = run;
  const { stalled, cursorSlot, lagSlots } = statusOf(run);
  const isLong = clock.monotonic() - state.lastReleaseAt >= follow.stalledAfterSeconds * 1_000;
  if (stalled !== null && !state.stallTold && (isLong || state.halted !== null)) {
    state.stallTold = true;
    run.meter.stalls.add();
    log.error({ event: 'chain.stalled', chain, reason: stalled, cursorSlot, lagSlots }, 'following stands still');
  } else if (stalled === null && state.stallTold) {
    state.stallTold = false;
    log.info({ event: 'chain.resumed', chain, cursorSlot }, 'following goes on');
  }
}

const LONGEST_REACH_SLOTS = 100_000;

/**
 * Finds out where to go on: behind the stored cursor, or on a first start where the configuration says. A cursor that no upstream
 * reaches back to, or that is too old, makes a gap record. Errors: those of source and store; can be called again.
 */
async function openChain(run: Run): Promise<void> {
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
