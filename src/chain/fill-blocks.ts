import { setMaxListeners } from 'node:events';
import type { CoreConfig } from '../config/core.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { BlockHeader, ChainBlock } from '../ports/block.ts';
import type { ChainId, ChainSource } from '../ports/chain.ts';
import type { Clock, Random } from '../ports/clock.ts';
import type { Store } from '../ports/store.ts';
import type { Log } from '../ports/telemetry.ts';
import { createWakeup, type Wakeup } from '../runtime/waiting.ts';
import { prepareBlock } from './commit.ts';
import { type BlockPosition, decide } from './cursor.ts';
import { type BlockBuffer, createBlockBuffer, createFetcher, type Fetcher, type KeptFirst } from './fetch.ts';
import { finishFills, moveFills } from './gap-fills.ts';
import type { GapEnd, GapFill, GapRecord } from './gap-records.ts';

export interface FillOptions {
  readonly chain: ChainId;
  readonly source: ChainSource & KeptFirst;
  readonly store: Store;
  /** The processors of this chain. */
  readonly processors: readonly BlockProcessor[];
  readonly follow: CoreConfig['follow'];
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Runs writes one at a time. */
  readonly exclusive: <T>(work: () => Promise<T>) => Promise<T>;
  /** The block given for a slot is not trusted. */
  readonly forget?: (slot: number) => void;
  /** Who writes the ledger: this process, the daemon, or nobody. */
  readonly ledger: OwnLedger | 'of the daemon' | 'off';
  /** Blocks fetched at once. */
  readonly concurrency: () => number;
  /** Why filling has to wait now; null when it need not. */
  hindrance(): string | null;
  /** Newest finalized slot. Filled blocks cannot be rolled back, so only slots below it are filled. */
  finalSlot(): Promise<number>;
  /** Called after each commit. */
  filled(progress: { readonly blocks: number; readonly slots: number }): void;
}

/** The ledger of this process. */
export interface OwnLedger {
  /** Whether it keeps a block as old as this; older ones would only push newer ones out. */
  keeps(slot: number): boolean;
  /** Adds a filled block, which is final. Errors: those of the ledger. */
  append(block: ChainBlock): Promise<void>;
}

/** A processor and its position in the gap. */
export interface FillMember {
  readonly processor: BlockProcessor;
  readonly fill: GapFill;
}

/** Outcome of an attempt to fill a gap. */
export type FillOutcome =
  /** There is more to do at once. */
  | { readonly kind: 'more' }
  | { readonly kind: 'filled' }
  /** It continues by itself when the reason ends. */
  | { readonly kind: 'waits'; readonly reason: string }
  /** Something outside has to change. */
  | { readonly kind: 'stuck'; readonly reason: string };

export type BlocksOutcome =
  | FillOutcome
  /** No upstream has the block at this slot any more; `first` is the lowest available block above it. */
  | { readonly kind: 'pruned'; readonly slot: number; readonly first: GapEnd | null }
  /** The last block is not the one that the block above the gap names: a released one may have come with a false link. */
  | { readonly kind: 'false-end'; readonly reason: string }
  /** What was filled does not lead to the block above the gap. */
  | { readonly kind: 'mismatch'; readonly reason: string };

const BUFFER_BLOCKS = 32;
/** Contradictions about one slot after which an immediate retry is of no use. */
const MAX_CONTRADICTIONS = 12;

/**
 * Fills up to `follow.maxGapSlots` slots of a gap with blocks, ascending, each with the places of its processors in one transaction.
 * All members have the same position. Errors: FOLLOW_GAP_TAKEN, those of source, store and processors.
 */
export async function fillBlocks(
  options: FillOptions,
  gap: GapRecord,
  end: GapEnd,
  members: readonly FillMember[],
): Promise<BlocksOutcome> {
  const over = new AbortController();
  const signal = AbortSignal.any([options.signal, over.signal]);
  // Each fetch and wait of the fill listens to it.
  setMaxListeners(0, signal);
  const piece = new GapPiece({ ...options, signal, gap, end, members });
  const { clock, follow } = options;
  let actedAt = clock.monotonic();
  try {
    for (;;) {
      options.signal.throwIfAborted();
      const reason = options.hindrance() ?? pressureOf(members);
      if (reason !== null) return { kind: 'waits', reason };
      const outcome = await piece.step();
      if (outcome !== 'acted' && outcome !== 'idle') return outcome;
      if (outcome === 'acted') actedAt = clock.monotonic();
      else if (clock.monotonic() - actedAt < follow.requestTimeoutMs * 2) await piece.wait();
      else return { kind: 'stuck', reason: 'no upstream gives the next block' };
    }
  } finally {
    over.abort(new Error('the piece has ended'));
    await piece.settled();
  }
}

function pressureOf(members: readonly FillMember[]): string | null {
  for (const { processor } of members) {
    const pressure = processor.pressure?.() ?? { ok: true };
    if (!pressure.ok) return `${processor.name}: ${pressure.reason}`;
  }
  return null;
}

interface PieceParts extends FillOptions {
  readonly gap: GapRecord;
  readonly end: GapEnd;
  readonly members: readonly FillMember[];
}

/**
 * The part of a gap that some processors fill together, block by block: `position` is the last block that all of them have, and moves only in
 * the transaction that stored the next one. A block is applied when its child names it, so the first block behind the gap proves the last.
 */
class GapPiece {
  private readonly parts: PieceParts;
  private readonly ask: { readonly commitment: 'finalized'; readonly signal: AbortSignal };
  private readonly wake: Wakeup;
  private readonly buffer: BlockBuffer;
  private fills: readonly GapFill[];
  private position: BlockPosition | null;
  private readonly startedTo: number;
  /** Where others stand: there they go on together. */
  private readonly meetAt: ReadonlySet<number>;
  private listedTo: number;
  private readonly contradictions = new Map<number, number>();
  private readonly fetcher: Fetcher;

  constructor(parts: PieceParts) {
    this.parts = parts;
    const { source, follow, clock, random, signal } = parts;
    this.ask = { commitment: 'finalized', signal };
    this.wake = createWakeup(clock);
    this.buffer = createBlockBuffer(BUFFER_BLOCKS, follow.bufferBytes);
    this.fills = parts.members.map(({ fill }) => fill);
    this.position = this.fills[0]?.position ?? null;
    // Where single transactions were applied instead of blocks, all blocks are read.
    if (this.position?.blockhash === '') this.position = null;
    this.startedTo = this.doneTo();
    const own = new Set(parts.members.map(({ fill }) => fill.name));
    this.meetAt = new Set(
      parts.gap.fills.flatMap(({ name, isDone, position: at }) =>
        own.has(name) || isDone || at === null ? [] : [at.slot],
      ),
    );
    this.listedTo = this.doneTo();
    this.fetcher = createFetcher({
      source,
      buffer: this.buffer,
      clock,
      random,
      signal,
      commitment: () => 'finalized',
      ...(parts.forget === undefined ? {} : { forget: parts.forget }),
      concurrency: parts.concurrency,
      releasedSlot: () => this.doneTo(),
      wake: this.wake.wake,
      count: () => {},
    });
  }

  /** Everything up to here is done, with or without blocks. */
  private doneTo() {
    return this.position?.slot ?? this.parts.gap.fromSlot - 1;
  }

  /** Whether there was progress. */
  private async list(): Promise<boolean> {
    const available = Math.min(
      await this.parts.source.firstAvailable(this.parts.signal),
      this.parts.source.firstKept(),
    );
    const from = Math.max(this.listedTo + 1, available);
    const to = Math.min(this.parts.end.parentSlot, from + this.parts.follow.window - 1);
    // One block alone is none: its child may be behind a long stretch without blocks.
    const hasWork = this.buffer.size > 1 || this.fetcher.openBelow(from);
    if (to < from || (hasWork && from > this.doneTo() + this.parts.follow.window)) return false;
    for (const slot of await this.parts.source.produced(from, to, this.ask))
      if (slot > this.doneTo() && slot <= to) this.fetcher.want(slot);
    this.listedTo = to;
    return true;
  }

  /** Null while it is not known whether there is an end to come to. */
  private ending(): 'here' | 'beyond' | null {
    const cursor = this.position ?? this.parts.gap.below;
    if (cursor === null) return this.parts.end.parentSlot < this.parts.gap.fromSlot ? 'here' : null;
    if (cursor.slot < this.parts.end.parentSlot) return null;
    return cursor.slot === this.parts.end.parentSlot && cursor.blockhash === this.parts.end.previousBlockhash
      ? 'here'
      : 'beyond';
  }

  private async finish(): Promise<BlocksOutcome> {
    const slots = this.parts.gap.toSlot - this.doneTo();
    const isFilled = await this.parts.exclusive(() =>
      this.parts.store.write((tx) => finishFills(tx, this.parts.gap, this.fills, this.parts.clock.now())),
    );
    this.parts.filled({ blocks: 0, slots });
    return { kind: isFilled ? 'filled' : 'more' };
  }

  private async apply(): Promise<'acted' | 'idle'> {
    const { block, upstream } = this.buffer.first()!;
    // Linked only to its child: both may be of another chain.
    const isUnlinked = this.position === null && this.parts.gap.below === null;
    if (isUnlinked && !(await this.parts.source.confirmChain(this.parts.signal))) return 'idle';
    if (this.parts.source.outOfService().includes(upstream)) {
      this.fetcher.again(block.slot, upstream);
      return 'idle';
    }
    const to = { slot: block.slot, blockhash: block.blockhash };
    await prepareBlock(
      this.parts.members.map(({ processor }) => processor),
      block,
      this.parts.chain,
    );
    await this.parts
      .exclusive(async () => {
        const { ledger } = this.parts;
        if (typeof ledger === 'object' && ledger.keeps(block.slot)) await ledger.append(block);
        await this.parts.store.write(async (tx) => {
          await moveFills(tx, this.parts.gap, this.fills, to);
          for (const { processor } of this.parts.members)
            await processor.apply(tx, block, this.parts.chain, { isFinal: true });
        });
      })
      .catch((error: unknown) => {
        // The next attempt fetches the block again.
        this.parts.forget?.(block.slot);
        throw error;
      });
    this.parts.filled({ blocks: 1, slots: block.slot - this.doneTo() });
    this.position = to;
    this.fills = this.fills.map((fill) => ({ ...fill, position: to }));
    this.buffer.remove(block.slot);
    return 'acted';
  }

  private stuckAt(slot: number, reason: string): BlocksOutcome {
    return slot === this.parts.end.parentSlot ? { kind: 'false-end', reason } : { kind: 'stuck', reason };
  }

  private again(slots: readonly number[]): BlocksOutcome | 'idle' {
    for (const slot of slots) {
      const count = (this.contradictions.get(slot) ?? 0) + 1;
      this.contradictions.set(slot, count);
      if (count > MAX_CONTRADICTIONS)
        return this.stuckAt(slot, `the upstreams contradict each other about the block at slot ${slot}`);
      this.fetcher.again(slot, this.buffer.get(slot)?.upstream ?? '');
    }
    return 'idle';
  }

  private need(slot: number): BlocksOutcome | 'idle' {
    const wanted = this.fetcher.need(slot);
    this.fetcher.pump();
    const next = this.buffer.first()?.block ?? null;
    if (this.fetcher.isPruned(slot)) {
      if (this.fetcher.openBelow(slot)) return 'idle';
      const { parentSlot, previousBlockhash } = next ?? {};
      const isSplit = next !== null && parentSlot === slot && previousBlockhash !== undefined;
      return { kind: 'pruned', slot, first: isSplit ? { slot: next.slot, parentSlot: slot, previousBlockhash } : null };
    }
    if (wanted.deniedRounds === 0) return 'idle';
    wanted.deniedRounds = 0;
    const named =
      next !== null && next.parentSlot === slot ? next : (this.buffer.after(next?.slot ?? -1)?.block ?? null);
    if (named?.parentSlot === slot) return this.again([named.slot]);
    return this.stuckAt(slot, `the block at slot ${slot} exists and no upstream has it`);
  }

  private act(verdict: FillVerdict): Promise<'acted' | 'idle'> | BlocksOutcome | 'idle' {
    if (verdict.kind === 'apply') return this.apply();
    if (verdict.kind === 'again') return this.again(verdict.slots);
    if (verdict.kind === 'need') return this.need(verdict.slot);
    // Nothing that is listed can be the child: the last block of the gap is above it in any case.
    if (this.listedTo >= this.parts.end.parentSlot && !this.fetcher.openBelow(this.parts.end.parentSlot))
      return this.need(this.parts.end.parentSlot);
    return 'idle';
  }

  async step(): Promise<BlocksOutcome | 'acted' | 'idle'> {
    const at = this.ending();
    if (at === 'here') return await this.finish();
    if (at === 'beyond')
      return {
        kind: 'mismatch',
        reason: `its blocks do not lead to the block at slot ${this.parts.end.slot} behind it`,
      };
    // Others continue from here: together, so that each block is fetched once.
    if (
      this.doneTo() - this.startedTo >= this.parts.follow.maxGapSlots ||
      (this.doneTo() > this.startedTo && this.meetAt.has(this.doneTo()))
    )
      return { kind: 'more' };
    this.buffer.dropThrough(this.doneTo());
    this.fetcher.dropThrough(this.doneTo());
    const hasListed = await this.list();
    this.fetcher.pump();
    const next = this.buffer.first()?.block ?? null;
    const child = next === null ? null : (this.buffer.after(next.slot)?.block ?? null);
    const cursor = this.position ?? this.parts.gap.below;
    if (hasListed) return 'acted';
    if (next === null && this.fetcher.openBelow(this.parts.end.parentSlot)) return 'idle';
    return await this.act(judgeFill({ cursor, fromSlot: this.parts.gap.fromSlot, end: this.parts.end, next, child }));
  }

  wait(): Promise<void> {
    return this.wake.sleep(this.parts.follow.pollMs, this.parts.signal);
  }

  settled(): Promise<void> {
    return this.fetcher.settled();
  }
}

interface FillSituation {
  /** The block below the next one: of the gap, or the one that stands below the gap; null when that is not known. */
  readonly cursor: BlockPosition | null;
  /** First slot of the gap. */
  readonly fromSlot: number;
  readonly end: GapEnd;
  /** The lowest fetched block above the cursor. */
  readonly next: BlockHeader | null;
  /** The lowest fetched block above `next`. */
  readonly child: BlockHeader | null;
}

type FillVerdict =
  /** `next` continues the cursor, and what comes after it names it as its parent. */
  | { readonly kind: 'apply' }
  /** The block at this slot exists: another block names it as its parent. */
  | { readonly kind: 'need'; readonly slot: number }
  /** The block after `next` is not fetched yet. */
  | { readonly kind: 'child' }
  /** These contradict each other or the cursor. */
  | { readonly kind: 'again'; readonly slots: readonly number[] };

/**
 * Decides from links alone, and one block later than the follower: filled blocks cannot be rolled back, so a block counts only when its
 * child names it.
 */
export function judgeFill({ cursor, fromSlot, end, next, child }: FillSituation): FillVerdict {
  if (next === null) return { kind: 'need', slot: end.parentSlot };
  if (next.slot > end.parentSlot) return { kind: 'again', slots: [next.slot] };
  const decision = decide({ cursor, floor: cursor === null ? fromSlot : 0, next });
  if (decision.kind === 'hole') return { kind: 'need', slot: decision.slot };
  if (decision.kind === 'fork') return { kind: 'again', slots: [next.slot] };
  if (next.slot === end.parentSlot)
    return next.blockhash === end.previousBlockhash ? { kind: 'apply' } : { kind: 'again', slots: [next.slot] };
  if (child === null) return { kind: 'child' };
  if (child.parentSlot > next.slot) return { kind: 'need', slot: child.parentSlot };
  return child.parentSlot === next.slot && child.previousBlockhash === next.blockhash
    ? { kind: 'apply' }
    : { kind: 'again', slots: [next.slot, child.slot] };
}

const LONGEST_REACH_SLOTS = 100_000;

/**
 * Reads the first finalized block above a slot, and walks down the links to make sure that none comes before it. Null when it is not
 * available now. Errors: those of the source.
 */
export async function findEnd(
  source: Pick<ChainSource, 'produced' | 'header'>,
  slot: number,
  limits: { readonly finalSlot: number; readonly window: number; readonly signal: AbortSignal },
): Promise<GapEnd | null> {
  const ask = { commitment: 'finalized', signal: limits.signal } as const;
  let above: number | undefined;
  let reach = limits.window;
  for (let from = slot + 1; above === undefined && from <= limits.finalSlot; from += reach) {
    reach = Math.min(reach * 2, LONGEST_REACH_SLOTS);
    [above] = await source.produced(from, Math.min(limits.finalSlot, from + reach - 1), ask);
  }
  if (above === undefined) return null;
  let block: BlockHeader | null = await source.header(above, ask);
  while (block !== null && block.parentSlot > slot) {
    const parent: BlockHeader | null = await source.header(block.parentSlot, ask);
    if (parent !== null && parent.blockhash !== block.previousBlockhash) return null;
    block = parent;
  }
  return block === null
    ? null
    : { slot: block.slot, parentSlot: block.parentSlot, previousBlockhash: block.previousBlockhash };
}
