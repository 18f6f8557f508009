import { chmodSync, closeSync, existsSync, openSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type Database from 'better-sqlite3';
import type { QueryResult } from 'kysely';
import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import { giveToOwnerOf, makeFolder } from '../runtime/make-folder.ts';
import { isDescriptorCode, isOutOfDescriptors, outOfDescriptors } from './descriptors.ts';
import { type Connection, type InsertRows, insertText } from './transaction.ts';

type Statement = Database.Statement<unknown[], unknown>;

/** A connection that keeps its prepared statements. All its calls are synchronous. */
export interface SqliteConnection extends Connection {
  readonly db: Database.Database;
  /** Runs a statement that returns no rows; returns the number of changed rows. */
  run(sql: string, parameters: readonly unknown[]): number;
  close(): void;
}

/** Statements kept per connection: more than the daemon has hot ones, but few enough to need little memory. */
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
      // A new statement: a kept one could be used again while its rows are still being read.
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

/** SQLite has no booleans; the list is copied only if it contains one. */
function bindable(parameters: readonly unknown[]): unknown[] {
  if (!parameters.some((value) => typeof value === 'boolean')) return parameters as unknown[];
  return parameters.map((value) => (typeof value === 'boolean' ? Number(value) : value));
}

/** Rows per statement, to keep the text short. The rest is inserted in halves of it, so that few texts are prepared. */
const ROWS_PER_STATEMENT = 32;
/** SQLite allows 32,766 parameters per statement. */
const MAX_PARAMETERS = 32_000;

/** It never waits, so that its transaction cannot end between two statements. */
export function sqliteInsert(connection: SqliteConnection): InsertRows {
  return async (_connection, table, columns, rows, onConflict) => {
    const most = Math.max(1, Math.min(ROWS_PER_STATEMENT, Math.floor(MAX_PARAMETERS / columns.length)));
    let written = 0;
    let index = 0;
    for (let size = most; size >= 1 && index < rows.length; size = Math.floor(size / 2)) {
      if (rows.length - index < size) continue;
      const text = insertText(table, columns, size, onConflict, () => '?');
      for (; index + size <= rows.length; index += size) {
        written += connection.run(text, size === 1 ? rows[index]! : rows.slice(index, index + size).flat());
      }
    }
    return written;
  };
}

/** Detects changes of the database with a dedicated connection, opened on first use. */
interface VersionReader {
  read(): number;
  close(): void;
}

/** Commits of all stores of this thread. */
let commits = 0;
export function noteCommit(): void {
  commits += 1;
}

/** A reading outlives its turn when a callback of `setImmediate` made it, and a turn may be long. */
const MAX_VERSION_AGE_MS = 1;

/**
 * Requests that arrived together share one reading: it is used until the turn of the event loop ends, but not after a commit of this thread.
 * A commit of another thread or process is seen after 1 ms at the latest.
 */
export function createVersionReader(path: string, open: () => SqliteConnection): VersionReader {
  let connection: SqliteConnection | null = null;
  let last: { readonly version: number; readonly commits: number; readonly at: number } | null = null;
  const forget = () => {
    last = null;
  };
  let ask = (): number => {
    connection = open();
    // `data_version` of a connection changes with every commit of another one, and this one never commits.
    const statement = connection.db.prepare<[], number>('pragma data_version').pluck();
    ask = () => statement.get() as number;
    return ask();
  };
  return {
    read() {
      const at = performance.now();
      if (last !== null && last.commits === commits && at - last.at < MAX_VERSION_AGE_MS) return last.version;
      try {
        last = { version: ask(), commits, at };
      } catch (error) {
        throw sqliteError(error, path);
      }
      setImmediate(forget);
      return last.version;
    },
    close() {
      forget();
      connection?.close();
    },
  };
}

const PRIVATE_FILE = 0o600;
const OTHERS = 0o077;

/**
 * Creates the database file and its directory, accessible only to this user; SQLite gives its side files the same mode. Removes read access
 * of others from an existing file. A file that root creates belongs to the owner of its folder, so that the service can open it. Errors: STORE_READ_ONLY, STORE_FULL, STORE_IO, STORE_DESCRIPTORS.
 */
export function prepareFiles(path: string): void {
  try {
    makeFolder(dirname(path));
    const isNew = !existsSync(path);
    closeSync(openSync(path, 'a', PRIVATE_FILE));
    if (isNew) giveToOwnerOf(dirname(path), path);
    if ((statSync(path).mode & OTHERS) !== 0) chmodSync(path, PRIVATE_FILE);
  } catch (error) {
    const reason = codeOf(error);
    if (isDescriptorCode(reason)) throw outOfDescriptors(error);
    const options = { cause: error, exitCode: EXIT.temporary, facts: { path, reason } };
    const message = `the database file ${path} cannot be opened: ${messageOf(error)}`;
    if (reason === 'EROFS' || reason === 'EACCES' || reason === 'EPERM') {
      throw new CodedError('STORE_READ_ONLY', message, options);
    }
    throw new CodedError(reason === 'ENOSPC' ? 'STORE_FULL' : 'STORE_IO', message, options);
  }
}

const load = createRequire(import.meta.url);

/**
 * Selects the version of better-sqlite3, which have the same interface. 13 has ready binaries for every Node from 22 on; it does not run on
 * Node 20, and 12 aborts the process on Node 24.19 and later when a statement is garbage-collected.
 */
const NAME = Number.parseInt(process.versions.node, 10) >= 22 ? 'better-sqlite3-13' : 'better-sqlite3';

/** Path of the library, for a separate process. */
export const libraryPath = (): string => load.resolve(NAME);

/** Errors: STORE_ENGINE_MISSING, exit 78; those of better-sqlite3. */
export function openDatabase(path: string, options: Database.Options): Database.Database {
  try {
    const Library = load(NAME) as typeof Database;
    const db = new Library(path, options);
    // A file from elsewhere: its views, checks and indexes get no function that could do more than compute.
    db.pragma('trusted_schema = OFF');
    return db;
  } catch (error) {
    const isMissing = ['MODULE_NOT_FOUND', 'ERR_DLOPEN_FAILED'].includes(codeOf(error) ?? '');
    if (!isMissing && !messageOf(error).startsWith('Could not locate the bindings file')) throw error;
    const [why] = messageOf(error).split(/\.? Tried:|\n/, 1);
    // In a checkout, and wherever npm could not compile it, that does what is missing.
    const wanted = `run npm rebuild ${NAME} (it may need python3, make and g++), install parhelion again`;
    throw new CodedError(
      'STORE_ENGINE_MISSING',
      `SQLite for Node ${process.versions.node} does not load (${why}): ${wanted}, or set store.url to a PostgreSQL server`,
      { cause: error, exitCode: EXIT.config },
    );
  }
}

/** Converts an error of better-sqlite3 on `file` to a coded one; programming errors (bad SQL) stay unchanged. */
export function sqliteError(error: unknown, file: string): unknown {
  if (error instanceof CodedError) return error;
  const code = codeOf(error);
  if (code === undefined || !code.startsWith('SQLITE_')) return error;
  const options = { cause: error, facts: { sqlite: code } };
  if (code === 'SQLITE_FULL')
    return new CodedError('STORE_FULL', 'the disk or the database is full', { ...options, exitCode: EXIT.temporary });
  if (code.startsWith('SQLITE_READONLY') || code === 'SQLITE_PERM') {
    return new CodedError('STORE_READ_ONLY', 'the database cannot be written', {
      ...options,
      exitCode: EXIT.temporary,
    });
  }
  if (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED')) {
    return new CodedError('STORE_BUSY', 'the database is locked by another process', {
      ...options,
      exitCode: EXIT.temporary,
      retryable: true,
    });
  }
  // SQLite does not report why it cannot open a file.
  if (code.startsWith('SQLITE_CANTOPEN') && isOutOfDescriptors()) return outOfDescriptors(error);
  if (code.startsWith('SQLITE_IOERR') || code.startsWith('SQLITE_CANTOPEN')) {
    return new CodedError('STORE_IO', `the database could not read or write its files (${code})`, {
      ...options,
      exitCode: EXIT.temporary,
    });
  }
  if (code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB') {
    const message = `the database file ${file} is damaged or no database (${code})`;
    return new CodedError('STORE_CORRUPT', message, { ...options, exitCode: EXIT.config });
  }
  if (code === 'SQLITE_CONSTRAINT_UNIQUE' || code === 'SQLITE_CONSTRAINT_PRIMARYKEY') {
    return new CodedError('STORE_CONFLICT', 'a row with this key exists', options);
  }
  if (code.startsWith('SQLITE_CONSTRAINT')) {
    return new CodedError('STORE_CONSTRAINT', `a row breaks a rule of its table (${code})`, options);
  }
  return error;
}
