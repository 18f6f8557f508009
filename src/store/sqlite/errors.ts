import { CodedError, codeOf } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';
import { isOutOfDescriptors, outOfDescriptors } from '../descriptors.ts';

/** Turns an error of better-sqlite3 on `file` into a coded one; what is no database condition (bad SQL) stays as it is. */
export function sqliteError(error: unknown, file: string): unknown {
  if (error instanceof CodedError) return error;
  const code = codeOf(error);
  if (code === undefined || !code.startsWith('SQLITE_')) return error;
  const options = { cause: error, facts: { sqlite: code } };
  if (code === 'SQLITE_FULL')
    return new CodedError('STORE_FULL', 'the disk or the database is full', { ...options, exitCode: EXIT.temporary });
  if (code.startsWith('SQLITE_READONLY') || code === 'SQLITE_PERM') {
    return new CodedError('STORE_READ_ONLY', 'the database cannot be written', {
      ...options,
      exitCode: EXIT.temporary,
    });
  }
  if (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED')) {
    return new CodedError('STORE_BUSY', 'the database is locked by another process', {
      ...options,
      exitCode: EXIT.temporary,
      retryable: true,
    });
  }
  // SQLite reports a file that it cannot open without the reason.
  if (code.startsWith('SQLITE_CANTOPEN') && isOutOfDescriptors()) return outOfDescriptors(error);
  if (code.startsWith('SQLITE_IOERR') || code.startsWith('SQLITE_CANTOPEN')) {
    return new CodedError('STORE_IO', `the database could not read or write its files (${code})`, {
      ...options,
      exitCode: EXIT.temporary,
    });
  }
  if (code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB') {
    const message = `the database file ${file} is damaged or no database (${code})`;
    return new CodedError('STORE_CORRUPT', message, { ...options, exitCode: EXIT.config });
  }
  if (code === 'SQLITE_CONSTRAINT_UNIQUE' || code === 'SQLITE_CONSTRAINT_PRIMARYKEY') {
    return new CodedError('STORE_CONFLICT', 'a row with this key exists', options);
  }
  if (code.startsWith('SQLITE_CONSTRAINT')) {
    return new CodedError('STORE_CONSTRAINT', `a row breaks a rule of its table (${code})`, options);
  }
  return error;
}
