import { type BlockRows, signatureRowsOf } from '../rows.ts';
import { hasBlock } from '../run.ts';
import type { IndexedBlocks, IndexState } from './state.ts';

/** Blocks in memory outside the thread that writes. */
const MAX_TAIL = 2_048;
/** Blocks that are read at once when they are added. */
const BLOCKS_AT_ONCE = 8;

interface CoverageParts {
  readonly blocks: IndexedBlocks;
  readonly hasAddresses: boolean;
  readonly isWriter: boolean;
}

export type Coverage = ReturnType<typeof createCoverage>;

/** Which blocks the index has, and how it gets those that it lacks. */
export function createCoverage(state: IndexState, { blocks, hasAddresses, isWriter }: CoverageParts) {
  const isCovered = (slot: number, hash: number) =>
    state.tail.get(slot)?.hash === hash || state.runs.some((run) => hasBlock(run, slot, hash));

  /** The lowest block at or above a slot, which is below another block. */
  function lowestFrom(slot: number, below: number): number {
    for (let at = slot; at < below; at++) if (blocks.hashAt(at) >= 0) return at;
    return below;
  }

  /** The newest range of slots in which every block is covered. */
  function range(): { readonly from: number; readonly to: number } | null {
    let slot = blocks.newest();
    const covered = () => {
      const hash = blocks.hashAt(slot);
      return hash >= 0 && isCovered(slot, hash);
    };
    while (slot >= 0 && !covered()) slot = blocks.hashAt(slot) < 0 ? -1 : blocks.parentAt(slot);
    if (slot < 0) return null;
    const to = slot;
    let from = slot;
    while (covered()) {
      // In a range that was complete before, only blocks that are not final may have changed.
      const before = state.complete;
      const isKnown =
        before !== null &&
        slot <= before.to &&
        slot > before.from &&
        (slot <= blocks.finalSlot || (slot === before.to && blocks.hashAt(slot) === before.hash));
      from = slot;
      // The retention may have removed the lowest of them.
      const parent = isKnown ? lowestFrom(before.from, slot) : blocks.parentAt(slot);
      if (parent >= slot) break;
      slot = parent;
    }
    state.complete = { from, to, hash: blocks.hashAt(to) };
    return { from, to };
  }

  function put(slot: number, hash: number, all: BlockRows): void {
    const rows = hasAddresses ? all : signatureRowsOf(all);
    state.tail.set(slot, { hash, rows, count: rows.rows.reduce((sum, list) => sum + list.length, 0) });
  }

  /** Adds blocks that are not covered, newest first, at most so many. Returns how many. Errors: LEDGER_IO. */
  async function cover(limit: number): Promise<number> {
    const room = isWriter ? limit : Math.min(limit, MAX_TAIL - state.tail.size);
    const wanted: [number, number][] = [];
    const seen = new Set<number>();
    let isRest = false;
    for (const { number, outOfOrder, isComplete, slots } of blocks.segments()) {
      const name = `${number} ${outOfOrder} ${isComplete}`;
      const known = state.scanned.get(name);
      let newest: number | undefined;
      for (const slot of slots) {
        newest ??= slot;
        const hash = blocks.hashAt(slot);
        if (slot === known?.slot && hash === known.hash) break;
        if (hash < 0 || seen.has(slot) || state.failed.get(slot) === hash || isCovered(slot, hash)) continue;
        if (wanted.length >= room) {
          isRest = true;
          break;
        }
        seen.add(slot);
        wanted.push([slot, hash]);
      }
      if (isRest) break;
      if (newest !== undefined) state.scanned.set(name, { slot: newest, hash: blocks.hashAt(newest) });
    }
    for (let at = 0; at < wanted.length; at += BLOCKS_AT_ONCE)
      await Promise.all(
        wanted.slice(at, at + BLOCKS_AT_ONCE).map(async ([slot, hash]) => {
          const rows = await blocks.rows(slot);
          if (rows === null) state.failed.set(slot, hash);
          else if (blocks.hashAt(slot) === hash) put(slot, hash, rows);
        }),
      );
    state.isWhole = !isRest;
    return wanted.length;
  }

  function forgetVoid(): void {
    for (const [slot, { hash }] of state.tail) if (blocks.hashAt(slot) !== hash) state.tail.delete(slot);
  }

  return { isCovered, range, put, cover, forgetVoid };
}
