import { codeOf } from '../lib/coded-error.ts';
import type { BlockProcessor } from '../plugin/plugin.ts';
import type { ChainBlock } from '../ports/block.ts';
import type { ChainId } from '../ports/chain.ts';
import type { Store } from '../ports/store.ts';
import {
  type BlockPosition,
  insertHeader,
  moveCursors,
  pruneHeaders,
  readCursor,
  samePosition,
  writeFinalized,
} from './cursor.ts';
import { noteEnd } from './gaps.ts';
import type { Run } from './run.ts';
import type { UnverifiedCommit } from './state.ts';
import { MAIN } from './tables.ts';

/** Headers beyond the window are pruned every this many slots, not at each block. */
const PRUNE_EVERY_SLOTS = 64;

export interface ReleaseOptions {
  readonly store: Store;
  readonly chain: ChainId;
  readonly headers: number;
  /** See `Situation`. */
  readonly floor: number;
  /** Highest slot that the release of the block proves as final: its own, that of a parent, or null. */
  readonly finalSlot?: number | null;
}

/**
 * Writes one block: the rows of all live processors, the header and the cursors commit together or not at all.
 * Errors: FOLLOW_FENCED, those of the store, those of a processor.
 */
export async function releaseBlock(
  { store, chain, headers, floor, finalSlot = null }: ReleaseOptions,
  block: ChainBlock,
  cursor: BlockPosition | null,
  live: readonly BlockProcessor[],
  joining: readonly BlockProcessor[],
): Promise<void> {
  await prepareBlock([...live, ...joining], block, chain);
  await store.write(async (tx) => {
    await moveCursors(tx, chain, [MAIN, ...live], cursor, block);
    await moveCursors(tx, chain, joining, null, block);
    await insertHeader(tx, chain, block);
    if (isFirst(cursor, floor)) await noteEnd(tx, chain, MAIN, block);
    const how = { isFinal: finalSlot === block.slot };
    for (const processor of [...live, ...joining]) await processor.apply(tx, block, chain, how);
    if (finalSlot !== null) {
      await writeFinalized(tx, chain, finalSlot);
      for (const processor of [...live, ...joining]) await processor.finalized?.(tx, finalSlot, chain);
    }
    if (block.slot % PRUNE_EVERY_SLOTS === 0) await pruneHeaders(tx, chain, headers);
  });
}

/** Like `releaseBlock`, for one processor that catches up. The header is stored already, or older than the window of headers. */
export async function releaseToLane(
  { store, chain, floor }: ReleaseOptions,
  block: ChainBlock,
  cursor: BlockPosition | null,
  processor: BlockProcessor,
): Promise<void> {
  await processor.prepare?.(block, chain);
  await store.write(async (tx) => {
    await moveCursors(tx, chain, [processor], cursor, block);
    if (isFirst(cursor, floor)) await noteEnd(tx, chain, processor, block);
    await processor.apply(tx, block, chain);
  });
}

/** Requests of processors must not hold a transaction open. */
export async function prepareBlock(
  processors: readonly BlockProcessor[],
  block: ChainBlock,
  chain: ChainId,
): Promise<void> {
  for (const processor of processors) await processor.prepare?.(block, chain);
}

/** Above a gap, or of all. */
const isFirst = (cursor: BlockPosition | null, floor: number) => cursor === null || cursor.slot < floor;

/**
 * Moves the chain's cursor; called within `run.exclusive`. `adopt` runs once the write is known to be committed, if need be only after
 * `verifyCommit`. Errors: those of `write`.
 */
export async function moveChain(run: Run, write: () => Promise<void>, unverified: UnverifiedCommit): Promise<void> {
  try {
    await write();
  } catch (error) {
    if (codeOf(error)?.startsWith('STORE_')) run.state.unverified = unverified;
    throw error;
  }
  // Committed: if `adopt` fails, `verifyCommit` repeats it.
  run.state.unverified = unverified;
  await unverified.adopt();
  run.state.unverified = null;
}

/**
 * Reads where the cursor is. Only our own write is adopted: any other position fails the next write, which detects the other process. Errors: those of the store.
 */
export async function verifyCommit({ state, store, chain }: Run): Promise<void> {
  const { unverified } = state;
  if (unverified === null) return;
  const stored = await readCursor(store.read, chain);
  if (samePosition(stored, unverified.to)) await unverified.adopt();
  state.unverified = null;
}

/**
 * To be called before anything is written that no link to a released block proves: a roll-back, a gap record, the first block above a
 * gap or of all. An upstream may serve another chain since it was last asked: what came from it is dropped. False: nothing may be
 * concluded from what was read so far.
 */
export async function isSameChain(run: Run): Promise<boolean> {
  const isSame = await run.source.confirmChain(run.signal);
  const dropped = dropFromOtherChain(run);
  return isSame && !dropped;
}

/** Drops blocks of upstreams that are out of service. Returns whether there were any. */
export function dropFromOtherChain({ source, buffer, state }: Pick<Run, 'source' | 'buffer' | 'state'>): boolean {
  const out = source.outOfService();
  if (out.length === 0) return false;
  let dropped = false;
  for (let held = buffer.after(-1); held !== null; held = buffer.after(held.block.slot))
    if (out.includes(held.upstream)) {
      buffer.remove(held.block.slot);
      dropped = true;
    }
  // The list of slots may be of the other chain: it is read again.
  if (dropped) state.listedTo = -1;
  return dropped;
}
