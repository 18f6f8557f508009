import { codeOf } from '../lib/coded-error.ts';
import type { ChainBlock } from '../ports/block.ts';
import type { AskOptions, BlockAnswer, ChainSource, Commitment } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import { type BackoffOptions, backoffMs, orAborted } from '../runtime/waiting.ts';
import { LEDGER, STREAM } from './state.ts';

/** A source that asks the ledger first. */
export interface KeptFirst extends Pick<ChainSource, 'block' | 'produced' | 'history'> {
  /** Like `header`, but the answer of the ledger needs no confirmation by an upstream. */
  headerFirst: ChainSource['header'];
  /** The first slot from which on the ledger knows every slot; infinite without one. */
  firstKept(): number;
}

/** What is known of a slot whose block is wanted. */
export interface BlockWish {
  readonly slot: number;
  /** A later block names it as its parent, so it exists: nobody's "skipped" is believed. */
  isProven: boolean;
  /** Upstreams not to be asked in this round. */
  readonly avoid: Set<string>;
  readonly saidSkipped: Set<string>;
  readonly saidPruned: Set<string>;
  /** How often each reported as pruned a block that it should still have. */
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
  /** Called when the block given for a slot is not trusted. */
  readonly forget?: (slot: number) => void;
  /** Commitment of the next call. */
  readonly commitment: () => Commitment;
  readonly buffer: BlockBuffer;
  readonly clock: Clock;
  readonly random: Random;
  readonly signal: AbortSignal;
  readonly concurrency: () => number;
  /** Blocks at or below it are no longer needed. */
  readonly releasedSlot: () => number;
  /** Called when something changed. */
  readonly wake: () => void;
  readonly count: (what: 'fetched' | 'retried' | 'contradicted', code?: string) => void;
  /** Called with the duration of each call for a block. */
  readonly timed?: (seconds: number) => void;
}

/** Fetches wanted slots, lowest first, a bounded number at once, until each is held, proven avoidUpstream or no longer wanted. */
export interface Fetcher {
  want(slot: number): void;
  /** Wants a block that is proven to exist. */
  need(slot: number): BlockWish;
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
  /** Waits for the calls in flight. */
  settled(): Promise<void>;
}

/** A node lists the newest block some milliseconds before it has it (Agave 4.4.0: up to 15 ms). */
const HEAD_BACKOFF: BackoffOptions = { firstMs: 30 };

/** One upstream has to report a block that it should have as pruned this often before that is accepted. */
const UNLIKELY_TIMES = 5;

export function createFetcher(options: FetcherOptions): Fetcher {
  const { source, buffer, clock, random, signal } = options;
  const asks = new Map<number, BlockWish>();
  const running = new Set<Promise<void>>();
  const isPruned = (ask: BlockWish | undefined) => ask !== undefined && ask.saidPruned.size >= source.upstreamCount();

  function want(slot: number): BlockWish {
    const known = asks.get(slot);
    if (known !== undefined) return known;
    const ask = newAsk(slot);
    asks.set(slot, ask);
    return ask;
  }

  function later(ask: BlockWish, backoff?: BackoffOptions): void {
    ask.attempts += 1;
    ask.dueAt = clock.monotonic() + backoffMs(ask.attempts, random, backoff);
  }

  function avoidUpstream(ask: BlockWish, upstream: string): void {
    ask.avoid.add(upstream);
    if (ask.avoid.size < source.upstreamCount()) return;
    ask.avoid.clear();
    ask.deniedRounds += 1;
    later(ask);
  }

  /** Whether the block counts as gone. A node may report as pruned, once, a block that it lists and has. */
  async function isGone({ slot, unlikely }: BlockWish, upstream: string): Promise<boolean> {
    if (slot < (await source.firstAvailable(signal).catch(() => 0))) return true;
    const times = (unlikely.get(upstream) ?? 0) + 1;
    unlikely.set(upstream, times);
    return times >= UNLIKELY_TIMES;
  }

  async function take(ask: BlockWish, answer: BlockAnswer, commitment: Commitment): Promise<void> {
    if (asks.get(ask.slot) !== ask) return;
    switch (answer.kind) {
      case 'block':
        for (const upstream of ask.saidSkipped)
          if (upstream !== answer.upstream) {
            options.count('contradicted');
            if (ask.isProven) source.distrust(upstream, `said that slot ${ask.slot} was skipped`);
          }
        asks.delete(ask.slot);
        options.count('fetched');
        if (ask.slot > options.releasedSlot())
          buffer.put({ block: answer.block, upstream: answer.upstream, commitment });
        return;
      case 'skipped': {
        const isRepeated = ask.saidSkipped.has(answer.upstream);
        ask.saidSkipped.add(answer.upstream);
        if (ask.isProven) avoidUpstream(ask, answer.upstream);
        // Somebody listed it. A node that has lost a range says of each slot that it was skipped, and no later block would prove it wrong.
        else if (!isRepeated && ask.saidSkipped.size < source.upstreamCount()) ask.avoid.add(answer.upstream);
        else asks.delete(ask.slot);
        return;
      }
      case 'pruned':
        options.count('retried', 'pruned');
        if (await isGone(ask, answer.upstream)) {
          ask.saidPruned.add(answer.upstream);
          avoidUpstream(ask, answer.upstream);
          return;
        }
        ask.avoid.add(answer.upstream);
        if (ask.avoid.size < source.upstreamCount()) return;
        ask.avoid.clear();
        later(ask);
        return;
      case 'not-yet':
        options.count('retried', 'not-yet');
        later(ask, HEAD_BACKOFF);
    }
  }

  async function fetchOne(ask: BlockWish): Promise<void> {
    ask.inFlight = true;
    const startedAt = clock.monotonic();
    try {
      const avoid = [...ask.avoid];
      const commitment = options.commitment();
      const answer = await source.block(ask.slot, { commitment, signal, avoid });
      options.timed?.((clock.monotonic() - startedAt) / 1_000);
      await take(ask, answer, commitment);
    } catch (error) {
      if (signal.aborted) return;
      options.count('retried', codeOf(error) ?? 'unknown');
      // Nobody is left who could say otherwise.
      if (ask.saidSkipped.size > 0 && !ask.isProven && asks.get(ask.slot) === ask) {
        asks.delete(ask.slot);
        return;
      }
      // The remaining upstreams may be the ones that do not answer: the next attempt asks all again.
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
      if (upstream === LEDGER || (source.upstreamCount() > 1 && upstream !== STREAM)) ask.avoid.add(upstream);
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

const newAsk = (slot: number): BlockWish => ({
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

export interface FetchedBlock {
  readonly block: ChainBlock;
  readonly upstream: string;
  /** Commitment of the request. At `finalized`, no fork can remove the block. */
  readonly commitment: Commitment;
}

/** Fetched blocks that are not released yet, by slot, bounded by count and bytes. */
export interface BlockBuffer {
  readonly size: number;
  /** The one with the lowest slot. */
  first(): FetchedBlock | null;
  /** The one with the lowest slot above this one. */
  after(slot: number): FetchedBlock | null;
  get(slot: number): FetchedBlock | null;
  has(slot: number): boolean;
  /** Replaces what was held for the slot. */
  put(held: FetchedBlock): void;
  remove(slot: number): void;
  /** Forgets everything at or below a slot. */
  dropThrough(slot: number): void;
  /** Whether a block of this slot fits while `coming` others are in flight. One below all others always fits. */
  hasRoomFor(slot: number, coming?: number): boolean;
  clear(): void;
}

/** Wire, meta and decoded form of an average transaction together; what a block occupies is not known exactly. */
const BYTES_PER_TRANSACTION = 8_192;
/** Extra room for blocks below all others. */
const SLACK_BLOCKS = 32;
const sizeOf = ({ block }: FetchedBlock) => 65_536 + block.transactions.length * BYTES_PER_TRANSACTION;

export function createBlockBuffer(maxBlocks: number, maxBytes: number): BlockBuffer {
  const held = new Map<number, FetchedBlock>();
  let bytes = 0;

  const lowest = () => (held.size === 0 ? Number.POSITIVE_INFINITY : Math.min(...held.keys()));

  function remove(slot: number): void {
    const known = held.get(slot);
    if (known === undefined) return;
    bytes -= sizeOf(known);
    held.delete(slot);
  }

  return {
    get size() {
      return held.size;
    },
    first: () => held.get(lowest()) ?? null,
    after: (slot) => held.get(Math.min(...[...held.keys()].filter((known) => known > slot))) ?? null,
    get: (slot) => held.get(slot) ?? null,
    has: (slot) => held.has(slot),
    put(entry) {
      remove(entry.block.slot);
      // A dropped block would be fetched again: only what is far beyond the bound is dropped.
      while (held.size >= maxBlocks + SLACK_BLOCKS || (held.size > 0 && bytes + sizeOf(entry) > maxBytes * 2)) {
        const highest = Math.max(...held.keys());
        if (highest < entry.block.slot) return;
        remove(highest);
      }
      held.set(entry.block.slot, entry);
      bytes += sizeOf(entry);
    },
    remove,
    dropThrough(slot) {
      for (const known of [...held.keys()]) if (known <= slot) remove(known);
    },
    hasRoomFor(slot, coming = 0) {
      const expected = held.size === 0 ? 0 : (bytes / held.size) * coming;
      return (held.size + coming < maxBlocks && bytes + expected < maxBytes) || slot < lowest();
    },
    clear() {
      held.clear();
      bytes = 0;
    },
  };
}

/**
 * The blocks of a chain, shared by all readers: the chain's cursor, processors that catch up, gaps. The first reader fetches; concurrent
 * readers share the call, and later ones the block, which is kept while another reader still needs it.
 */
export interface SharedBlocks {
  /** See `ChainSource.block`. */
  block(slot: number, options: AskOptions): Promise<BlockAnswer>;
  /** The block given for this slot is no longer trusted. */
  forget(slot: number): void;
  /** Blocks above this one were rolled back. */
  forgetAbove(slot: number): void;
  /** Drops blocks that no reader needs any more. */
  trim(): void;
}

export interface SharedBlocksOptions {
  readonly source: Pick<ChainSource, 'block' | 'outOfService'>;
  /** Ends with the follower, not with one reader: a shared call goes on for the other readers. */
  readonly signal: AbortSignal;
  /** How many readers still need this slot. */
  readonly readers: (slot: number) => number;
  readonly maxBytes: number;
}

export function createSharedBlocks({ source, signal, readers, maxBytes }: SharedBlocksOptions): SharedBlocks {
  const kept = new Map<number, FetchedBlock>();
  const flights = new Map<number, Map<string, Promise<BlockAnswer>>>();
  let bytes = 0;

  function drop(slot: number): void {
    const held = kept.get(slot);
    if (held === undefined) return;
    bytes -= sizeOf(held);
    kept.delete(slot);
  }

  function keep(held: FetchedBlock): void {
    drop(held.block.slot);
    if (readers(held.block.slot) < 2) return;
    kept.set(held.block.slot, held);
    bytes += sizeOf(held);
    // All readers move upwards: the highest block is needed last.
    while (bytes > maxBytes) drop(Math.max(...kept.keys()));
  }

  function forget(slot: number): void {
    drop(slot);
    flights.delete(slot);
  }

  function fetch(slot: number, { commitment, avoid = [] }: AskOptions): Promise<BlockAnswer> {
    const ofSlot = flights.get(slot) ?? new Map<string, Promise<BlockAnswer>>();
    const key = [commitment, ...avoid.toSorted()].join(' ');
    const known = ofSlot.get(key);
    if (known !== undefined) return known;
    flights.set(slot, ofSlot);
    const flight = source.block(slot, { commitment, avoid, signal }).then((answer) => {
      if (answer.kind === 'block' && flights.get(slot) === ofSlot)
        keep({ block: answer.block, upstream: answer.upstream, commitment });
      return answer;
    });
    ofSlot.set(key, flight);
    const end = () => {
      ofSlot.delete(key);
      if (ofSlot.size === 0 && flights.get(slot) === ofSlot) flights.delete(slot);
    };
    flight.then(end, end);
    return flight;
  }

  return {
    async block(slot, options) {
      const held = kept.get(slot);
      const isGood = held !== undefined && !source.outOfService().includes(held.upstream);
      const isWanted = held?.commitment === 'finalized' || options.commitment === 'confirmed';
      if (isGood && isWanted && options.avoid?.includes(held.upstream) !== true)
        return { kind: 'block', block: held.block, upstream: held.upstream };
      if (held !== undefined && !isGood) drop(slot);
      return await orAborted(fetch(slot, options), options.signal);
    },
    forget,
    forgetAbove(slot) {
      for (const known of [...kept.keys(), ...flights.keys()]) if (known > slot) forget(known);
    },
    trim() {
      for (const slot of [...kept.keys()]) if (readers(slot) === 0) drop(slot);
    },
  };
}
