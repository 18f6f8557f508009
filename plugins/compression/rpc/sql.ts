import { type RawBuilder, type SqlBool, sql } from 'kysely';

/** A constant of the text: indexes on unspent rows are not found with a parameter. */
export const unspent = (column: string): RawBuilder<SqlBool> => sql<SqlBool>`${sql.ref(column)} = 0`;

/** Whether a row comes after a place, both in the order of two columns. */
export function after(
  columns: readonly [string, string],
  direction: 'asc' | 'desc',
  place: readonly [number | Uint8Array, number | Uint8Array],
): RawBuilder<SqlBool> {
  const sign = sql.raw(direction === 'asc' ? '>' : '<');
  return sql<SqlBool>`(${sql.ref(columns[0])}, ${sql.ref(columns[1])}) ${sign} (${place[0]}, ${place[1]})`;
}
