import { insertText } from '../insert-text.ts';
import type { InsertRows } from '../transaction.ts';
import type { SqliteConnection } from './connection.ts';

/** Rows per statement: few enough that the text stays short. What is left over goes in halves of it, so that few texts are prepared. */
const ROWS_PER_STATEMENT = 32;
/** SQLite takes 32,766 parameters per statement. */
const MAX_PARAMETERS = 32_000;

export function sqliteInsert(connection: SqliteConnection): InsertRows {
  return async (table, columns, rows, ignoreConflicts) => {
    const most = Math.max(1, Math.min(ROWS_PER_STATEMENT, Math.floor(MAX_PARAMETERS / columns.length)));
    let written = 0;
    let index = 0;
    for (let size = most; size >= 1 && index < rows.length; size = Math.floor(size / 2)) {
      if (rows.length - index < size) continue;
      const text = insertText(table, columns, size, ignoreConflicts, () => '?');
      for (; index + size <= rows.length; index += size) {
        written += connection.run(text, size === 1 ? rows[index]! : rows.slice(index, index + size).flat());
      }
    }
    return written;
  };
}
