import { CodedError } from '../../src/lib/coded-error.ts';
import { ACCESS_ERRORS, type AccessErrorCode } from './errors.ts';

const USAGE = 64;

/** A mistake of whoever typed a command: exit code 64. */
export function usageError(code: AccessErrorCode, detail?: string): CodedError {
  const message = detail === undefined ? ACCESS_ERRORS[code] : `${ACCESS_ERRORS[code]}: ${detail}`;
  return new CodedError(code, message, { exitCode: USAGE });
}
