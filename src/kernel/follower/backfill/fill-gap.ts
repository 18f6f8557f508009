import type { BlockProcessor } from '../../plugin.ts';
import type { FillMember, FillOptions, FillOutcome } from './contract.ts';
import { fillAddresses } from './fill-addresses.ts';
import { type BlocksOutcome, fillBlocks } from './fill-blocks.ts';
import { findEnd } from './find-end.ts';
import { finishFills, restartFills, setAskedEnd, splitGap } from './gap-changes.ts';
import type { GapEnd, GapFill, GapRecord } from './gap-record.ts';

/**
 * Tries to fill a gap for a while: with blocks, or with what upstreams tell of single addresses, where that is what is wanted or where
 * blocks are gone and the configuration allows it.
 * Errors: FOLLOW_GAP_TAKEN, those of source, store and processors.
 */
export async function fillGap(options: FillOptions, gap: GapRecord): Promise<FillOutcome> {
  const { store, clock, turn } = options;
  const { ready, over, reason } = sortFills(gap, options.processors);
  if (over.length > 0 && (await turn(() => store.write((tx) => finishFills(tx, gap, over, clock.now())))))
    return { kind: 'filled' };
  if (ready.length === 0) return { kind: 'stuck', reason: reason ?? 'no processor wants it' };
  const finalSlot = await options.finalSlot();
  if (gap.toSlot >= finalSlot) return { kind: 'waits', reason: `slot ${gap.toSlot} is not final` };
  const members = lowest(ready);
  if (gap.addresses !== null) return await fillAddresses(options, gap, members, null);
  const end = gap.end ?? (gap.isEndAsked ? await askEnd(options, gap, finalSlot) : null);
  if (end === null && gap.isEndAsked)
    return { kind: 'stuck', reason: `no upstream has the blocks behind slot ${gap.toSlot}` };
  if (end === null) return { kind: 'waits', reason: `no block behind slot ${gap.toSlot} was released yet` };
  if (end.slot > finalSlot) return { kind: 'waits', reason: `the block behind it, at slot ${end.slot}, is not final` };
  return await goOn(options, gap, members, await fillBlocks(options, gap, end, members));
}

async function goOn(
  options: FillOptions,
  gap: GapRecord,
  members: readonly FillMember[],
  outcome: BlocksOutcome,
): Promise<FillOutcome> {
  const { store, turn, log, chain } = options;
  switch (outcome.kind) {
    case 'pruned': {
      const { first, slot } = outcome;
      const isCut = first !== null && gap.fills.filter(({ isDone }) => !isDone).length === members.length;
      if (isCut) {
        await turn(() => store.write((tx) => splitGap(tx, gap, first)));
        log.warn({ chain, gap: gap.id, prunedTo: slot }, 'a gap was cut in two: only its upper part can be had');
        return { kind: 'more' };
      }
      return await fillAddresses(options, gap, members, `no upstream has the block at slot ${slot} any more`);
    }
    case 'false-end':
      await turn(() => store.write((tx) => setAskedEnd(tx, gap, null)));
      return { kind: 'stuck', reason: outcome.reason };
    case 'mismatch':
      log.error({ chain, gap: gap.id }, `a gap cannot be closed: ${outcome.reason}`);
      await turn(() =>
        store.write(async (tx) => {
          await restartFills(tx, gap, gap.fills);
          await setAskedEnd(tx, gap, null);
        }),
      );
      return { kind: 'stuck', reason: outcome.reason };
    default:
      return outcome;
  }
}

async function askEnd(options: FillOptions, gap: GapRecord, finalSlot: number): Promise<GapEnd | null> {
  const { source, store, turn, follow, signal } = options;
  const end = await findEnd(source, gap.toSlot, { finalSlot, window: follow.window, signal });
  if (end !== null) await turn(() => store.write((tx) => setAskedEnd(tx, gap, end)));
  return end;
}

interface Sorted {
  readonly ready: readonly FillMember[];
  /** Of versions that are not in use any more: the new one was indexed anew. */
  readonly over: readonly GapFill[];
  /** Why the others cannot be filled. */
  readonly reason: string | null;
}

function sortFills(gap: GapRecord, processors: readonly BlockProcessor[]): Sorted {
  const ready: FillMember[] = [];
  const over: GapFill[] = [];
  let reason: string | null = null;
  for (const fill of gap.fills.filter(({ isDone }) => !isDone)) {
    const processor = processors.find(({ name }) => name === fill.name);
    if (processor === undefined) reason = `processor ${fill.name} is not loaded`;
    else if (processor.version > fill.version) over.push(fill);
    else if (processor.version < fill.version) reason = `processor ${fill.name} is older than the one that missed it`;
    else if (processor.outOfOrder !== true)
      reason = `processor ${fill.name} takes blocks in their order only: index it again`;
    else ready.push({ processor, fill });
  }
  return { ready, over, reason };
}

/** Those that have come least far, all at one place. */
function lowest(members: readonly FillMember[]): readonly FillMember[] {
  const slotOf = ({ fill }: FillMember) => fill.position?.slot ?? -1;
  const least = Math.min(...members.map(slotOf));
  return members.filter((member) => slotOf(member) === least);
}
