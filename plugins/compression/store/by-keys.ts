import { type RawBuilder, sql } from 'kysely';
import type { Dialect, SqlValue } from '../../../src/ports/store.ts';

/** Rows that one statement names: their texts stay few, and below what the engines take. */
export const KEYS_PER_STATEMENT = 500;

/** The condition that the key columns are one of these; `keys` is not empty. */
export function isOneOf(
  dialect: Dialect,
  columns: readonly string[],
  keys: readonly (readonly SqlValue[])[],
): RawBuilder<boolean> {
  const [first] = columns;
  if (columns.length === 1 && first !== undefined)
    return sql<boolean>`${sql.ref(first)} in (${sql.join(keys.map(([value]) => sql`${value}`))})`;
  const names = sql.join(columns.map((column) => sql.ref(column)));
  const tuples = sql.join(keys.map((key) => sql`(${sql.join(key.map((value) => sql`${value}`))})`));
  // PostgreSQL gives the values of a VALUES list the type text; SQLite knows no other list of rows.
  return dialect === 'sqlite'
    ? sql<boolean>`(${names}) in (values ${tuples})`
    : sql<boolean>`(${names}) in (${tuples})`;
}

/** Pieces whose sizes are powers of two once they are below the most, so that few texts are prepared. */
export function* pieces<T>(list: readonly T[], most = KEYS_PER_STATEMENT): Generator<readonly T[]> {
  let size = most;
  for (let at = 0; at < list.length; at += size) {
    if (list.length - at < size) size = 2 ** Math.floor(Math.log2(list.length - at));
    yield list.slice(at, at + size);
  }
}
