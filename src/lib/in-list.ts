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

/** The same for a column of bytes. */
export function inBytes(
  dialect: 'sqlite' | 'postgres',
  column: string,
  values: readonly Uint8Array[],
): RawBuilder<boolean> {
  const buffers = values.map((bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
  return dialect === 'sqlite'
    ? sql<boolean>`${sql.ref(column)} in
        (select unhex(value) from json_each(${JSON.stringify(buffers.map((bytes) => bytes.toString('hex')))}))`
    : sql<boolean>`${sql.ref(column)} = any(${buffers}::bytea[])`;
}
