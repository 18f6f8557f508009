import { encode32 } from '../../src/lib/base58.ts';
import type { ArchiveEngine } from '../../src/ports/ledger.ts';

/** Slots from the first to the last one, both inclusive. */
export type SlotRange = readonly [from: number, to: number];

/** Slots that are complete in the archive, both inclusive. */
export interface CompleteRange {
  readonly first: number;
  readonly last: number;
  /** Hash (base58) of the newest block at or below `last`. */
  readonly blockhash: string;
}

interface RangeRow {
  readonly first: string;
  readonly last: string;
  readonly hash: string;
}

/**
 * What is complete in the archive, ascending; between two of them at least one slot is missing. A range that goes on has a row for each batch
 * until ClickHouse merges them; a hole that was filled leaves two ranges that touch. Errors: those of the engine.
 */
export async function readRanges(engine: ArchiveEngine): Promise<readonly CompleteRange[]> {
  const rows = await engine.select<RangeRow>(
    `SELECT first, last, hex(hash) AS hash FROM ${engine.database}.ranges ORDER BY last`,
  );
  return merged(
    rows.map(({ first, last, hash }) => ({
      first: Number(first),
      last: Number(last),
      blockhash: encode32(Buffer.from(hash, 'hex')),
    })),
  );
}

/** Ranges that touch or overlap as one. */
function merged(ranges: readonly CompleteRange[]): readonly CompleteRange[] {
  const found: CompleteRange[] = [];
  for (const range of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = found.at(-1);
    if (before === undefined || range.first > before.last + 1) found.push(range);
    else if (range.last > before.last) found[found.length - 1] = { ...range, first: before.first };
  }
  return found;
}

/** What lies between the ranges. */
export const holesOf = (ranges: readonly Pick<CompleteRange, 'first' | 'last'>[]): readonly SlotRange[] =>
  ranges.slice(1).map(({ first }, at) => [ranges[at]!.last + 1, first - 1] as const);
