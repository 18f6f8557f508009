import { isPlainObject } from '../../../src/lib/json.ts';
import type { OpenSink, SinkBatch, SinkPosition, SinkRow, SinkTarget } from '../../../src/ports/sink.ts';
import { refused, targetMoved } from '../errors.ts';
import { lineOf, rowOf } from './ndjson.ts';

/** Identity of a row in its table, ascending within a part: its slot, and its number among the rows of the table in that slot. */
export type RowKey = readonly [slot: number, index: number];

export interface LogRecord {
  readonly table: string;
  readonly part: string;
  readonly key: RowKey;
  /** The row as JSON, as in files of lines. */
  readonly text: string;
}

/** A target that only ever grows at its end: a stream, or a topic per table. `Place` is where a record is. */
export interface RowLog<Place> {
  /** The newest record of positions; null: none. What another writer appends from now on makes the next `append` fail. */
  newestState(): Promise<string | null>;
  /** The newest record of a table, as of `newestState`; null: none. */
  newest(table: string): Promise<LogRecord | null>;
  /** From now on other writers are refused, where the log can do that. Before the first `append`. */
  claim(): Promise<void>;
  /**
   * Appends records in their order, and a record of positions. If it rejects, some of the first ones may be there. Errors: SINKS_MOVED when
   * another writer was faster.
   */
  append(records: readonly LogRecord[], state: string): Promise<void>;
  /** Records of a table in their order, from a place on, up to the newest one as of now. */
  scan(table: string, from: Place | null): AsyncIterable<{ readonly place: Place; readonly record: LogRecord }>;
  close(): Promise<void>;
}

/** What a record of positions has. */
interface LogState {
  readonly rowsVersion: number;
  readonly positions: readonly SinkPosition[];
  /** Newest rows that are there above the position of their part, by part and table: a batch of them was begun, and is not complete. */
  readonly unfinished: Readonly<Record<string, Readonly<Record<string, RowKey>>>>;
}

const EMPTY: LogState = { rowsVersion: 0, positions: [], unfinished: {} };

const isAfter = ([slot, index]: RowKey, other: RowKey): boolean =>
  slot > other[0] || (slot === other[0] && index > other[1]);

/**
 * Rows in a log. Its newest records are the position: rows of a part come in ascending order, so what a batch that broke off has left is known
 * from the newest row of each table, and is passed over when the batch is repeated. No memory of the log for ids is needed.
 */
export class LogTarget<Place> implements SinkTarget {
  readonly #sink: OpenSink;
  readonly #log: RowLog<Place>;
  #state: LogState | null = null;
  #hasClaimed = false;
  /** Where the rows of a table from this slot on begin: reads mostly go on where the last one ended. */
  readonly #cursors = new Map<string, { readonly slot: number; readonly place: Place }>();

  constructor(sink: OpenSink, log: RowLog<Place>) {
    this.#sink = sink;
    this.#log = log;
  }

  async positions(): Promise<readonly SinkPosition[]> {
    const state = await this.#read();
    return state.positions;
  }

  async write(batch: SinkBatch): Promise<SinkPosition> {
    const { position, after } = batch;
    if (!this.#hasClaimed) {
      await this.#log.claim();
      const known = await this.#read();
      // Before another part hides what is unfinished of this one.
      if (Object.keys(known.unfinished).length > 0) await this.#log.append([], JSON.stringify(known));
      this.#hasClaimed = true;
    }
    const before = this.#state!;
    const found = before.positions.find(({ part }) => part === position.part) ?? null;
    if (found?.last !== after?.last || found?.blockhash !== after?.blockhash) throw targetMoved(this.#sink.name);
    const { [position.part]: begun = {}, ...unfinished } = before.unfinished;
    const records = this.#recordsOf(batch).filter(({ table, key }) => {
      const newest = begun[table];
      return newest === undefined || isAfter(key, newest);
    });
    const left = Object.entries(begun).filter(([, [slot]]) => slot > position.last);
    const state: LogState = {
      rowsVersion: this.#sink.version,
      positions: [...before.positions.filter(({ part }) => part !== position.part), position],
      unfinished: left.length === 0 ? unfinished : { ...unfinished, [position.part]: Object.fromEntries(left) },
    };
    await this.#log.append(records, JSON.stringify(state));
    this.#state = state;
    return position;
  }

  async read(table: string, first: number, last: number): Promise<readonly SinkRow[]> {
    const described = this.#sink.tables.find(({ name }) => name === table);
    if (described === undefined) return [];
    // Not read again: what another writer adds meanwhile would pass for known.
    const { positions } = this.#state ?? (await this.#read());
    const open = new Set(positions.filter((part) => part.first <= last && part.last >= first).map(({ part }) => part));
    const cursor = this.#cursors.get(table);
    const rows: SinkRow[] = [];
    let next: Place | null = null;
    for await (const { place, record } of this.#log.scan(table, cursor?.slot === first ? cursor.place : null)) {
      const [slot] = record.key;
      if (slot > last) {
        next ??= place;
        open.delete(record.part);
        if (open.size === 0) break;
      } else if (slot >= first) rows.push(rowOf(described, record.text));
    }
    if (next === null) this.#cursors.delete(table);
    else this.#cursors.set(table, { slot: last + 1, place: next });
    return rows;
  }

  async close(): Promise<void> {
    await this.#log.close();
  }

  async #read(): Promise<LogState> {
    const text = await this.#log.newestState();
    const state = text === null ? EMPTY : this.#parsed(text);
    const unfinished: Record<string, Readonly<Record<string, RowKey>>> = { ...state.unfinished };
    for (const { name } of this.#sink.tables) {
      const newest = await this.#log.newest(name);
      if (newest === null) continue;
      const { part, key } = newest;
      if (key[0] > (state.positions.find((one) => one.part === part)?.last ?? -1))
        unfinished[part] = { ...unfinished[part], [name]: key };
    }
    this.#state = { ...state, unfinished };
    return this.#state;
  }

  #parsed(text: string): LogState {
    const state: unknown = JSON.parse(text);
    if (!isPlainObject(state) || !Array.isArray(state['positions']) || !isPlainObject(state['unfinished']))
      throw refused(`sink ${this.#sink.name}: its newest record of positions is none: another program writes there`);
    const { rowsVersion } = state as unknown as LogState;
    if (rowsVersion > this.#sink.version)
      throw refused(`sink ${this.#sink.name}: its rows are of version ${rowsVersion}`);
    return state as unknown as LogState;
  }

  /** By slot, then in the order of the tables. */
  #recordsOf({ position: { part }, rows }: SinkBatch): readonly LogRecord[] {
    const records: LogRecord[] = [];
    for (const table of this.#sink.tables) {
      let [slot, index] = [-1, 0];
      for (const row of rows.get(table.name) ?? []) {
        const at = Number(row[0]);
        index = at === slot ? index + 1 : 0;
        slot = at;
        records.push({ table: table.name, part, key: [slot, index], text: lineOf(table, row) });
      }
    }
    return records.sort((one, other) => one.key[0] - other.key[0]);
  }
}
