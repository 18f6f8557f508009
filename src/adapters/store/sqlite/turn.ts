import type Database from 'better-sqlite3';
import { codeOf } from '../../../lib/coded-error.ts';
import { prepareFiles } from './files.ts';
import { openDatabase } from './library.ts';

/**
 * Tells the processes on one database that somebody has waited for the write lock already, so that a process that writes without a pause
 * lets the others in between. A crash of the one that waits ends its wait. Without the file nothing is told, and luck decides as before.
 */
export interface Turn {
  /** Whether another one waits. */
  isTaken(): boolean;
  /** Whether it is ours to wait now; the others let us pass until `release`. */
  take(): boolean;
  release(): void;
  close(): void;
}

const NO_TURN: Turn = { isTaken: () => false, take: () => false, release: () => undefined, close: () => undefined };

/** The locks of an empty database beside the real one serve as the sign; nothing is ever written. */
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
