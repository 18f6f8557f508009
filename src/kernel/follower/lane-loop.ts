import { codeOf, messageOf } from '../../lib/coded-error.ts';
import type { BlockHeader } from '../../ports/block.ts';
import { createAdvance } from './advance.ts';
import { createAvoidList } from './avoid-list.ts';
import { beginLane } from './begin.ts';
import { createBlockBuffer } from './buffer.ts';
import type { FollowContext } from './context.ts';
import { createFetchAhead } from './fetch-ahead.ts';
import { resolveFork } from './fork.ts';
import type { Lane } from './lane.ts';

export interface LaneLoopOptions {
  readonly context: FollowContext;
  readonly lane: Lane;
  /** Highest slot the lane may release; null for none yet. */
  readonly limit: () => number | null;
  readonly finalizedSlot: () => number | null;
  readonly onTip: (slot: number) => void;
  readonly beforeRelease: () => void;
  readonly onReleased: (header: BlockHeader) => void;
  /** Whether the lane has nothing left to do. */
  readonly isDone: () => boolean;
  /** Resolves when something may have happened at the tip, at the latest after `ms`. */
  readonly pause: (ms: number) => Promise<void>;
  /** The process must end. */
  readonly fatal: (error: unknown) => void;
}

export interface LaneLoop {
  run(): Promise<void>;
  /** The finality audit found another block where the lane has one: look at the branch before going on. */
  suspect(header: BlockHeader): void;
}

const LONGEST_PAUSE_MS = 10_000;
const FIRST_PAUSE_MS = 250;
/** The process cannot go on with its cursors. */
const FATAL = new Set(['FOLLOW_FENCED', 'STORE_IO', 'STORE_READ_ONLY']);

type Round = 'progress' | 'idle' | 'stalled';

/** Follows the chain with one lane until it is stopped or done. */
export function createLaneLoop(options: LaneLoopOptions): LaneLoop {
  const { context, lane } = options;
  const { chain, source, follow, clock, random, log, signal } = context;
  const buffer = createBlockBuffer();
  const avoid = createAvoidList(source.upstreamCount);
  const advance = createAdvance({ ...options, buffer, avoid });
  const ask = { commitment: follow.commitment, signal };
  let begun = false;
  let suspected: BlockHeader | null = null;

  async function round(): Promise<Round> {
    if (!begun) await beginLane(context, lane);
    begun = true;
    if (suspected !== null) await lookAtSuspect();
    const blocked = pressureOf(lane);
    const tip = await source.tip(ask);
    options.onTip(tip);
    lane.stalled = blocked ?? lane.stalled;
    if (blocked !== null) return 'stalled';
    const from = lane.startSlot ?? (lane.position === null ? tip : lane.position.slot + 1);
    const limit = options.limit() ?? Number.NEGATIVE_INFINITY;
    const target = Math.min(tip, from + follow.window - 1, limit);
    if (target < from) return 'idle';
    const before = lane.position?.slot;
    const listed = await source.produced(from, target, ask);
    const slots = [...new Set(listed)]
      .filter((slot) => slot >= from && slot <= target && !buffer.has(slot))
      .sort((a, b) => a - b);
    const outcome = await fetchAndRelease(slots, tip - from > follow.window);
    if (outcome === 'stalled') return 'stalled';
    return lane.position?.slot !== before || outcome === 'rolled-back' ? 'progress' : 'idle';
  }

  async function fetchAndRelease(
    slots: readonly number[],
    catchingUp: boolean,
  ): Promise<'empty' | 'rolled-back' | 'stalled'> {
    const concurrency = catchingUp ? follow.catchUpConcurrency : follow.concurrency;
    const room = Math.max(1, Math.floor(follow.bufferBytes / follow.maxBodyBytes));
    const fetches = createFetchAhead(
      slots,
      Math.min(concurrency, follow.bufferBlocks, room),
      (slot, own) => source.block(slot, { ...ask, signal: own, avoid: avoid.of(slot) }),
      signal,
    );
    try {
      if (buffer.size > 0 && slots.length === 0) return await advance();
      for (let next = await fetches.next(); next !== null; next = await fetches.next()) {
        const { slot, answer } = next;
        if (answer.kind === 'not-yet') return 'empty';
        if (answer.kind === 'pruned') return await pruned(slot);
        // A skip is only a claim: the parent of a later block proves it, or shows that it is wrong.
        if (answer.kind === 'skipped') avoid.add(slot, answer.upstream);
        else buffer.put(answer);
        const outcome = await advance();
        if (outcome !== 'empty') return outcome;
      }
      return 'empty';
    } finally {
      fetches.cancel();
    }
  }

  /** No upstream has the block any more. What is out of reach for all becomes a gap; else somebody will have it. */
  async function pruned(slot: number): Promise<'empty' | 'stalled'> {
    const first = await source.firstAvailable(signal);
    if (first > slot) await beginLane(context, lane);
    else lane.stalled = `no upstream has the block at slot ${slot} any more`;
    return first > slot ? 'empty' : 'stalled';
  }

  async function lookAtSuspect(): Promise<void> {
    const header = suspected as BlockHeader;
    suspected = null;
    const own = lane.headers.find(({ slot }) => slot === header.slot);
    if (own === undefined || own.blockhash === header.blockhash) return;
    const outcome = await resolveFork(context, lane, header, options.finalizedSlot());
    if (outcome.kind === 'contradiction')
      log.warn(
        { chain, slot: header.slot, reason: outcome.reason },
        'the finality audit was answered with a contradiction',
      );
  }

  /** What to do after an error; null ends the lane. */
  function afterError(error: unknown, failures: number): number | null {
    const code = codeOf(error) ?? '';
    lane.stalled = messageOf(error);
    if (FATAL.has(code)) {
      options.fatal(error);
      return null;
    }
    if (code === 'FOLLOW_DEEP_FORK') {
      log.fatal({ chain, lane: lane.id, error: messageOf(error) }, 'following stops');
      return null;
    }
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures) * (0.8 + 0.4 * random.float());
    log.warn({ chain, lane: lane.id, code, error: messageOf(error), pauseMs: Math.round(pauseMs) }, 'following pauses');
    return pauseMs;
  }

  return {
    suspect(header) {
      suspected = header;
    },
    async run() {
      for (let failures = 0; !signal.aborted && !options.isDone(); ) {
        try {
          const result = await round();
          failures = result === 'stalled' ? failures + 1 : 0;
          if (result === 'idle') {
            lane.stalled = null;
            await options.pause(follow.pollMs);
          }
          if (result === 'stalled')
            await clock.sleep(Math.min(LONGEST_PAUSE_MS, follow.pollMs * 2 ** Math.min(failures, 5)), signal);
        } catch (error) {
          if (signal.aborted) return;
          const pauseMs = afterError(error, failures);
          if (pauseMs === null) return;
          failures += 1;
          await clock.sleep(pauseMs, signal).catch(() => {});
        }
      }
    },
  };
}

function pressureOf(lane: Lane): string | null {
  for (const processor of lane.processors) {
    const pressure = processor.pressure?.();
    if (pressure?.ok === false) return `${processor.name}: ${pressure.reason}`;
  }
  return null;
}
