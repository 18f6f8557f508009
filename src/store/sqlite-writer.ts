import { setTimeout as sleep } from 'node:timers/promises';
import type Database from 'better-sqlite3';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import { backoffMs } from '../runtime/backoff.ts';
import { openDatabase, prepareFiles, type SqliteConnection, sqliteError } from './sqlite-connection.ts';

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
export function createCheckpointer(db: Database.Database, limitBytes: number): () => void {
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
export function openTurn(path: string): Turn {
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
