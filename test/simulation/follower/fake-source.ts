import { CodedError } from '../../../src/lib/coded-error.ts';
import type { BlockAnswer, ChainSource, Commitment } from '../../../src/ports/chain.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';
import { asChainBlock, type World, type WorldBlock } from './world.ts';

/** How one upstream misbehaves; rates are 0 to 1 per call. */
export interface FakeUpstream {
  readonly label: string;
  /** Blocks that it is behind. */
  lag: number;
  failRate: number;
  /** Says "skipped" for blocks that exist. */
  wrongSkipRate: number;
  /** Leaves slots out of lists. */
  hideRate: number;
  notYetRate: number;
  /** Serves blocks with a forged hash or link. */
  lieRate: number;
  /** Slots by which its tip jumps back, drawn for each call. */
  tipBackBy: number;
  /** Says "skipped" for these for ever. */
  readonly lost: Set<number>;
  /** Has nothing below. */
  prunedBelow: number;
  /** Serves the chain as it was then. */
  frozen: readonly WorldBlock[] | null;
}

export const honest = (label: string): FakeUpstream => ({
  ...{ label, lag: 0, failRate: 0, wrongSkipRate: 0, hideRate: 0, notYetRate: 0, lieRate: 0, tipBackBy: 0 },
  ...{ lost: new Set<number>(), prunedBelow: 0, frozen: null },
});

export interface FakeSource extends ChainSource {
  readonly distrusted: readonly string[];
}

/** Upstreams with views of their own over one world; which of them answers is drawn for each call. */
export function createFakeSource(
  world: World,
  upstreams: readonly FakeUpstream[],
  random: Sfc32,
  clock: Clock,
): FakeSource {
  const distrusted: string[] = [];

  function view(upstream: FakeUpstream, commitment: Commitment): readonly WorldBlock[] {
    const all = upstream.frozen ?? world.chain;
    const seen = all.slice(0, Math.max(1, all.length - upstream.lag));
    return commitment === 'finalized' ? seen.filter((block) => block.slot <= world.finalizedSlot) : seen;
  }

  async function pick(avoid: readonly string[], signal: AbortSignal): Promise<FakeUpstream> {
    await clock.sleep(1 + random.below(60), signal);
    const able = upstreams.filter((upstream) => !avoid.includes(upstream.label));
    const chosen = able[random.below(Math.max(1, able.length))];
    if (chosen === undefined || random.float() < chosen.failRate)
      throw new CodedError('CHAIN_UNREACHABLE', 'no upstream answered', { retryable: true });
    return chosen;
  }

  return {
    chain: 'main',
    upstreamCount: upstreams.length,
    distrusted,
    async tip({ commitment, signal, avoid = [] }) {
      const upstream = await pick(avoid, signal);
      const tip = view(upstream, commitment).at(-1)?.slot ?? 0;
      return Math.max(0, tip - (upstream.tipBackBy === 0 ? 0 : random.below(upstream.tipBackBy)));
    },
    async produced(from, to, { commitment, signal, avoid = [] }) {
      const upstream = await pick(avoid, signal);
      return view(upstream, commitment)
        .map(({ slot }) => slot)
        .filter((slot) => slot >= from && slot <= to && random.float() >= upstream.hideRate);
    },
    async block(slot, { commitment, signal, avoid = [] }): Promise<BlockAnswer> {
      const { label, ...upstream } = await pick(avoid, signal);
      const blocks = view({ label, ...upstream }, commitment);
      if (slot < upstream.prunedBelow) return { kind: 'pruned', upstream: label };
      if (slot > (blocks.at(-1)?.slot ?? 0) || random.float() < upstream.notYetRate)
        return { kind: 'not-yet', upstream: label };
      const block = blocks.find((candidate) => candidate.slot === slot);
      if (block === undefined || upstream.lost.has(slot) || random.float() < upstream.wrongSkipRate)
        return { kind: 'skipped', upstream: label };
      const told = random.float() < upstream.lieRate ? forge(block, random) : block;
      return { kind: 'block', block: asChainBlock(told), upstream: label };
    },
    async header(slot, { commitment, signal, avoid = [] }) {
      const upstream = await pick(avoid, signal);
      if (slot < upstream.prunedBelow || upstream.lost.has(slot)) return null;
      const block = view(upstream, commitment).find((candidate) => candidate.slot === slot);
      if (block === undefined) return null;
      const { transactions: _, ...header } = asChainBlock(block);
      return header;
    },
    firstAvailable: async () =>
      Math.max(world.chain[0]!.slot, Math.min(...upstreams.map((upstream) => upstream.prunedBelow))),
    distrust: (label) => void distrusted.push(label),
    onHint: () => () => {},
    start: async () => {},
    stop: async () => {},
  };
}

/** A block that is well-formed and not of the chain. */
function forge(block: WorldBlock, random: Sfc32): WorldBlock {
  const lies: readonly Partial<WorldBlock>[] = [
    { blockhash: `forged-${block.slot}` },
    // Never the name of a forged block: links are all there is, and lies that agree with each other cannot be told from the truth.
    { previousBlockhash: `false-link-of-${block.slot}` },
    { parentSlot: block.parentSlot - 1 },
    { parentSlot: block.slot - 1 },
  ];
  return { ...block, ...lies[random.below(lies.length)] };
}
