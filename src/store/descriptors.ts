import { closeSync, openSync } from 'node:fs';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import { EXIT } from '../runtime/errors.ts';

/** Opening a database takes three; more, because others take and return some at the same moment. */
const PROBED = 16;

/** Errors of a process (EMFILE) or a machine (ENFILE) that has no file descriptor left. */
export const isDescriptorCode = (code: string | undefined): boolean => code === 'EMFILE' || code === 'ENFILE';

/** Whether a handful of files could not be opened now. */
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

/** No fault of the disk, and over as soon as other files or connections are closed. */
export function outOfDescriptors(cause: unknown): CodedError {
  return new CodedError('STORE_DESCRIPTORS', 'no free file descriptor to open the database: raise LimitNOFILE', {
    cause,
    exitCode: EXIT.temporary,
    retryable: true,
  });
}
