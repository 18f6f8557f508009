import type { ChainId } from '../../ports/chain.ts';
import type { Store } from '../../ports/store.ts';
import type { BlockProcessor } from '../plugin.ts';
import { type Lane, MAIN_LANE } from './lane.ts';
import { CHAIN_CURSOR, moveCursors, readCursors, readHeaders, type StoredCursor } from './rows.ts';

/**
 * Sorts processors into lanes by their stored cursors: those that stand where the chain stands share the main lane, a new one joins it
 * there, and one that lags or wants to begin earlier gets a lane of its own.
 */
export async function planLanes(
  store: Store,
  chain: ChainId,
  processors: readonly BlockProcessor[],
): Promise<readonly Lane[]> {
  const cursors = await readCursors(store, chain);
  const find = (name: string, version: number) =>
    cursors.find((cursor) => cursor.processor === name && cursor.version === version);
  const chainCursor = find(CHAIN_CURSOR.name, CHAIN_CURSOR.version) ?? null;
  const main = await newLane(store, chain, MAIN_LANE, chainCursor);
  const lanes = [main];
  const joining: BlockProcessor[] = [];
  for (const processor of processors) {
    const cursor = find(processor.name, processor.version) ?? null;
    if (cursor !== null ? samePlace(cursor, chainCursor) : chainCursor === null && processor.startSlot === undefined) {
      main.processors = [...main.processors, processor];
    } else if (
      cursor === null &&
      chainCursor !== null &&
      (processor.startSlot ?? Number.POSITIVE_INFINITY) > chainCursor.slot
    ) {
      joining.push(processor);
    } else {
      lanes.push(await ownLane(store, chain, processor, cursor, main));
    }
  }
  if (joining.length > 0 && chainCursor !== null) {
    const owners = joining.map(({ name, version }) => ({ name, version }));
    await store.write((tx) => moveCursors(tx, chain, owners, null, chainCursor));
    main.processors = [...main.processors, ...joining];
  }
  return lanes;
}

const samePlace = (a: StoredCursor, b: StoredCursor | null): boolean =>
  b !== null && a.slot === b.slot && a.blockhash === b.blockhash;

async function newLane(store: Store, chain: ChainId, id: string, cursor: StoredCursor | null): Promise<Lane> {
  const headers = [...(await readHeaders(store, chain, id))];
  const position =
    cursor === null ? null : { slot: cursor.slot, blockhash: cursor.blockhash, blockTime: cursor.blockTime };
  return { id, processors: [], position, headers, startSlot: null, gap: null, stalled: null };
}

/** A lane that has no headers of its own borrows those of the main lane up to its place, to find its way out of a fork. */
async function ownLane(
  store: Store,
  chain: ChainId,
  processor: BlockProcessor,
  cursor: StoredCursor | null,
  main: Lane,
): Promise<Lane> {
  const lane = await newLane(store, chain, `${processor.name}@${processor.version}`, cursor);
  lane.processors = [processor];
  if (cursor === null) lane.startSlot = processor.startSlot ?? null;
  if (cursor !== null && lane.headers.length === 0) {
    const shared = main.headers.filter(({ slot }) => slot <= cursor.slot);
    if (shared.at(-1)?.blockhash === cursor.blockhash) lane.headers = shared;
  }
  return lane;
}
