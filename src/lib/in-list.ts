import { type RawBuilder, sql } from 'kysely';

/**
 * Whether a column is one of many values, with all of them in one parameter: the text of the statement then does not depend on
 * their number, and its prepared form is used again.
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
