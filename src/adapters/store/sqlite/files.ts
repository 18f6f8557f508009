import { chmodSync, closeSync, mkdirSync, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { EXIT } from '../../../kernel/errors.ts';
import { CodedError, codeOf, messageOf } from '../../../lib/coded-error.ts';

const PRIVATE_FILE = 0o600;
const PRIVATE_DIRECTORY = 0o700;
const OTHERS = 0o077;

/**
 * Makes the database file, and its directory, for this user alone; SQLite gives its side files the same mode. An existing file
 * that others could read is closed to them. Errors: STORE_READ_ONLY, STORE_FULL, STORE_IO.
 */
export function prepareFiles(path: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: PRIVATE_DIRECTORY });
    closeSync(openSync(path, 'a', PRIVATE_FILE));
    if ((statSync(path).mode & OTHERS) !== 0) chmodSync(path, PRIVATE_FILE);
  } catch (error) {
    const reason = codeOf(error);
    const options = { cause: error, exitCode: EXIT.temporary, facts: { path, reason } };
    const message = `the database file ${path} cannot be opened: ${messageOf(error)}`;
    if (reason === 'EROFS' || reason === 'EACCES' || reason === 'EPERM') {
      throw new CodedError('STORE_READ_ONLY', message, options);
    }
    throw new CodedError(reason === 'ENOSPC' ? 'STORE_FULL' : 'STORE_IO', message, options);
  }
}
