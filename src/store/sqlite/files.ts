import { chmodSync, closeSync, mkdirSync, openSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type Database from 'better-sqlite3';
import { CodedError, codeOf, messageOf } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';
import { isDescriptorCode, outOfDescriptors } from '../descriptors.ts';

const PRIVATE_FILE = 0o600;
const PRIVATE_DIRECTORY = 0o700;
const OTHERS = 0o077;

/**
 * Makes the database file, and its directory, for this user alone; SQLite gives its side files the same mode. An existing file
 * that others could read is closed to them. Errors: STORE_READ_ONLY, STORE_FULL, STORE_IO, STORE_DESCRIPTORS.
 */
export function prepareFiles(path: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: PRIVATE_DIRECTORY });
    closeSync(openSync(path, 'a', PRIVATE_FILE));
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
 * Which better-sqlite3: 13 does not run on Node 20, and 12 aborts the process from Node 24.19 on, when a statement is collected. Both have
 * the same interface.
 */
const NAME = Number.parseInt(process.versions.node, 10) >= 24 ? 'better-sqlite3-13' : 'better-sqlite3';

/** Path of the library, for a process of its own. */
export const libraryPath = (): string => load.resolve(NAME);

export function openDatabase(path: string, options: Database.Options): Database.Database {
  const Library = load(NAME) as typeof Database;
  return new Library(path, options);
}
