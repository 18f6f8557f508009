import { spawn } from 'node:child_process';
import { closeSync, existsSync, fsyncSync, linkSync, openSync, rmSync, unlinkSync } from 'node:fs';
import { dirname } from 'node:path';
import { CodedError, codeOf, EXIT, messageOf } from '../lib/coded-error.ts';
import { libraryPath, openDatabase, prepareFiles, sqliteError } from './sqlite-connection.ts';

export interface CopyFileOptions {
  readonly from: string;
  /** Name of `from` in error texts: `the backup` if it is restored, `the database` if it is backed up. */
  readonly what: 'the backup' | 'the database';
  /** Must not exist. */
  readonly to: string;
  readonly progress: (done: number, total: number) => void;
}

/** Pages per turn of the event loop. */
const PAGES_PER_STEP = 2_000;
/** A check reads the whole file. */
const CHECK_TIMEOUT_MS = 3_600_000;

/**
 * Copies a consistent snapshot of a database that may be in use. The copy is on disk and checked before it gets its final name. Errors:
 * STORE_BACKUP, and those of the engine. A damaged backup is STORE_BACKUP, a damaged database STORE_CORRUPT; both name the file.
 */
export async function copyDatabaseFile({ from, what, to, progress }: CopyFileOptions): Promise<void> {
  if (!existsSync(from)) throw refused(`no such database: ${from}`);
  const damaged = (detail: string) =>
    what === 'the backup'
      ? refused(`the backup ${from} is damaged or no database: ${detail}`)
      : new CodedError('STORE_CORRUPT', `the database file ${from} is damaged: ${detail}`, { exitCode: EXIT.config });
  if (existsSync(to)) throw refused(`${to} already exists`);
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
      // Keeps a snapshot open: otherwise every write of another connection would restart the copy.
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
    // A single file, without a log next to it.
    const made = openDatabase(to, { fileMustExist: true });
    made.pragma('journal_mode = DELETE');
    made.close();
  } catch (error) {
    throw sqliteError(error, from);
  }
}

/** Renames the copy only once it is on disk, and never replaces another file. */
function nameForGood(partial: string, to: string): void {
  try {
    sync(partial);
    linkSync(partial, to);
    unlinkSync(partial);
    sync(dirname(to));
  } catch (error) {
    throw refused(codeOf(error) === 'EEXIST' ? `${to} already exists` : `${to}: ${messageOf(error)}`);
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

export type QuickCheck =
  | { readonly kind: 'ok' }
  | { readonly kind: 'damaged'; readonly first: string }
  /** The check did not end in time: the result is unknown. */
  | { readonly kind: 'late' }
  | { readonly kind: 'failed'; readonly reason: string };

const SCRIPT = `
const [library, path] = process.argv.slice(1);
const Database = require(library);
const db = new Database(path, { readonly: true, fileMustExist: true });
db.pragma('trusted_schema = OFF');
process.stdout.write(String(db.pragma('quick_check(1)', { simple: true })));`;

/**
 * Checks the whole database for damage. In a separate process: calls of the library cannot be interrupted, and a large database takes
 * minutes.
 */
export function quickCheck(path: string, timeoutMs: number): Promise<QuickCheck> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['-e', SCRIPT, libraryPath(), path], { stdio: ['ignore', 'pipe', 'pipe'] });
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      child.kill('SIGKILL');
    }, timeoutMs);
    const texts = { out: '', err: '' };
    child.stdout.on('data', (chunk: Buffer) => {
      texts.out += chunk.toString();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      texts.err = (texts.err + chunk.toString()).slice(-4_096);
    });
    child.once('error', (error) => {
      texts.err = error.message;
    });
    child.once('close', (code) => {
      clearTimeout(timer);
      if (isLate) resolve({ kind: 'late' });
      else if (code !== 0) resolve(failureOf(reasonIn(texts.err)));
      else resolve(texts.out === 'ok' ? { kind: 'ok' } : { kind: 'damaged', first: texts.out.slice(0, 200) });
    });
  });
}

/** SQLite aborts the check itself if the damage is too severe. */
const failureOf = (reason: string): QuickCheck =>
  /malformed|not a database/.test(reason) ? { kind: 'damaged', first: reason } : { kind: 'failed', reason };

/** The line of a stack that contains the error message. */
function reasonIn(text: string): string {
  return /^\w*Error: (.*)$/m.exec(text)?.[1]?.slice(0, 200) ?? 'the check ended early';
}
