import { setMaxListeners } from 'node:events';
import { CodedError, codeOf, messageOf } from '../lib/coded-error.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainSource, ChainStatus } from '../ports/chain.ts';
import { createMutex } from '../runtime/semaphore.ts';
import { backoffMs, createWakeup } from '../runtime/waiting.ts';
import { auditLoop } from './audit.ts';
import { fillLoop } from './backfill.ts';
import { catchUp, readersOf } from './catch-up.ts';
import { isSameChain, verifyCommit } from './commit.ts';
import { consensusLoop, followedCommitment, learnConsensus } from './consensus.ts';
import { type BlockPosition, readCursor, readHeaders, readMarks, writeFirstFloor } from './cursor.ts';
import { failureReasonOf, fatalOf, guardProcessor } from './faults.ts';
import { createBlockBuffer, createFetcher, createSharedBlocks, type KeptFirst } from './fetch.ts';
import { countGaps } from './gap-records.ts';
import { recordGap } from './gaps.ts';
import { openKeptBlocks, readLedgerFirst } from './keep.ts';
import { missedBy, readPlacement } from './processors.ts';
import { followFork, rewind } from './reorg.ts';
import { createReleaseListeners, type FollowerOptions, type Run, type TraceBlock } from './run.ts';
import { createFollowMeter, lagOf, newFollowState } from './state.ts';
import { afterFailure, step } from './step.ts';
import { isStreamLeading, pollLoop, streamLoop } from './tip.ts';

/** What the follower adds to the status of its chain. */
export type FollowerStatus = Pick<
  ChainStatus,
  | 'tipSlot'
  | 'cursorSlot'
  | 'finalizedSlot'
  | 'finalizedAgeMs'
  | 'commitment'
  | 'consensus'
  | 'finality'
  | 'lagSlots'
  | 'slotMs'
  | 'stalled'
  | 'silentMs'
  | 'openGaps'
  | 'gaps'
  | 'leftBehind'
  | 'distrusted'
  | 'unread'
>;

export interface Follower {
  /** Starts in the background, and waits for an upstream that does not answer. */
  start(): Promise<void>;
  /** Finishes the current block and starts no other one. */
  drain(): Promise<void>;
  /** Ends everything and waits for the end. */
  stop(): Promise<void>;
  status(): FollowerStatus;
  /** Calls `listener` after each commit of a block. The returned function stops it. */
  onReleased(listener: (header: BlockHeader) => void): () => void;
}

/** Follows one chain: a block is handed to the processors, one transaction each, once its links prove that it continues the chain. */
export function createFollower(options: FollowerOptions): Follower {
  const stopped = new AbortController();
  // Every call in flight listens to it; the follower's own limits bound them.
  setMaxListeners(0, stopped.signal);
  const listeners = createReleaseListeners(options.log);
  const run = createRun(options, stopped.signal, listeners.call);
  let running: Promise<unknown> = Promise.resolve();
  let offHint = (): void => {};
  let offReleased = (): void => {};

  /** Ends the process or halts the chain; false for an error that a retry may fix. */
  function isFatal(error: unknown): boolean {
    const end = fatalOf(error);
    if (end !== null) {
      run.state.halted = failureReasonOf(error, 'writing');
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
      const { finality } = run.source;
      if (finality !== undefined) {
        offReleased = listeners.add(finality.released);
        finality.start((result) => run.meter.certificates.with(result).add());
      }
      running = main(run, isFatal);
    },
    async drain() {
      run.state.draining = true;
      await run.exclusive(async () => undefined).catch(() => undefined);
    },
    async stop() {
      run.state.draining = true;
      offHint();
      offReleased();
      stopped.abort(new Error('the follower stops'));
      await running;
      await run.source.finality?.stop();
      await run.fetcher.settled();
      await run.exclusive(async () => undefined).catch(() => undefined);
      await run.state.ledger?.close();
      run.state.ledger = null;
    },
    status: (): FollowerStatus => statusOf(run),
    onReleased: listeners.add,
  };
}

function createRun(options: FollowerOptions, signal: AbortSignal, onReleased: (header: BlockHeader) => void): Run {
  const { clock, random, core, chain } = options;
  const { follow } = core;
  const state = newFollowState(clock.monotonic(), options.isOnDemand);
  const meter = createFollowMeter(options.metrics, state, clock, () => options.source.finality?.status() ?? null);
  const wake = createWakeup(clock);
  const kept = readLedgerFirst(options.source, {
    ledger: () => state.ledger,
    cursor: () => state.cursor,
    log: options.log,
    served: () => meter.fromLedger.add(),
  });
  const shared = createSharedBlocks({
    source: { ...options.source, ...kept },
    signal,
    readers: (slot) => readersOf(state, slot),
    maxBytes: follow.bufferBytes / 2,
  });
  const source: ChainSource & KeptFirst = { ...options.source, ...kept, block: shared.block };
  const buffer = createBlockBuffer(follow.bufferBlocks, follow.bufferBytes);
  const fetcher = createFetcher({
    source,
    buffer,
    clock,
    random,
    signal,
    forget: shared.forget,
    commitment: () => followedCommitment({ follow, state }),
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
  const timeoutMs = () => follow.processorTimeoutSeconds * 1_000;
  const processors = options.processors
    .filter(({ chains }) => chains.includes(chain))
    .map((processor) =>
      guardProcessor(processor, {
        plugin: pluginOf(processor.name),
        timeoutMs,
        clock,
        signal,
        running: state.running,
      }),
    );
  const pollWake = createWakeup(clock);
  const exclusive = createMutex();
  const run: Run = {
    ...options,
    startLane: () => undefined,
    traceBlock: options.traceBlock ?? untraced,
    source,
    shared,
    processors,
    pluginOf,
    follow,
    signal,
    state,
    buffer,
    fetcher,
    meter,
    wake,
    pollWake,
    onReleased,
    exclusive: (work) => exclusive(() => verifyCommit(run).then(work)),
  };
  return run;
}

const untraced: TraceBlock = async (_slot, work, failed) => await work().catch(failed);

async function main(run: Run, isFatal: (error: unknown) => boolean): Promise<void> {
  const { signal, state, clock, random, log } = run;
  for (let attempts = 1; !signal.aborted && !state.started; attempts += 1) {
    try {
      await openChain(run);
    } catch (error) {
      if (signal.aborted || isFatal(error)) return;
      state.trouble = failureReasonOf(error, 'the start');
      log.warn({ chain: run.chain, code: codeOf(error), error: messageOf(error) }, 'the follower cannot start yet');
      await clock.sleep(backoffMs(attempts, random), signal).catch(() => undefined);
    }
  }
  if (signal.aborted) return;
  state.trouble = null;
  const lanes = new Set<Promise<void>>();
  run.startLane = (processor, fromSlot) => {
    const lane = catchUp(run, processor, isFatal, fromSlot).finally(() => lanes.delete(lane));
    lanes.add(lane);
  };
  for (const processor of state.catchingUp) run.startLane(processor);
  await Promise.all([
    pollLoop(run),
    streamLoop(run),
    auditLoop(run, isFatal),
    releaseLoop(run, isFatal),
    fillLoop(run, isFatal),
    stallLoop(run),
    consensusLoop(run),
  ]);
  await Promise.all(lanes);
}

async function releaseLoop(run: Run, isFatal: (error: unknown) => boolean): Promise<void> {
  const { signal, state, clock, follow } = run;
  while (!signal.aborted) {
    let acted = false;
    const waitMs = state.notBefore - clock.monotonic();
    if (!state.draining && state.halted === null && waitMs <= 0) {
      const failed = (error: unknown) => {
        if (!signal.aborted && !isFatal(error)) afterFailure(run, error);
      };
      acted = await step(run, failed).catch((error: unknown) => {
        failed(error);
        return false;
      });
      if (signal.aborted) return;
    }
    if (acted) continue;
    // What is due already waits for room or for a call in flight: their end wakes the loop.
    const dueInMs = (run.fetcher.nextDueAt() ?? 0) - clock.monotonic();
    const pauses = [follow.pollMs, waitMs, dueInMs].filter((ms) => ms > 0);
    await run.wake.sleep(Math.min(...pauses), signal);
  }
}

/** How late a stall may be reported. */
const STALL_CHECK_MS = 1_000;

/** Runs beside the release, which a processor can hold up. */
async function stallLoop(run: Run): Promise<void> {
  while (!run.signal.aborted) {
    reportStall(run);
    await run.clock.sleep(STALL_CHECK_MS, run.signal).catch(() => undefined);
  }
}

function statusOf(run: Run): FollowerStatus {
  const { tip, cursor, finalizedSlot, finalizedAt, openGaps, gaps, slotLength, leftBehind } = run.state;
  const lagSlots = tip === null || cursor === null ? null : lagOf(run.state, run.clock.monotonic());
  const distrusted = run.source.distrusted?.() ?? [];
  return {
    tipSlot: tip,
    cursorSlot: cursor?.slot ?? null,
    finalizedSlot,
    finalizedAgeMs: finalizedAt === null ? null : run.clock.monotonic() - finalizedAt,
    commitment: followedCommitment(run),
    consensus: run.state.consensus,
    ...(run.source.finality === undefined ? {} : { finality: run.source.finality.status() }),
    lagSlots,
    slotMs: slotLength.ms(),
    stalled: stalledBy(run),
    silentMs: run.clock.monotonic() - run.state.lastReleaseAt,
    openGaps,
    gaps,
    ...(leftBehind.size === 0 ? {} : { leftBehind: [...leftBehind.values()] }),
    ...(distrusted.length === 0 ? {} : { distrusted }),
    ...(run.state.unread === null ? {} : { unread: run.state.unread }),
  };
}

function stalledBy({ state, clock, follow, source }: Run): string | null {
  if (state.halted !== null) return state.halted;
  if (state.mismatch !== null) return state.mismatch;
  const disagreement = source.disagreement?.(state.cursor?.slot ?? -1) ?? null;
  if (disagreement !== null) return disagreement;
  if (state.hole?.denied) return `the block at slot ${state.hole.slot} exists and no upstream has it`;
  if (state.trouble !== null) return state.trouble;
  if (state.stuck.length > 0) return state.stuck.join('; ');
  const [laneTrouble] = state.laneTrouble.values();
  if (laneTrouble !== undefined) return laneTrouble;
  const now = clock.monotonic();
  const isLong = (since: number) => now - since >= follow.stalledAfterSeconds * 1_000;
  const secondsSince = (since: number) => Math.floor((now - since) / 1_000);
  if (isLong(state.lastAnswerAt)) return `no upstream has reported its tip for ${secondsSince(state.lastAnswerAt)} s`;
  if (!state.started || !isLong(state.lastReleaseAt) || lagOf(state, now) === 0) return null;
  const hanging = [...state.running].find(([, { since }]) => isLong(since));
  if (hanging !== undefined) return hangingText(hanging[0], hanging[1].slot, secondsSince(hanging[1].since));
  if (isLong(state.tipRoseAt)) return `the chain has made no block for ${secondsSince(state.tipRoseAt)} s`;
  return `no block could be released for ${secondsSince(state.lastReleaseAt)} s`;
}

const hangingText = (processor: string, slot: number | null, seconds: number): string =>
  `processor ${processor} has not returned for ${seconds} s${slot === null ? '' : `, at slot ${slot}`}`;

/** Logs once when the follower is stalled for long, and once when it continues. */
function reportStall(run: Run): void {
  const { state, chain, log, clock, follow } = run;
  const { stalled, cursorSlot, lagSlots } = statusOf(run);
  const isLong = clock.monotonic() - state.lastReleaseAt >= follow.stalledAfterSeconds * 1_000;
  if (stalled !== null && !state.isStallReported && (isLong || state.halted !== null)) {
    state.isStallReported = true;
    run.meter.stalls.add();
    log.error({ event: 'chain.stalled', chain, reason: stalled, cursorSlot, lagSlots }, 'the follower is stalled');
  } else if (stalled === null && state.isStallReported) {
    state.isStallReported = false;
    log.info({ event: 'chain.resumed', chain, cursorSlot }, 'the follower continues');
  }
}

const LONGEST_REACH_SLOTS = 100_000;

/**
 * Determines where to continue: after the stored cursor, or on a first start where the configuration says. A cursor that no upstream
 * reaches back to, or that is too old, makes a gap record. Errors: those of source and store; can be called again.
 */
async function openChain(run: Run): Promise<void> {
  const { chain, store, source, state, follow, signal } = run;
  if (!(await isSameChain(run)))
    throw new CodedError('CHAIN_UNREACHABLE', 'no upstream is confirmed to serve this chain', { retryable: true });
  await learnConsensus(run);
  const tip = await source.tip({ commitment: followedCommitment(run), signal });
  const first = await source.firstAvailable(signal);
  if (follow.rewindTo !== null) await rewind(run, follow.rewindTo);
  const marks = await readMarks(store.read, chain);
  state.cursor = await readCursor(store.read, chain);
  await openKeptBlocks(run);
  for (const header of (await readHeaders(store.read, chain, 0)).reverse())
    state.slotLength.sawBlock(header.slot, header.blockTime);
  if (marks === null) {
    const floor = follow.startSlot === 'latest' ? tip : follow.startSlot;
    state.floor = await store.write((tx) => writeFirstFloor(tx, chain, floor));
  } else {
    state.floor = marks.floor;
    state.finalizedSlot = marks.finalizedSlot;
    Object.assign(state, await readPlacement(store.read, chain, run.processors, state.cursor, state.floor));
    await skipUnavailable(run, await earliestOf(run, first, tip), first, tip);
  }
  Object.assign(state, await readPlacement(store.read, chain, run.processors, state.cursor, state.floor));
  await countGaps(store.read, chain, state);
  state.tip = tip;
  state.listFrom = first;
  state.listedTo = -1;
  const at = run.clock.monotonic();
  state.lastAnswerAt = at;
  state.lastReleaseAt = at;
  state.tipRoseAt = at;
  state.started = true;
  run.log.info(
    { chain, cursor: state.cursor?.slot ?? null, floor: state.floor, tip, stuck: state.stuck },
    'following the chain',
  );
}

/**
 * The earliest slot to continue from. Before slots are skipped, the upstream is asked again, between two checks of the chain it serves:
 * it may have served another one when it answered.
 */
async function earliestOf(run: Run, first: number, tip: number): Promise<number> {
  const { state, source, signal } = run;
  const next = state.cursor === null ? state.floor : state.cursor.slot + 1;
  if (first <= next) return catchUpFrom(run, tip);
  const isOurs = await isSameChain(run);
  const again = await source.firstAvailable(signal);
  if (!isOurs || !(await isSameChain(run)))
    throw new CodedError('CHAIN_UNREACHABLE', 'no upstream is confirmed to serve this chain', { retryable: true });
  return Math.max(Math.min(first, again), catchUpFrom(run, tip));
}

/** The earliest slot that is not too old, by the length of the last slots; 0 while that is unknown. */
function catchUpFrom({ state, follow }: Run, tip: number): number {
  if (follow.maxCatchupSlots !== null) return tip - follow.maxCatchupSlots;
  const slotMs = state.slotLength.ms();
  return slotMs === null ? 0 : Math.floor(tip - (follow.maxCatchupHours * 3_600_000) / slotMs);
}

/** Records a gap between the cursor, or the start of the chain, and the earliest available slot. */
async function skipUnavailable(run: Run, earliest: number, first: number, tip: number): Promise<void> {
  const { state, chain } = run;
  const before = state.cursor;
  if (earliest <= state.floor || (before !== null && earliest <= before.slot + 1)) return;
  // No block above the gap can show that the last block below it was forked away.
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
  run.log.error({ chain, ...gap }, 'slots are missing until they are filled');
}

/** Rolls back when the block at the cursor is no longer part of the chain. */
async function checkCursor(run: Run, cursor: BlockPosition, tip: number): Promise<void> {
  const { source, follow, signal } = run;
  const ask = { commitment: followedCommitment(run), signal } as const;
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
  await followFork(run, above);
}
