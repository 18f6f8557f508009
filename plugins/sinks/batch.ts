import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { parquetSizeOf } from '../../src/lib/parquet-columns.ts';
import type { ChainBlock } from '../../src/ports/block.ts';
import type { SinkBatch, SinkBlock, SinkPosition, SinkRow, SinkTable } from '../../src/ports/sink.ts';
import { otherChain } from './errors.ts';
import type { EventReader } from './events.ts';
import type { CompiledFilter } from './rows/filter.ts';
import { type RowParts, readRows } from './rows/read-rows.ts';
import type { BlockSource } from './source.ts';
import type { EventRange } from './store.ts';

/** Rows or blocks of consecutive slots that wait to be written. Its memory is bounded by `limitBytes` and what one block has. */
export class OpenBatch {
  readonly #part: string;
  readonly #after: SinkPosition | null;
  /** The lowest slot of the batch. */
  readonly first: number;
  readonly #rows = new Map<string, SinkRow[]>();
  readonly #blocks: SinkBlock[] = [];
  /** The next slot to read. */
  next: number;
  bytes = 0;
  rowCount = 0;
  /** Slots whose rows of a table were dropped before they could be read. */
  readonly holes: EventRange[] = [];
  #blockhash: string | null;

  constructor(part: string, after: SinkPosition | null, first: number) {
    this.#part = part;
    this.#after = after;
    this.first = first;
    this.next = first;
    this.#blockhash = after?.blockhash ?? null;
  }

  get slots(): number {
    return this.next - this.first;
  }

  /** Reads slots up to `to`, both inclusive, until a bound is reached. Errors: those of the source. */
  async read(source: BlockSource, to: number, bounds: BatchBounds, signal: AbortSignal): Promise<void> {
    const last = Math.min(to, this.first + bounds.slots - 1);
    const waiting = await eventPlaces(bounds.events, [this.next, last]);
    while (this.next <= last && this.bytes < bounds.limitBytes) {
      signal.throwIfAborted();
      const block = await source.next(this.next, last, signal);
      if (block === null) this.next = last + 1;
      else this.#add(block, bounds);
      for (const one of waiting)
        for (; one.slots.length > 0 && one.slots[0]! < this.next; one.slots.shift())
          await this.#addEvents(one, one.slots[0]!, bounds);
      // Blocks in memory come without I/O.
      await yieldToOthers();
    }
    for (const { table, dropped } of waiting)
      for (const [from, end] of dropped)
        for (const [cutFrom, cutTo] of await bounds.events!.reader.cuts(table, from, Math.min(end, this.next - 1)))
          this.holes.push({ name: table.name, first: cutFrom, last: cutTo });
  }

  async #addEvents(place: EventPlace, slot: number, { events, rows: { filter } }: BatchBounds): Promise<void> {
    const { table, dropped } = place;
    const rows = await events!.reader.rows(table, slot);
    // Asked afterwards: what was dropped meanwhile may be some of the rows, or none.
    const keptFrom = await events!.reader.keptFrom(table);
    if (keptFrom > slot) dropped.push([place.from, keptFrom - 1]);
    else for (const row of rows) if (admitsEvent(table, row, filter)) this.#put(table.name, row);
    place.from = slot + 1;
  }

  /** Errors: SINKS_OTHER_CHAIN for a block that does not follow the one before it: nothing is ever passed over. */
  #add(block: ChainBlock, { takes, rows }: BatchBounds): void {
    if (this.#blockhash !== null && block.previousBlockhash !== this.#blockhash) throw otherChain(block.slot);
    if (takes === 'rows') readRows(block, rows, (table, row) => this.#put(table, row));
    else {
      const { slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime, answer } = block;
      const { isVerbatim } = answer!;
      const text = answer!.text();
      // What was decoded is let go: it takes several times the memory of the text.
      this.#blocks.push({ slot, parentSlot, blockhash, previousBlockhash, blockHeight, blockTime, text, isVerbatim });
      this.bytes += text.length;
      this.rowCount += 1;
    }
    this.#blockhash = block.blockhash;
    this.next = block.slot + 1;
  }

  #put(table: string, row: SinkRow): void {
    const list = this.#rows.get(table);
    if (list === undefined) this.#rows.set(table, [row]);
    else list.push(row);
    this.bytes += sizeOfRow(row);
    this.rowCount += 1;
  }

  /** Null without a block at or below its last slot: then there is nothing that a position could name. */
  close(): SinkBatch | null {
    if (this.#blockhash === null || this.slots === 0) return null;
    return {
      after: this.#after,
      first: this.first,
      position: {
        part: this.#part,
        first: this.#after?.first ?? this.first,
        last: this.next - 1,
        blockhash: this.#blockhash,
      },
      rows: this.#rows,
      blocks: this.#blocks,
    };
  }
}

export interface BatchBounds {
  readonly slots: number;
  /** Bound of the rows, or of the texts of blocks. */
  readonly limitBytes: number;
  readonly takes: 'rows' | 'blocks';
  readonly rows: RowParts;
  /** Tables of the sink whose rows no block contains; null: it has none. */
  readonly events: BatchEvents | null;
}

export interface BatchEvents {
  readonly tables: readonly SinkTable[];
  readonly reader: EventReader;
}

/** What is read of a table whose rows no block contains. */
interface EventPlace {
  readonly table: SinkTable;
  /** Slots that have rows and are not read yet. */
  readonly slots: number[];
  /** Slots below are read. */
  from: number;
  /** Slots, both inclusive, whose rows are not kept. They are a hole where somebody lacked them. */
  readonly dropped: (readonly [from: number, to: number])[];
}

async function eventPlaces(
  events: BatchEvents | null,
  [first, last]: readonly [number, number],
): Promise<readonly EventPlace[]> {
  const places: EventPlace[] = [];
  for (const table of events?.tables ?? []) {
    const slots = [...(await events!.reader.slots(table, first, last))];
    // Asked afterwards: what is listed and kept is all.
    const keptFrom = await events!.reader.keptFrom(table);
    places.push({ table, slots, from: first, dropped: keptFrom > first ? [[first, keptFrom - 1]] : [] });
  }
  return places;
}

/** Whether a filter lets such a row through. */
export function admitsEvent({ name, columns }: SinkTable, row: SinkRow, filter: CompiledFilter): boolean {
  if (name !== 'account_writes') return true;
  const value = (column: string) => row[columns.findIndex((one) => one.name === column)] as string | null;
  return filter.account(value('account')!, value('owner'));
}

/** What an array of values takes beside them. */
const ROW_BYTES = 64;

const sizeOfRow = (row: SinkRow): number =>
  row.reduce<number>((total, value) => total + parquetSizeOf(value), ROW_BYTES);
