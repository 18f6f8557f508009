import type { BlockHeader } from '../../ports/block.ts';
import type { BlockProcessor } from '../plugin.ts';
import type { Position } from './decide.ts';
import { CHAIN_CURSOR, type CursorOwner } from './rows.ts';

/** The lane of all processors that keep up with the chain. */
export const MAIN_LANE = 'main';

/**
 * Processors that stand at the same block and move together. One is the main lane; a processor that lags has a lane of its own
 * until it has caught up, so that it never delays the others.
 */
export interface Lane {
  readonly id: string;
  processors: readonly BlockProcessor[];
  /** Null until the first block is released. */
  position: Position | null;
  /** Released headers, oldest first, bounded by `follow.headers`. */
  headers: BlockHeader[];
  /** Where to begin while there is no position, or after a gap. */
  startSlot: number | null;
  /** Slots that were given up when the lane begins anew at `startSlot`. */
  gap: { readonly fromSlot: number; readonly toSlot: number; readonly reason: 'pruned' | 'too-old' | 'hole' } | null;
  /** Why the lane stands still, in words; null while it moves. */
  stalled: string | null;
}

/** The cursors that a lane moves: those of its processors, and for the main lane the chain's own. */
export function ownersOf(lane: Lane): readonly CursorOwner[] {
  const owners = lane.processors.map(({ name, version }) => ({ name, version }));
  return lane.id === MAIN_LANE ? [CHAIN_CURSOR, ...owners] : owners;
}

export function positionOf(header: BlockHeader): Position {
  return { slot: header.slot, blockhash: header.blockhash, blockTime: header.blockTime };
}
