import { encode32 } from '../../src/lib/base58.ts';
import type { ArchiveEngine } from '../../src/ports/ledger.ts';

/** Slots from the first to the last one, both inclusive. */
export type SlotRange = readonly [from: number, to: number];

/** Ascending; between two of them at least one slot is missing. */
export type SlotRanges = readonly SlotRange[];

interface RangeRow {
  readonly first: string;
  readonly last: string;
  readonly hash: string;
}

/**
 * What is complete in the archive, and the hash of its newest block; null for an empty one. A range that goes on has a row for each batch
 * until ClickHouse merges them; a hole that was filled leaves two ranges that touch. Errors: those of the engine.
 */
export async function readRanges(
  engine: ArchiveEngine,
): Promise<{ readonly ranges: SlotRanges; readonly newestHash: string | null }> {
  const rows = await engine.select<RangeRow>(
    `SELECT first, last, hex(hash) AS hash FROM ${engine.database}.ranges ORDER BY last`,
  );
  const newest = rows.at(-1);
  return {
    ranges: merged(rows.map(({ first, last }) => [Number(first), Number(last)] as const)),
    newestHash: newest === undefined ? null : encode32(Buffer.from(newest.hash, 'hex')),
  };
}

/** Ranges that touch or overlap as one. */
export function merged(ranges: SlotRanges): SlotRanges {
  const found: [from: number, to: number][] = [];
  for (const [from, to] of ranges.toSorted(([a], [b]) => a - b)) {
    const last = found.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else found.push([from, to]);
  }
  return found;
}

/** What lies between the ranges. */
export const holesOf = (ranges: SlotRanges): SlotRanges =>
  ranges.slice(1).map(([from], at) => [ranges[at]![1] + 1, from - 1] as const);
