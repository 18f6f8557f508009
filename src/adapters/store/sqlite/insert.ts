import { insertText } from '../insert-text.ts';
import type { InsertRows } from '../transaction.ts';
import type { SqliteConnection } from './connection.ts';

/** Rows per statement: a fifth faster than single rows, and few enough that the text stays short. */
const ROWS_PER_STATEMENT = 32;
/** SQLite takes 32,766 parameters per statement. */
const MAX_PARAMETERS = 32_000;

export function sqliteInsert(connection: SqliteConnection): InsertRows {
  return async (table, columns, rows, ignoreConflicts) => {
    const perStatement = Math.max(1, Math.min(ROWS_PER_STATEMENT, Math.floor(MAX_PARAMETERS / columns.length)));
    const many =
      rows.length >= perStatement ? insertText(table, columns, perStatement, ignoreConflicts, () => '?') : '';
    const one = rows.length % perStatement > 0 ? insertText(table, columns, 1, ignoreConflicts, () => '?') : '';
    let written = 0;
    let index = 0;
    for (; index + perStatement <= rows.length; index += perStatement) {
      written += connection.run(many, rows.slice(index, index + perStatement).flat());
    }
    for (; index < rows.length; index += 1) written += connection.run(one, rows[index] ?? []);
    return written;
  };
}
