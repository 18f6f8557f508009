import { Kysely } from 'kysely';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import type { Store, StoreTx } from '../ports/store.ts';
import { EXIT } from '../runtime/errors.ts';
import {
  createSqliteConnection,
  createVersionReader,
  openDatabase,
  prepareFiles,
  type SqliteConnection,
  sqliteError,
  sqliteInsert,
} from './sqlite-connection.ts';
import { createCheckpointer, createWriter, openTurn } from './sqlite-writer.ts';
import { beat, createDialect, createTransaction } from './transaction.ts';
import { createWriteQueue, type WriteLock } from './write-lock.ts';

export interface SqliteStoreOptions {
  /** Path of the database file; created with its directory if absent. */
  readonly path: string;
  /** How long another process may keep the database locked. */
  readonly busyTimeoutMs: number;
  /** How long a writer waits for earlier writers of this thread, and then for those of other threads, in ms; default 60,000. */
  readonly queueTimeoutMs?: number;
  /** Shared with the other threads of this process that write to the file. */
  readonly lock?: WriteLock;
  /** Length of the write-ahead log beyond which it is moved into the database; default 64 MiB. */
  readonly walLimitBytes?: number;
}

const MAX_READERS = 8;
const MAX_WAITING_WRITERS = 10_000;
const QUEUE_TIMEOUT_MS = 60_000;
const WAL_LIMIT_BYTES = 64 * 1024 * 1024;

/**
 * Opens the embedded database: one writing connection and several read-only ones. Every commit is on disk when it returns.
 * Errors: STORE_READ_ONLY, STORE_FULL, STORE_IO, STORE_CORRUPT, STORE_BUSY.
 */
export function openSqliteStore(options: SqliteStoreOptions): Store {
  prepareFiles(options.path);
  const connection = openWriter(options);
  const turn = openTurn(`${options.path}-turn`);
  const afterCommit = createCheckpointer(connection.db, options.walLimitBytes ?? WAL_LIMIT_BYTES);
  const writer = createWriter({ connection, busyTimeoutMs: options.busyTimeoutMs, turn, afterCommit });
  const queueTimeoutMs = options.queueTimeoutMs ?? QUEUE_TIMEOUT_MS;
  const queue = createWriteQueue({ maxWaiting: MAX_WAITING_WRITERS, timeoutMs: queueTimeoutMs });
  const readers = createReaderPool(() => openReader(options), MAX_READERS);
  const versions = createVersionReader(options.path, () => openReader(options));
  const read = new Kysely({
    dialect: createDialect('sqlite', {
      acquire: readers.acquire,
      release: (held) => readers.release(held as SqliteConnection),
      begin: 'begin',
    }),
  });
  const insertRows = sqliteInsert(connection);

  async function write<T>(work: (tx: StoreTx) => Promise<T>): Promise<T> {
    const { result, after } = await queue.run(async () => {
      const transaction = createTransaction('sqlite', connection, insertRows);
      const result = await locked(options.lock, queueTimeoutMs, async () => {
        await writer.begin();
        try {
          const made = await transaction.run(work);
          writer.commit();
          return made;
        } catch (error) {
          writer.rollback(error);
          throw error;
        }
      });
      return { result, after: transaction.committed() };
    });
    if (after.length > 0) await Promise.all(after);
    return result;
  }

  let closing: Promise<void> | null = null;
  const close = async () => {
    await queue.close();
    // Close the writer last: the last connection moves the log into the database.
    readers.close();
    versions.close();
    turn.close();
    connection.close();
  };
  return {
    dialect: 'sqlite',
    read,
    write,
    version: versions.read,
    probe: () => beat(write, read),
    close() {
      closing ??= close();
      return closing;
    },
  };
}

/** Runs `work` while no other thread of this process is in a transaction. */
async function locked<T>(lock: WriteLock | undefined, timeoutMs: number, work: () => Promise<T>): Promise<T> {
  if (lock === undefined) return await work();
  if (!(await lock.acquire(timeoutMs))) {
    const why = `another thread of this process has been in a transaction for ${timeoutMs} ms`;
    throw new CodedError('STORE_BUSY', `the database cannot take the write: ${why}`, { retryable: true });
  }
  try {
    return await work();
  } finally {
    lock.release();
  }
}

function openWriter({ path, busyTimeoutMs }: SqliteStoreOptions): SqliteConnection {
  try {
    const db = openDatabase(path, { timeout: busyTimeoutMs });
    try {
      const mode = db.pragma('journal_mode = WAL', { simple: true });
      if (mode !== 'wal') {
        throw new CodedError('STORE_IO', `the file system of ${path} cannot hold a write-ahead log`, {
          exitCode: EXIT.temporary,
        });
      }
      db.pragma('synchronous = FULL');
      db.pragma('foreign_keys = ON');
      db.pragma('wal_autocheckpoint = 0');
      db.pragma('temp_store = MEMORY');
      // From now on the writer waits for locks without blocking the event loop.
      db.pragma('busy_timeout = 0');
      return createSqliteConnection(db);
    } catch (error) {
      db.close();
      throw error;
    }
  } catch (error) {
    throw sqliteError(error, path);
  }
}

function openReader({ path, busyTimeoutMs }: SqliteStoreOptions): SqliteConnection {
  try {
    return createSqliteConnection(openDatabase(path, { readonly: true, fileMustExist: true, timeout: busyTimeoutMs }));
  } catch (error) {
    throw sqliteError(error, path);
  }
}

export interface ReaderPool {
  /** Errors: STORE_CLOSED, and those of opening a connection. */
  acquire(): Promise<SqliteConnection>;
  release(connection: SqliteConnection): void;
  close(): void;
}

/**
 * Read-only connections, opened on demand. A plain query holds one only while it runs, which is synchronous, so usually one is open; a
 * read transaction or a stream holds one longer. Callers above `max` wait; their number is bounded by that of the requests.
 */
export function createReaderPool(open: () => SqliteConnection, max: number): ReaderPool {
  const idle: SqliteConnection[] = [];
  const all = new Set<SqliteConnection>();
  const waiting: { resolve(connection: SqliteConnection): void; reject(error: Error): void }[] = [];
  let closed = false;

  return {
    async acquire() {
      if (closed) throw closedError();
      const free = idle.pop();
      if (free !== undefined) return free;
      if (all.size < max) {
        try {
          const connection = open();
          all.add(connection);
          return connection;
        } catch (error) {
          // Out of file descriptors: callers wait for the open connections.
          if (codeOf(error) !== 'STORE_DESCRIPTORS' || all.size === 0) throw error;
        }
      }
      return await new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    release(connection) {
      if (closed) return;
      const next = waiting.shift();
      if (next === undefined) idle.push(connection);
      else next.resolve(connection);
    },
    close() {
      closed = true;
      for (const { reject } of waiting.splice(0)) reject(closedError());
      for (const connection of all) connection.close();
    },
  };
}

function closedError(): CodedError {
  return new CodedError('STORE_CLOSED', 'the store is closed');
}
