import type { BlockHeader } from '../../ports/block.ts';
import type { AvoidList } from './avoid-list.ts';
import type { BlockBuffer, Held } from './buffer.ts';
import type { FollowContext } from './context.ts';
import { decide } from './decide.ts';
import { resolveFork } from './fork.ts';
import type { Lane } from './lane.ts';
import { releaseBlock } from './release.ts';

export interface AdvanceParts {
  readonly context: FollowContext;
  readonly lane: Lane;
  readonly buffer: BlockBuffer;
  readonly avoid: AvoidList;
  readonly finalizedSlot: () => number | null;
  /** Called right before each release. */
  readonly beforeRelease: () => void;
  readonly onReleased: (header: BlockHeader) => void;
}

export type Advanced =
  /** Everything at hand is released. */
  | 'empty'
  /** The lane went back: ask for the new branch. */
  | 'rolled-back'
  /** A block is missing or in doubt: wait, then ask again. */
  | 'stalled';

/** Releases what continues the lane; heals holes and forks as far as the upstreams help. */
export function createAdvance(parts: AdvanceParts): () => Promise<Advanced> {
  const { context, lane, buffer, avoid } = parts;
  const { chain, source, follow, clock, log, metrics, signal } = context;
  let holeSince: { readonly slot: number; readonly at: number; alarmed: boolean } | null = null;

  async function fillHole(head: Held, missingSlot: number): Promise<'filled' | 'stalled'> {
    if (holeSince?.slot !== missingSlot) {
      holeSince = { slot: missingSlot, at: clock.monotonic(), alarmed: false };
      metrics.holes.add();
    }
    for (let tried = 0; tried < source.upstreamCount; tried += 1) {
      const answer = await source.block(missingSlot, {
        commitment: follow.commitment,
        signal,
        avoid: avoid.of(missingSlot),
      });
      if (answer.kind === 'block') {
        buffer.put(answer);
        return 'filled';
      }
      avoid.add(missingSlot, answer.upstream);
      if (avoid.exhausted(missingSlot)) break;
    }
    lane.stalled = `the block at slot ${missingSlot} is missing: slot ${head.block.slot} names it as its parent and no upstream has it`;
    if (alarm(head, missingSlot)) return 'filled';
    // The block that names it may be the wrong one: next time somebody else is asked for it.
    avoid.add(head.block.slot, head.upstream);
    buffer.drop(head.block.slot);
    return 'stalled';
  }

  /** After `holeTimeoutSeconds` says so; true when the hole becomes a gap because the operator wants it so. */
  function alarm(head: Held, missingSlot: number): boolean {
    if (holeSince === null || holeSince.alarmed) return false;
    if (clock.monotonic() - holeSince.at < follow.holeTimeoutSeconds * 1_000) return false;
    holeSince.alarmed = true;
    log.error({ chain, lane: lane.id, missingSlot, policy: follow.holePolicy }, 'a block is missing for too long');
    if (follow.holePolicy !== 'gap' || lane.position === null) return false;
    lane.gap = { fromSlot: lane.position.slot + 1, toSlot: missingSlot, reason: 'hole' };
    lane.startSlot = head.block.slot;
    return true;
  }

  async function followBranch(head: Held): Promise<Advanced> {
    const outcome = await resolveFork(context, lane, head.block, parts.finalizedSlot());
    if (outcome.kind === 'rolled-back') return 'rolled-back';
    metrics.contradictions.add();
    source.distrust(head.upstream, outcome.reason);
    avoid.add(head.block.slot, head.upstream);
    buffer.drop(head.block.slot);
    lane.stalled = outcome.reason;
    return 'stalled';
  }

  return async function advance() {
    for (;;) {
      signal.throwIfAborted();
      const head = buffer.lowest(lane.gap === null ? (lane.position?.slot ?? -1) : (lane.startSlot ?? 0) - 1);
      if (head === null) return 'empty';
      const decision = decide(lane.gap === null ? lane.position : null, head.block);
      if (decision.kind === 'release') {
        parts.beforeRelease();
        await releaseBlock(context, lane, head.block);
        buffer.drop(head.block.slot);
        avoid.forgetUpTo(head.block.slot);
        holeSince = null;
        lane.stalled = null;
        parts.onReleased(head.block);
      } else if (decision.kind === 'hole') {
        if ((await fillHole(head, decision.missingSlot)) === 'stalled') return 'stalled';
      } else if (decision.kind === 'fork') {
        const result = await followBranch(head);
        if (result !== 'empty') return result;
      }
    }
  };
}
