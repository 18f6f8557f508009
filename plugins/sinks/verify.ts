import { createHash } from 'node:crypto';
import type { SinkRow, SinkTable, SinkTarget } from '../../src/ports/sink.ts';
import { admitsEvent, type BatchEvents } from './batch.ts';
import { type RowParts, readRows } from './rows/read-rows.ts';
import type { BlockSource } from './source.ts';

/** What a set of rows is, whatever their order. */
interface RowSum {
  readonly count: number;
  /** SHA-256 of the sorted rows, hexadecimal. */
  readonly hash: string;
}

export interface RowDifference {
  readonly table: string;
  /** Slots, both inclusive. */
  readonly first: number;
  readonly last: number;
  readonly ledger: RowSum;
  readonly target: RowSum;
}

export interface Findings {
  /** Rows of the ledger so far, by table. */
  readonly rows: Readonly<Record<string, number>>;
  /** The first ones; `differenceCount` counts all. */
  readonly differences: readonly RowDifference[];
  readonly differenceCount: number;
}

const MAX_DIFFERENCES = 20;

export const emptyFindings = (tables: readonly SinkTable[]): Findings => ({
  rows: Object.fromEntries(tables.map(({ name }) => [name, 0])),
  differences: [],
  differenceCount: 0,
});

/** What a kind that takes blocks has, in the words of the comparison. */
export const BLOCK_TEXTS: SinkTable = {
  name: 'blocks',
  description: 'blocks as their texts',
  columns: [],
  key: [],
};

interface CompareParts {
  readonly tables: readonly SinkTable[];
  readonly takes: 'rows' | 'blocks';
  readonly source: BlockSource;
  readonly rows: RowParts;
  readonly events: BatchEvents | null;
  readonly signal: AbortSignal;
  readonly read: NonNullable<SinkTarget['read']>;
}

/** Compares the rows of some slots with the blocks that they were made from. Errors: those of source and target. */
export async function compareRows(
  before: Findings,
  { tables, takes, source, rows, events, signal, read }: CompareParts,
  [first, last]: readonly [number, number],
): Promise<Findings> {
  const ours = new Map<string, SinkRow[]>(tables.map(({ name }) => [name, []]));
  for (let slot = first; slot <= last; ) {
    const block = await source.next(slot, last, signal);
    if (block === null) break;
    if (takes === 'rows') readRows(block, rows, (table, row) => void ours.get(table)?.push(row));
    else ours.get(BLOCK_TEXTS.name)!.push([block.slot, block.answer!.text()]);
    slot = block.slot + 1;
  }
  const counts: Record<string, number> = { ...before.rows };
  const differences = [...before.differences];
  let { differenceCount } = before;
  for (const table of tables) {
    const { name } = table;
    const isEvent = events?.tables.includes(table) === true;
    const [expected, from] = isEvent
      ? await keptRows(table, events!, { rows, range: [first, last] })
      : [ours.get(name)!, first];
    const ledger = sumOf(expected);
    const target = sumOf(from > last ? [] : await read(name, from, last));
    counts[name] = (counts[name] ?? 0) + ledger.count;
    if (ledger.count === target.count && ledger.hash === target.hash) continue;
    differenceCount += 1;
    if (differences.length < MAX_DIFFERENCES) differences.push({ table: name, first, last, ledger, target });
  }
  return { rows: counts, differences, differenceCount };
}

/** Rows that no block contains, and the slot from which on all of them are kept. */
async function keptRows(
  table: SinkTable,
  { reader }: BatchEvents,
  { rows: { filter }, range: [first, last] }: { readonly rows: RowParts; readonly range: readonly [number, number] },
): Promise<readonly [rows: readonly SinkRow[], from: number]> {
  const kept: SinkRow[] = [];
  for (const slot of await reader.slots(table, first, last))
    kept.push(...(await reader.rows(table, slot)).filter((row) => admitsEvent(table, row, filter)));
  // Asked afterwards: what was dropped meanwhile is not compared.
  const from = Math.max(first, await reader.keptFrom(table));
  return [kept.filter(([slot]) => (slot as number) >= from), from];
}

export function sumOf(rows: readonly SinkRow[]): RowSum {
  const hash = createHash('sha256');
  for (const line of rows.map(lineOf).sort()) hash.update(`${line}\n`);
  return { count: rows.length, hash: hash.digest('hex') };
}

const lineOf = (row: SinkRow): string =>
  JSON.stringify(
    row.map((value) => {
      if (typeof value === 'bigint') return `${value}n`;
      if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.length).toString('hex');
      return value;
    }),
  );
