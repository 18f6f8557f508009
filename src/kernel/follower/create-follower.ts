import { setMaxListeners } from 'node:events';
import { codeOf, messageOf } from '../../lib/coded-error.ts';
import type { BlockHeader } from '../../ports/block.ts';
import { fillLoop } from './backfill/fill-loop.ts';
import { backoffMs } from './backoff.ts';
import { createBlockBuffer } from './buffer.ts';
import { catchUp } from './catch-up.ts';
import type { Follower, FollowerOptions, FollowerStatus } from './contract.ts';
import { settleDoubt } from './doubt.ts';
import { createFetcher } from './fetcher.ts';
import { auditLoop } from './finality-audit.ts';
import { createFollowMeter } from './follow-meter.ts';
import { newState } from './follow-state.ts';
import { openChain } from './open-chain.ts';
import { pollLoop } from './poll.ts';
import type { Run } from './run.ts';
import { watchStall } from './stall.ts';
import { statusOf } from './status-of.ts';
import { afterFailure, step } from './step.ts';
import { isStreamLeading, streamLoop } from './stream.ts';
import { fatalOf, reasonOf } from './trouble.ts';
import { createTurn } from './turn.ts';
import { createWake } from './wake.ts';

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
        if (!isStreamLeading(run)) run.pollWake.call();
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
  const { source, clock, random, core, chain } = options;
  const { follow } = core;
  const state = newState(clock.monotonic());
  const meter = createFollowMeter(options.metrics, state, clock);
  const wake = createWake(clock);
  const buffer = createBlockBuffer(follow.bufferBlocks, follow.bufferBytes);
  const fetcher = createFetcher({
    ...{ source, buffer, clock, random, signal, commitment: follow.commitment },
    concurrency: () =>
      (state.tip ?? 0) - (state.cursor?.slot ?? 0) > follow.window ? follow.catchUpConcurrency : follow.concurrency,
    releasedSlot: () => state.cursor?.slot ?? -1,
    wake: wake.call,
    timed: (seconds) => meter.fetchSeconds.record(seconds),
    count(what, code) {
      if (what === 'retried') meter.retried.with(code ?? 'unknown').add();
      else meter[what].add();
    },
  });
  const processors = options.processors.filter(({ chains }) => chains.includes(chain));
  const pollWake = createWake(clock);
  const turn = createTurn();
  const run: Run = {
    ...options,
    ...{ processors, follow, signal, state, buffer, fetcher, meter, wake, pollWake, told },
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
  await Promise.all([
    pollLoop(run),
    streamLoop(run),
    auditLoop(run, isOver),
    releaseLoop(run, isOver),
    fillLoop(run, isOver),
    ...state.catchingUp.map((processor) => catchUp(run, processor, isOver)),
  ]);
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
    await run.wake.wait(Math.min(...pauses), signal);
  }
}

function tell({ log }: FollowerOptions, listener: (header: BlockHeader) => void, header: BlockHeader): void {
  try {
    listener(header);
  } catch (error) {
    log.error({ error: messageOf(error), slot: header.slot }, 'a listener for released blocks threw');
  }
}
