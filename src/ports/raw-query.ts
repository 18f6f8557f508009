import { CompiledQuery } from 'kysely';
import { lazy } from '../lib/lazy.ts';
import type { Queries, Store } from './store.ts';

/** A prebuilt statement for hot paths, where building it for each call would cost more than running it. */
export type RawQuery<Row> = (db: Queries, parameters: readonly unknown[]) => Promise<readonly Row[]>;

type Engine = Pick<Store, 'dialect'>;

/**
 * `text` calls `place` for the placeholder of each parameter, in parameter order. It is called at the first query, because the store is
 * not open before. Errors: those of the store.
 */
export function rawQuery<Row>(store: Engine, text: (place: () => string) => string): RawQuery<Row> {
  const statement = lazy(() => {
    const isSqlite = store.dialect === 'sqlite';
    let count = 0;
    return text(() => {
      count += 1;
      return isSqlite ? '?' : `$${count}`;
    });
  });
  return (db, parameters) => rowsOf<Row>(db, statement(), parameters);
}

/** A prebuilt statement with one list of keys, and parameters that follow it. No keys: no row of them. */
export type KeysQuery<Row> = (
  db: Queries,
  keys: readonly unknown[],
  more?: readonly unknown[],
) => Promise<readonly Row[]>;

/**
 * `text` puts `isIn` after the column of the keys and calls `place` for each parameter after it. The text is the same for any number of
 * keys on PostgreSQL, which gets them as one array; on SQLite there is one per power of two, filled up with the last key, which finds no
 * row twice.
 */
export function keysQuery<Row>(store: Engine, text: (isIn: string, place: () => string) => string): KeysQuery<Row> {
  const texts = new Map<number, string>();

  function textFor(count: number): string {
    const made = texts.get(count);
    if (made !== undefined) return made;
    let last = 1;
    const statement =
      store.dialect === 'sqlite'
        ? text(`IN (${Array.from({ length: count }, () => '?').join(',')})`, () => '?')
        : text('= ANY($1)', () => {
            last += 1;
            return `$${last}`;
          });
    texts.set(count, statement);
    return statement;
  }

  return (db, keys, more = []) => {
    if (store.dialect !== 'sqlite') return rowsOf<Row>(db, textFor(1), [keys, ...more]);
    const count = keys.length === 0 ? 1 : 2 ** Math.ceil(Math.log2(keys.length));
    const filled = Array.from({ length: count }, (_, i) => keys[i] ?? keys[keys.length - 1] ?? null);
    return rowsOf<Row>(db, textFor(count), [...filled, ...more]);
  };
}

async function rowsOf<Row>(db: Queries, text: string, parameters: readonly unknown[]): Promise<readonly Row[]> {
  return (await db.executeQuery<Row>(CompiledQuery.raw(text, [...parameters]))).rows;
}

type PackedValue = number | Uint8Array | null;

/** The columns of packed rows by the names of their values, each with its SQL. */
interface PackedColumns {
  readonly numbers: Readonly<Record<string, string>>;
  readonly bytes: Readonly<Record<string, string>>;
}

/**
 * Many rows as one text, aggregated by the database. Both engines take about a microsecond to hand over one value of one row, which is
 * most of the time of a page; one text for all rows is two to three times faster.
 */
export interface PackedRows<Row> {
  /** The aggregate, for a select list. It promises no order of the rows. */
  readonly sql: () => string;
  /** The rows of such a text; null: of none. */
  read(text: string | null): Row[];
}

/** `Row` has a value for each of the columns. */
export function packedRows<Row extends object>(store: Engine, { numbers, bytes }: PackedColumns): PackedRows<Row> {
  const names = { numbers: Object.keys(numbers), bytes: Object.keys(bytes) };
  const sql = lazy(() => {
    const blobs = Object.values(bytes);
    const hex =
      store.dialect === 'sqlite'
        ? blobs.map((blob) => `hex(${blob})`).join(' || ')
        : `encode(${blobs.map((blob) => `coalesce(${blob}, '')`).join(' || ')}, 'hex')`;
    const fields = [
      ...Object.values(numbers).map((number) => `coalesce(CAST(${number} AS TEXT), '')`),
      ...blobs.map((blob) => `coalesce(length(${blob}), -1)`),
      hex,
    ];
    return `string_agg(concat_ws(',', ${fields.join(', ')}), ';')`;
  });

  function readRow(text: string): Row {
    const fields = text.split(',');
    const content = Buffer.from(fields[fields.length - 1]!, 'hex');
    const row: Record<string, PackedValue> = {};
    let field = 0;
    for (const name of names.numbers) {
      const number = fields[field++]!;
      row[name] = number === '' ? null : Number(number);
    }
    let at = 0;
    for (const name of names.bytes) {
      const length = Number(fields[field++]);
      row[name] = length < 0 ? null : content.subarray(at, at + length);
      at += Math.max(length, 0);
    }
    return row as Row;
  }

  return { sql, read: (text) => (text === null ? [] : text.split(';').map(readRow)) };
}
