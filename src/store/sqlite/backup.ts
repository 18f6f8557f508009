import { closeSync, existsSync, fsyncSync, linkSync, openSync, rmSync, unlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import { CodedError, codeOf, messageOf } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';
import { sqliteError } from './errors.ts';
import { openDatabase, prepareFiles } from './files.ts';
import { quickCheck } from './quick-check.ts';

export interface CopyFileOptions {
  readonly from: string;
  /** What `from` is to the operator, for the words of an error: `the backup` that is restored, `the database` that is backed up. */
  readonly what: 'the backup' | 'the database';
  /** Must not be there yet. */
  readonly to: string;
  readonly progress: (done: number, total: number) => void;
}

/** Pages between two turns of the loop. */
const PAGES_PER_STEP = 2_000;
/** A check reads the whole file. */
const CHECK_TIMEOUT_MS = 3_600_000;

/**
 * Copies a database of which others may be writing, as it is at one moment. The copy is on disk and checked before it has its name.
 * Errors: STORE_BACKUP, and those of the engine. A damaged backup is STORE_BACKUP, a damaged database STORE_CORRUPT; both name the file.
 */
export async function copyDatabaseFile({ from, what, to, progress }: CopyFileOptions): Promise<void> {
  if (!existsSync(from)) throw refused(`there is no database ${from}`);
  const damaged = (detail: string) =>
    what === 'the backup'
      ? refused(`the backup ${from} is damaged or no database: ${detail}`)
      : new CodedError('STORE_CORRUPT', `the database file ${from} is damaged: ${detail}`, { exitCode: EXIT.config });
  if (existsSync(to)) throw refused(`${to} is there already`);
  const partial = `${to}.partial`;
  try {
    rmSync(partial, { force: true });
    prepareFiles(partial);
    await copyPages(from, partial, progress).catch((error: unknown) => {
      throw codeOf(error) === 'STORE_CORRUPT' ? damaged(String((error as CodedError).facts['sqlite'])) : error;
    });
    const check = await quickCheck(partial, CHECK_TIMEOUT_MS);
    if (check.kind === 'damaged') throw damaged(check.first);
    if (check.kind !== 'ok') throw refused(`the copy of ${from} did not pass the check: ${check.kind}`);
    nameForGood(partial, to);
  } finally {
    for (const ending of ['', '-wal', '-shm', '-journal']) rmSync(partial + ending, { force: true });
  }
}

async function copyPages(from: string, to: string, progress: CopyFileOptions['progress']): Promise<void> {
  try {
    const db = openDatabase(from, { readonly: true, fileMustExist: true });
    try {
      // A snapshot held open: else every write of others would begin the copy anew.
      db.exec('begin');
      db.prepare('select count(*) from sqlite_master').get();
      await db.backup(to, {
        progress({ totalPages, remainingPages }) {
          progress(totalPages - remainingPages, totalPages);
          return PAGES_PER_STEP;
        },
      });
    } finally {
      db.close();
    }
    // One file that needs no others beside it.
    const made = openDatabase(to, { fileMustExist: true });
    made.pragma('journal_mode = DELETE');
    made.close();
  } catch (error) {
    throw sqliteError(error, from);
  }
}

/** A name of its own only once everything is on disk, and never that of another file. */
function nameForGood(partial: string, to: string): void {
  try {
    sync(partial);
    linkSync(partial, to);
    unlinkSync(partial);
    sync(dirname(to));
  } catch (error) {
    throw refused(codeOf(error) === 'EEXIST' ? `${to} is there already` : `${to}: ${messageOf(error)}`);
  }
}

function sync(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

const refused = (why: string) => new CodedError('STORE_BACKUP', why, { exitCode: EXIT.config });
