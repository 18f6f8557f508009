import { closeSync, openSync } from 'node:fs';
import { CodedError, codeOf, EXIT } from '../lib/coded-error.ts';

/** Opening a database needs three; a margin, because other code opens and closes files concurrently. */
const PROBED = 16;

/** Error codes of a process (EMFILE) or machine (ENFILE) without free file descriptors. */
export const isDescriptorCode = (code: string | undefined): boolean => code === 'EMFILE' || code === 'ENFILE';

/** Whether opening a few files would fail now. */
export function isOutOfDescriptors(): boolean {
  const opened: number[] = [];
  try {
    for (let count = 0; count < PROBED; count += 1) opened.push(openSync('/dev/null', 'r'));
    return false;
  } catch (error) {
    return isDescriptorCode(codeOf(error));
  } finally {
    for (const descriptor of opened) closeSync(descriptor);
  }
}

/** Not a disk error; it ends when other files or connections are closed. */
export function outOfDescriptors(cause: unknown): CodedError {
  return new CodedError('STORE_DESCRIPTORS', 'no free file descriptor to open the database: raise LimitNOFILE', {
    cause,
    exitCode: EXIT.temporary,
    retryable: true,
  });
}
