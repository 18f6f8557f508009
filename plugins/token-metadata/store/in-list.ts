import { type RawBuilder, sql } from 'kysely';
import type { Dialect } from '../../../src/ports/store.ts';

/** Whether a column is one of many texts, given as one parameter, so that the statement does not depend on their number. */
export function inList(dialect: Dialect, column: string, values: readonly string[]): RawBuilder<boolean> {
  return dialect === 'sqlite'
    ? sql<boolean>`${sql.ref(column)} in (select value from json_each(${JSON.stringify(values)}))`
    : sql<boolean>`${sql.ref(column)} = any(${[...values]})`;
}
