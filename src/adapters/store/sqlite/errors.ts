import { EXIT } from '../../../kernel/errors.ts';
import { CodedError, codeOf } from '../../../lib/coded-error.ts';

/** Turns an error of better-sqlite3 into a coded one; what is no database condition (bad SQL) stays as it is. */
export function sqliteError(error: unknown): unknown {
  if (error instanceof CodedError) return error;
  const code = codeOf(error);
  if (code === undefined || !code.startsWith('SQLITE_')) return error;
  const options = { cause: error, facts: { sqlite: code } };
  const fatal = { ...options, exitCode: EXIT.temporary };
  if (code === 'SQLITE_FULL') return new CodedError('STORE_FULL', 'the disk or the database is full', fatal);
  if (code.startsWith('SQLITE_READONLY') || code === 'SQLITE_PERM') {
    return new CodedError('STORE_READ_ONLY', 'the database cannot be written', fatal);
  }
  if (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED')) {
    return new CodedError('STORE_BUSY', 'the database is locked by another process', { ...fatal, retryable: true });
  }
  if (code.startsWith('SQLITE_IOERR') || code.startsWith('SQLITE_CANTOPEN')) {
    return new CodedError('STORE_IO', `the database could not read or write its files (${code})`, fatal);
  }
  if (code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB') {
    return new CodedError('STORE_CORRUPT', 'the database file is damaged or no database', fatal);
  }
  if (code === 'SQLITE_CONSTRAINT_UNIQUE' || code === 'SQLITE_CONSTRAINT_PRIMARYKEY') {
    return new CodedError('STORE_CONFLICT', 'a row with this key exists', options);
  }
  if (code.startsWith('SQLITE_CONSTRAINT')) {
    return new CodedError('STORE_CONSTRAINT', `a row breaks a rule of its table (${code})`, options);
  }
  return error;
}
