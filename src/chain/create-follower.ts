import { setMaxListeners } from 'node:events';
import { codeOf, messageOf } from '../lib/coded-error.ts';
import type { BlockHeader } from '../ports/block.ts';
import type { ChainSource } from '../ports/chain.ts';
import { backoffMs } from '../runtime/backoff.ts';
import { createWakeup } from '../runtime/wakeup.ts';
import { fillLoop } from './backfill/fill-loop.ts';
import { createBlockBuffer } from './buffer.ts';
import { catchUp } from './catch-up.ts';
import type { Follower, FollowerOptions, FollowerStatus } from './contract.ts';
import { settleDoubt } from './doubt.ts';
import { createFetcher } from './fetcher.ts';
import { auditLoop } from './finality-audit.ts';
import { createFollowMeter } from './follow-meter.ts';
import { lagOf, newState } from './follow-state.ts';
import { guardProcessor } from './guard-processor.ts';
import { readersOf } from './lanes.ts';
import { openChain } from './open-chain.ts';
import { pollLoop } from './poll.ts';
import type { Run } from './run.ts';
import { createSharedBlocks } from './shared-blocks.ts';
import { afterFailure, step } from './step.ts';
import { isStreamLeading, streamLoop } from './stream.ts';
import { fatalOf, reasonOf } from './trouble.ts';
import { createTurn } from './turn.ts';

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
      await run.turn(async () => undefined).catch(() => undefined);
    },
    async stop() {
      run.state.draining = true;
      offHint();
      stopped.abort(new Error('the follower stops'));
      await running;
      await run.fetcher.settled();
      await run.turn(async () => undefined).catch(() => undefined);
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
  const turn = createTurn();
  const run: Run = {
    ...options,
    startLane: () => undefined,
    ...{ source, shared, processors, pluginOf, follow, signal, state, buffer, fetcher, meter, wake, pollWake, told },
    turn: (work) => turn(() => settleDoubt(run).then(work)),
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
