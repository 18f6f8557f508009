import { setTimeout as sleep } from 'node:timers/promises';
import { CodedError, codeOf } from '../../../lib/coded-error.ts';
import type { SqliteConnection } from './connection.ts';
import { sqliteError } from './errors.ts';

/** The three steps of a write transaction. */
export interface Writer {
  /** Takes the write lock. Errors: STORE_BUSY after the busy time-out, STORE_IO once a write has failed for good. */
  begin(): Promise<void>;
  /** Returns when the transaction is on disk. */
  commit(): void;
  /** Never throws; remembers an `error` after which no write may be tried any more. */
  rollback(error: unknown): void;
}

const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 25;

export function createWriter(connection: SqliteConnection, busyTimeoutMs: number, afterCommit: () => void): Writer {
  const { db } = connection;
  const steps = {
    begin: db.prepare('begin immediate'),
    commit: db.prepare('commit'),
    rollback: db.prepare('rollback'),
  };
  let broken: CodedError | null = null;

  /** After a failed fsync the kernel may have dropped the pages: what is on disk is unknown, so nothing is tried again. */
  const note = (error: unknown) => {
    if (error instanceof CodedError && (error.code === 'STORE_IO' || error.code === 'STORE_CORRUPT')) broken ??= error;
  };

  const tryBegin = (): boolean => {
    try {
      steps.begin.run();
      return true;
    } catch (error) {
      const mapped = sqliteError(error);
      note(mapped);
      if (codeOf(mapped) !== 'STORE_BUSY') throw mapped;
      return false;
    }
  };

  return {
    async begin() {
      if (broken !== null) throw broken;
      const endsAt = performance.now() + busyTimeoutMs;
      for (let pauseMs = FIRST_PAUSE_MS; !tryBegin(); pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
        if (performance.now() >= endsAt) {
          throw new CodedError('STORE_BUSY', `the database was locked for ${busyTimeoutMs} ms by another process`, {
            retryable: true,
          });
        }
        await sleep(pauseMs);
      }
    },
    commit() {
      try {
        steps.commit.run();
      } catch (error) {
        throw sqliteError(error);
      }
      try {
        afterCommit();
      } catch (error) {
        // The transaction itself is safe; the next one hears of a broken disk.
        note(sqliteError(error));
      }
    },
    rollback(error) {
      note(error);
      if (!db.inTransaction) return;
      try {
        steps.rollback.run();
      } catch (failure) {
        note(sqliteError(failure));
        broken ??= new CodedError('STORE_IO', 'a transaction could not be rolled back', { cause: failure });
      }
    },
  };
}
