import type { BlockProcessor } from '../plugin/plugin.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Queries } from '../ports/store.ts';
import type { Position } from './decide.ts';
import type { FollowState } from './follow-state.ts';
import { hasPendingReverts } from './pending-reverts.ts';
import { readCursor } from './positions.ts';

export type Members = Pick<FollowState, 'live' | 'joining' | 'catchingUp' | 'stuck'>;

/**
 * Sorts the processors by where they stand: at the chain's cursor, at none, or behind it. One that is new, or whose start lies
 * not below the cursor, begins with the next block; one that asked for an earlier start catches up from there.
 */
export async function readMembers(
  db: Queries,
  chain: ChainId,
  processors: readonly BlockProcessor[],
  main: Position | null,
  floor: number,
): Promise<Members> {
  const members = {
    live: [] as BlockProcessor[],
    joining: [] as BlockProcessor[],
    catchingUp: [] as BlockProcessor[],
    stuck: [] as string[],
  };
  for (const processor of processors) {
    const own = await readCursor(db, chain, processor);
    if (await hasPendingReverts(db, chain, processor)) members.catchingUp.push(processor);
    else if (own === null) {
      const start = processor.startSlot ?? Number.POSITIVE_INFINITY;
      (start < (main === null ? floor : main.slot + 1) ? members.catchingUp : members.joining).push(processor);
    } else if (main !== null && own.slot === main.slot && own.blockhash === main.blockhash)
      members.live.push(processor);
    else if (main !== null && own.slot < main.slot) members.catchingUp.push(processor);
    else members.stuck.push(`processor ${processor.name} stands at slot ${own.slot} of another branch: index it again`);
  }
  return members;
}

/** Those that would have got the blocks of a range which the chain passes over. */
export function missedBy(
  { cursor, live, joining }: Pick<FollowState, 'cursor' | 'live' | 'joining'>,
  { toSlot }: { readonly toSlot: number },
): readonly BlockProcessor[] {
  const wanted = joining.filter(
    ({ startSlot }) => cursor === null || (startSlot ?? Number.POSITIVE_INFINITY) <= toSlot,
  );
  return [...live, ...wanted].filter(({ wantsGaps }) => wantsGaps !== false);
}
