import type Database from 'better-sqlite3';
import type { QueryResult } from 'kysely';
import { type Connection, insertText } from '../dialect.ts';
import type { InsertRows } from '../transaction.ts';
import { sqliteError } from './errors.ts';

type Statement = Database.Statement<unknown[], unknown>;

/** A connection that keeps its prepared statements. All calls are synchronous underneath. */
export interface SqliteConnection extends Connection {
  readonly db: Database.Database;
  /** Runs a statement that returns no rows; gives the number of changed rows. */
  run(sql: string, parameters: readonly unknown[]): number;
  close(): void;
}

/** Statements kept per connection: more than the daemon has hot ones, few enough to forget about their memory. */
const KEPT_STATEMENTS = 512;
const CHANGES_SCHEMA = /^\s*(create|alter|drop|vacuum)\b/i;

export function createSqliteConnection(db: Database.Database): SqliteConnection {
  const statements = new Map<string, Statement>();

  const prepare = (sql: string): Statement => {
    const kept = statements.get(sql);
    if (kept !== undefined) return kept;
    const statement = db.prepare<unknown[], unknown>(sql);
    if (statements.size >= KEPT_STATEMENTS) {
      for (const oldest of statements.keys()) {
        statements.delete(oldest);
        break;
      }
    }
    statements.set(sql, statement);
    return statement;
  };

  const execute = (sql: string, parameters: readonly unknown[]): QueryResult<unknown> => {
    if (CHANGES_SCHEMA.test(sql)) statements.clear();
    const statement = prepare(sql);
    if (statement.reader) return { rows: statement.all(bindable(parameters)) };
    const { changes, lastInsertRowid } = statement.run(bindable(parameters));
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
  };

  return {
    db,
    async query(sql, parameters) {
      try {
        return execute(sql, parameters);
      } catch (error) {
        throw sqliteError(error, db.name);
      }
    },
    run(sql, parameters) {
      try {
        return prepare(sql).run(bindable(parameters)).changes;
      } catch (error) {
        throw sqliteError(error, db.name);
      }
    },
    async *stream(sql, parameters, chunkSize) {
      // A statement of its own: a kept one could be asked for again while its rows are still read.
      const rows = db.prepare<unknown[], unknown>(sql).iterate(bindable(parameters));
      let piece: unknown[] = [];
      for (const row of rows) {
        piece.push(row);
        if (piece.length < chunkSize) continue;
        yield piece;
        piece = [];
      }
      if (piece.length > 0) yield piece;
    },
    close: () => {
      statements.clear();
      db.close();
    },
  };
}

/** SQLite knows no booleans; the list is copied only where it holds one. */
function bindable(parameters: readonly unknown[]): unknown[] {
  if (!parameters.some((value) => typeof value === 'boolean')) return parameters as unknown[];
  return parameters.map((value) => (typeof value === 'boolean' ? Number(value) : value));
}

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

/** Tells whether the database was changed: a connection that does nothing else, opened when it is first asked. */
interface VersionReader {
  read(): number;
  close(): void;
}

export function createVersionReader(path: string, open: () => SqliteConnection): VersionReader {
  let connection: SqliteConnection | null = null;
  let ask = (): number => {
    connection = open();
    // The number of a connection changes with every commit of another one, and this one makes none.
    const statement = connection.db.prepare<[], number>('pragma data_version').pluck();
    ask = () => statement.get() as number;
    return ask();
  };
  return {
    read() {
      try {
        return ask();
      } catch (error) {
        throw sqliteError(error, path);
      }
    },
    close: () => connection?.close(),
  };
}
