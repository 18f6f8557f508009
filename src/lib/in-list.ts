import { type RawBuilder, sql } from 'kysely';

/**
 * Condition that a column has one of many values, with all values in one parameter: the text of the statement then does not depend on
 * their number, so its prepared form is reused.
 */
export function inList(
  dialect: 'sqlite' | 'postgres',
  column: string,
  values: readonly (string | number)[],
): RawBuilder<boolean> {
  return dialect === 'sqlite'
    ? sql<boolean>`${sql.ref(column)} in (select value from json_each(${JSON.stringify(values)}))`
    : sql<boolean>`${sql.ref(column)} = any(${[...values]})`;
}

/** Like `inList`, for a column of bytes. */
export function inBytes(
  dialect: 'sqlite' | 'postgres',
  column: string,
  values: readonly Uint8Array[],
): RawBuilder<boolean> {
  return dialect === 'sqlite'
    ? sql<boolean>`${sql.ref(column)} in (select unhex(value) from json_each(${hexList(values)}))`
    : sql<boolean>`${sql.ref(column)} = any(${values.map(bufferOf)}::bytea[])`;
}

/**
 * Rows of a table by bytes, in one parameter too: `from ${byBytes(…)} where …` has the table as `t`, and as `k.place` the place of its value
 * in the list, from 0. Reading the place takes less than reading the bytes.
 */
export function byBytes(
  dialect: 'sqlite' | 'postgres',
  { table, column }: { readonly table: string; readonly column: string },
  values: readonly Uint8Array[],
): RawBuilder<unknown> {
  const keyed =
    dialect === 'sqlite'
      ? sql`(select key as place, unhex(value) as bytes from json_each(${hexList(values)}))`
      : sql`(select place - 1 as place, bytes from unnest(${values.map(bufferOf)}::bytea[]) with ordinality as u (bytes, place))`;
  // In this order: SQLite keeps that of a cross join.
  return sql`${keyed} as k ${sql.raw(dialect === 'sqlite' ? 'cross join' : 'join')} ${sql.table(table)} as t
    on t.${sql.ref(column)} = k.bytes`;
}

const bufferOf = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
const hexList = (values: readonly Uint8Array[]): string =>
  JSON.stringify(values.map((bytes) => bufferOf(bytes).toString('hex')));
