import { setTimeout as sleep } from 'node:timers/promises';
import type Database from 'better-sqlite3';
import { Kysely } from 'kysely';
import { CodedError, codeOf, EXIT } from '../lib/coded-error.ts';
import type { Store, StoreTx } from '../ports/store.ts';
import { backoffMs } from '../runtime/waiting.ts';
import {
  createSqliteConnection,
  createVersionReader,
  noteCommit,
  openDatabase,
  prepareFiles,
  type SqliteConnection,
  sqliteError,
  sqliteInsert,
} from './sqlite-connection.ts';
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

/** The three steps of a write transaction. */
interface Writer {
  /** Takes the write lock. Errors: STORE_BUSY after the busy timeout, STORE_IO once a write has failed permanently. */
  begin(): Promise<void>;
  /** Returns when the transaction is on disk. */
  commit(): void;
  /** Never throws; remembers an `error` after which no further write may be attempted. */
  rollback(error: unknown): void;
}

const FIRST_PAUSE_MS = 1;
const LOCK_BACKOFF = { firstMs: FIRST_PAUSE_MS, longestMs: 25 };

interface WriterOptions {
  readonly connection: SqliteConnection;
  /** How long another process may keep the database locked. */
  readonly busyTimeoutMs: number;
  /** Shared with the other processes. */
  readonly turn: Turn;
  readonly afterCommit: () => void;
}

export function createWriter({ connection, busyTimeoutMs, turn, afterCommit }: WriterOptions): Writer {
  const { db } = connection;
  const steps = {
    begin: db.prepare('begin immediate'),
    commit: db.prepare('commit'),
    rollback: db.prepare('rollback'),
  };
  let broken: CodedError | null = null;

  /** After a failed fsync the kernel may have dropped the pages: the content of the disk is unknown, so nothing is retried. */
  const note = (error: unknown) => {
    if (error instanceof CodedError && (error.code === 'STORE_IO' || error.code === 'STORE_CORRUPT')) broken ??= error;
  };

  const tryBegin = (): boolean => {
    try {
      steps.begin.run();
      return true;
    } catch (error) {
      const mapped = sqliteError(error, db.name);
      note(mapped);
      if (codeOf(mapped) !== 'STORE_BUSY') throw mapped;
      return false;
    }
  };

  /** Earlier waiters have precedence; the first attempt nearly always succeeds. */
  const letOthersPass = async (endsAt: number): Promise<void> => {
    while (turn.isTaken() && performance.now() < endsAt) await sleep(FIRST_PAUSE_MS);
  };

  const waitForLock = async (endsAt: number): Promise<void> => {
    let isOurTurn = turn.take();
    try {
      for (let failures = 1; !tryBegin(); failures += 1) {
        if (performance.now() >= endsAt) {
          throw new CodedError('STORE_BUSY', `the database was locked for ${busyTimeoutMs} ms by another process`, {
            retryable: true,
          });
        }
        isOurTurn ||= turn.take();
        await sleep(isOurTurn ? FIRST_PAUSE_MS : backoffMs(failures, null, LOCK_BACKOFF));
      }
    } finally {
      turn.release();
    }
  };

  return {
    async begin() {
      if (broken !== null) throw broken;
      const endsAt = performance.now() + busyTimeoutMs;
      await letOthersPass(endsAt);
      if (!tryBegin()) await waitForLock(endsAt);
    },
    commit() {
      try {
        steps.commit.run();
      } catch (error) {
        throw sqliteError(error, db.name);
      } finally {
        noteCommit();
      }
      try {
        afterCommit();
      } catch (error) {
        // The transaction itself is safe; the next one reports the broken disk.
        note(sqliteError(error, db.name));
      }
    },
    rollback(error) {
      note(error);
      if (!db.inTransaction) return;
      try {
        steps.rollback.run();
      } catch (failure) {
        note(sqliteError(failure, db.name));
        broken ??= new CodedError('STORE_IO', 'a transaction could not be rolled back', { cause: failure });
      }
    },
  };
}

interface WalState {
  readonly log: number;
  readonly checkpointed: number;
}

/** A checkpoint that a reader blocked is retried after this many further pages, not after each commit. */
const RETRY_PAGES = 1_024;

/**
 * Moves the write-ahead log into the database between transactions once it exceeds `limitBytes`, so that no commit includes a checkpoint.
 * Call the returned function after each commit.
 */
function createCheckpointer(db: Database.Database, limitBytes: number): () => void {
  const pageBytes = db.pragma('page_size', { simple: true }) as number;
  const limitPages = Math.max(1, Math.floor(limitBytes / pageBytes));
  // NOOP only reads the length of the log from shared memory.
  const look = db.prepare<[], WalState>('pragma wal_checkpoint(NOOP)');
  let nextAt = limitPages;
  return () => {
    const { log } = look.get() ?? { log: 0 };
    if (log < nextAt) {
      if (log < limitPages) nextAt = limitPages;
      return;
    }
    const [state] = db.pragma('wal_checkpoint(PASSIVE)') as WalState[];
    // If everything was moved, the next transaction restarts the log. Otherwise readers still need the rest.
    const isDone = state === undefined || state.checkpointed >= state.log;
    nextAt = isDone ? limitPages : log + RETRY_PAGES;
  };
}

/**
 * Signals to the processes on one database that a process is waiting for the write lock, so that one that writes continuously yields. A
 * crash of the waiting process clears its signal. Without the file there is no signal, and chance decides.
 */
interface Turn {
  /** Whether another process waits. */
  isTaken(): boolean;
  /** Whether we are now the waiting process; the others yield until `release`. */
  take(): boolean;
  release(): void;
  close(): void;
}

const NO_TURN: Turn = { isTaken: () => false, take: () => false, release: () => undefined, close: () => undefined };

/** The signal is the lock of an empty database next to the real one; nothing is ever written to it. */
function openTurn(path: string): Turn {
  try {
    prepareFiles(path);
    return turnOf(openDatabase(path, { timeout: 0 }));
  } catch {
    return NO_TURN;
  }
}

function turnOf(db: Database.Database): Turn {
  const look = db.prepare('pragma schema_version');
  const begin = db.prepare('begin exclusive');
  const rollback = db.prepare('rollback');
  return {
    isTaken() {
      try {
        look.all();
        return false;
      } catch (error) {
        return isBusy(error);
      }
    },
    take() {
      try {
        begin.run();
        return true;
      } catch {
        return false;
      }
    },
    release() {
      if (db.inTransaction) rollback.run();
    },
    close: () => db.close(),
  };
}

const isBusy = (error: unknown) => codeOf(error)?.startsWith('SQLITE_BUSY') === true;
