import type { BlockProcessor } from '../plugin/plugin.ts';
import type { ChainBlock } from '../ports/block.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Store } from '../ports/store.ts';
import { writeFinalized } from './chain-row.ts';
import type { Position } from './decide.ts';
import { noteEnd } from './gaps.ts';
import { insertHeader, moveCursors, pruneHeaders } from './positions.ts';
import { MAIN } from './tables.ts';

/** Headers beyond the window are dropped every so many slots, not at each block. */
const PRUNE_EVERY_SLOTS = 64;

export interface ReleaseOptions {
  readonly store: Store;
  readonly chain: ChainId;
  readonly headers: number;
  /** As in `Situation`. */
  readonly floor: number;
  /** The chain is followed at `finalized`: nothing that is released is ever taken back. */
  readonly isFinal?: boolean;
}

/**
 * Writes one block: the rows of all live processors, the header and the cursors commit together or not at all.
 * Errors: FOLLOW_FENCED, those of the store, those of a processor.
 */
export async function releaseBlock(
  { store, chain, headers, floor, isFinal = false }: ReleaseOptions,
  block: ChainBlock,
  cursor: Position | null,
  live: readonly BlockProcessor[],
  joining: readonly BlockProcessor[],
): Promise<void> {
  await prepareBlock([...live, ...joining], block, chain);
  await store.write(async (tx) => {
    await moveCursors(tx, chain, [MAIN, ...live], cursor, block);
    await moveCursors(tx, chain, joining, null, block);
    await insertHeader(tx, chain, block);
    if (isFirst(cursor, floor)) await noteEnd(tx, chain, MAIN, block);
    for (const processor of [...live, ...joining]) await processor.apply(tx, block, chain, { isFinal });
    if (isFinal) {
      await writeFinalized(tx, chain, block.slot);
      for (const processor of [...live, ...joining]) await processor.finalized?.(tx, block.slot, chain);
    }
    if (block.slot % PRUNE_EVERY_SLOTS === 0) await pruneHeaders(tx, chain, headers);
  });
}

/** The same for one processor that is catching up; the header is known already, or older than the window. */
export async function releaseToLane(
  { store, chain, floor }: ReleaseOptions,
  block: ChainBlock,
  cursor: Position | null,
  processor: BlockProcessor,
): Promise<void> {
  await processor.prepare?.(block, chain);
  await store.write(async (tx) => {
    await moveCursors(tx, chain, [processor], cursor, block);
    if (isFirst(cursor, floor)) await noteEnd(tx, chain, processor, block);
    await processor.apply(tx, block, chain);
  });
}

/** What processors ask others for must not hold a transaction open. */
export async function prepareBlock(
  processors: readonly BlockProcessor[],
  block: ChainBlock,
  chain: ChainId,
): Promise<void> {
  for (const processor of processors) await processor.prepare?.(block, chain);
}

/** Behind a gap, or of all. */
const isFirst = (cursor: Position | null, floor: number) => cursor === null || cursor.slot < floor;
