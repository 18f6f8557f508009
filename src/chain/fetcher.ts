import { codeOf } from '../lib/coded-error.ts';
import type { BlockAnswer, ChainSource, Commitment } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import { backoffMs } from '../runtime/backoff.ts';
import type { BlockBuffer } from './buffer.ts';
import { STREAM } from './follow-state.ts';

/** What is known of a slot whose block is wanted. */
export interface Ask {
  readonly slot: number;
  /** A later block names it as its parent, so it exists: nobody's "skipped" is believed. */
  isProven: boolean;
  /** Upstreams that are of no use for it in this round. */
  readonly avoid: Set<string>;
  readonly saidSkipped: Set<string>;
  readonly saidPruned: Set<string>;
  /** How often each said so of a block that it should still have. */
  readonly unlikely: Map<string, number>;
  attempts: number;
  /** Rounds in which every upstream denied a block that exists. */
  deniedRounds: number;
  /** Monotonic ms. */
  dueAt: number;
  inFlight: boolean;
}

export interface FetcherOptions {
  readonly source: Pick<ChainSource, 'block' | 'upstreamCount' | 'distrust' | 'firstAvailable'>;
  /** Told when what was given for a slot is not believed. */
  readonly forget?: (slot: number) => void;
  readonly commitment: Commitment;
  readonly buffer: BlockBuffer;
  readonly clock: Clock;
  readonly random: Random;
  readonly signal: AbortSignal;
  readonly concurrency: () => number;
  /** Blocks at or below it are of no use any more. */
  readonly releasedSlot: () => number;
  /** Called when something changed. */
  readonly wake: () => void;
  readonly count: (what: 'fetched' | 'retried' | 'contradicted', code?: string) => void;
  /** Told how long each call for a block took. */
  readonly timed?: (seconds: number) => void;
}

/** Fetches wanted slots, lowest first, a bounded number at once, until each is held, proven useless or no longer wanted. */
export interface Fetcher {
  want(slot: number): void;
  /** Wants a block that is proven to exist. */
  need(slot: number): Ask;
  /** Fetches it again, from others than `upstream` where there are others. */
  again(slot: number, upstream: string): void;
  isPruned(slot: number): boolean;
  /** Slots below `slot` that may still turn into blocks. */
  openBelow(slot: number): boolean;
  /** The highest wanted slot when every wanted slot is pruned everywhere, else null. */
  allPruned(): number | null;
  pump(): void;
  /** Monotonic ms of the next retry, or null. */
  nextDueAt(): number | null;
  dropThrough(slot: number): void;
  clear(): void;
  /** Waits for the calls that run. */
  settled(): Promise<void>;
}

/** Answers of one upstream that a block is gone which it should still have, until that is believed. */
const UNLIKELY_TIMES = 5;

export function createFetcher(options: FetcherOptions): Fetcher {
  const { source, buffer, clock, random, signal } = options;
  const asks = new Map<number, Ask>();
  const running = new Set<Promise<void>>();
  const isPruned = (ask: Ask | undefined) => ask !== undefined && ask.saidPruned.size >= source.upstreamCount;

  function want(slot: number): Ask {
    const known = asks.get(slot);
    if (known !== undefined) return known;
    const ask = newAsk(slot);
    asks.set(slot, ask);
    return ask;
  }

  function later(ask: Ask): void {
    ask.attempts += 1;
    ask.dueAt = clock.monotonic() + backoffMs(ask.attempts, random);
  }

  function useless(ask: Ask, upstream: string): void {
    ask.avoid.add(upstream);
    if (ask.avoid.size < source.upstreamCount) return;
    ask.avoid.clear();
    ask.deniedRounds += 1;
    later(ask);
  }

  /** Whether it is believed that the block is gone. A node may say so once of what it lists and has. */
  async function isGone({ slot, unlikely }: Ask, upstream: string): Promise<boolean> {
    if (slot < (await source.firstAvailable(signal).catch(() => 0))) return true;
    const times = (unlikely.get(upstream) ?? 0) + 1;
    unlikely.set(upstream, times);
    return times >= UNLIKELY_TIMES;
  }

  async function take(ask: Ask, answer: BlockAnswer): Promise<void> {
    if (asks.get(ask.slot) !== ask) return;
    switch (answer.kind) {
      case 'block':
        for (const liar of ask.isProven ? ask.saidSkipped : [])
          if (liar !== answer.upstream) {
            options.count('contradicted');
            source.distrust(liar, `said that slot ${ask.slot} was skipped`);
          }
        asks.delete(ask.slot);
        options.count('fetched');
        if (ask.slot > options.releasedSlot()) buffer.put({ block: answer.block, upstream: answer.upstream });
        return;
      case 'skipped':
        ask.saidSkipped.add(answer.upstream);
        if (ask.isProven) useless(ask, answer.upstream);
        else asks.delete(ask.slot);
        return;
      case 'pruned':
        options.count('retried', 'pruned');
        if (await isGone(ask, answer.upstream)) {
          ask.saidPruned.add(answer.upstream);
          useless(ask, answer.upstream);
          return;
        }
        ask.avoid.add(answer.upstream);
        if (ask.avoid.size < source.upstreamCount) return;
        ask.avoid.clear();
        later(ask);
        return;
      case 'not-yet':
        options.count('retried', 'not-yet');
        later(ask);
    }
  }

  async function fetchOne(ask: Ask): Promise<void> {
    ask.inFlight = true;
    const startedAt = clock.monotonic();
    try {
      const avoid = [...ask.avoid];
      const answer = await source.block(ask.slot, { commitment: options.commitment, signal, avoid });
      options.timed?.((clock.monotonic() - startedAt) / 1_000);
      await take(ask, answer);
    } catch (error) {
      if (signal.aborted) return;
      options.count('retried', codeOf(error) ?? 'unknown');
      // Those that are left may be the ones that do not answer: the next try asks everyone again.
      ask.avoid.clear();
      later(ask);
    } finally {
      ask.inFlight = false;
      options.wake();
    }
  }

  return {
    want: (slot) => void want(slot),
    need(slot) {
      const ask = want(slot);
      ask.isProven = true;
      return ask;
    },
    again(slot, upstream) {
      buffer.remove(slot);
      options.forget?.(slot);
      asks.delete(slot);
      const ask = want(slot);
      if (source.upstreamCount > 1 && upstream !== STREAM) ask.avoid.add(upstream);
      later(ask);
    },
    isPruned: (slot) => isPruned(asks.get(slot)),
    openBelow: (slot) => [...asks.values()].some((ask) => ask.slot < slot && !isPruned(ask)),
    allPruned: () =>
      asks.size > 0 && [...asks.values()].every((ask) => isPruned(ask)) ? Math.max(...asks.keys()) : null,
    pump() {
      const now = clock.monotonic();
      const due = [...asks.values()].filter((ask) => !ask.inFlight && ask.dueAt <= now).sort((a, b) => a.slot - b.slot);
      for (const ask of due) {
        if (running.size >= options.concurrency() || !buffer.hasRoomFor(ask.slot, running.size)) return;
        const run = fetchOne(ask).finally(() => running.delete(run));
        running.add(run);
      }
    },
    nextDueAt() {
      const waiting = [...asks.values()].filter((ask) => !ask.inFlight);
      return waiting.length === 0 ? null : Math.min(...waiting.map((ask) => ask.dueAt));
    },
    dropThrough(slot) {
      for (const known of [...asks.keys()]) if (known <= slot) asks.delete(known);
    },
    clear: () => asks.clear(),
    settled: async () => void (await Promise.allSettled(running)),
  };
}

const newAsk = (slot: number): Ask => ({
  slot,
  isProven: false,
  avoid: new Set(),
  saidSkipped: new Set(),
  saidPruned: new Set(),
  unlikely: new Map(),
  attempts: 0,
  deniedRounds: 0,
  dueAt: Number.NEGATIVE_INFINITY,
  inFlight: false,
});
