import { insertText } from '../insert-text.ts';
import type { InsertRows } from '../transaction.ts';
import type { PostgresConnection } from './connection.ts';

/** The protocol counts parameters in 16 bits. */
const MAX_PARAMETERS = 65_535;
const MAX_ROWS = 1_000;

export function postgresInsert(connection: PostgresConnection): InsertRows {
  return async (table, columns, rows, ignoreConflicts) => {
    const perStatement = Math.max(1, Math.min(MAX_ROWS, Math.floor(MAX_PARAMETERS / columns.length)));
    let written = 0;
    for (let start = 0; start < rows.length; start += perStatement) {
      const piece = rows.slice(start, start + perStatement);
      const text = insertText(table, columns, piece.length, ignoreConflicts, (position) => `$${position}`);
      const { numAffectedRows } = await connection.query(text, piece.flat());
      written += Number(numAffectedRows ?? 0n);
    }
    return written;
  };
}
