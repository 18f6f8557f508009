import { setTimeout as sleep } from 'node:timers/promises';
import { CodedError, codeOf } from '../../../lib/coded-error.ts';
import type { SqliteConnection } from './connection.ts';
import { sqliteError } from './errors.ts';
import type { Turn } from './turn.ts';

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

export interface WriterOptions {
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

  /** Who waits already comes first; the first look is nearly always the only one. */
  const letOthersPass = async (endsAt: number): Promise<void> => {
    while (turn.isTaken() && performance.now() < endsAt) await sleep(FIRST_PAUSE_MS);
  };

  const waitForLock = async (endsAt: number): Promise<void> => {
    let isOurTurn = turn.take();
    try {
      for (let pauseMs = FIRST_PAUSE_MS; !tryBegin(); pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
        if (performance.now() >= endsAt) {
          throw new CodedError('STORE_BUSY', `the database was locked for ${busyTimeoutMs} ms by another process`, {
            retryable: true,
          });
        }
        isOurTurn ||= turn.take();
        await sleep(isOurTurn ? FIRST_PAUSE_MS : pauseMs);
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
