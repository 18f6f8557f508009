import { CodedError, codeOf } from '../lib/coded-error.ts';
import { EXIT } from '../runtime/errors.ts';
import { faultOfProcessor, wordsOfFault } from './guard-processor.ts';

const FATAL = new Set([
  'FOLLOW_FENCED',
  'FOLLOW_REWIND',
  'STORE_IO',
  'STORE_FULL',
  'STORE_READ_ONLY',
  'STORE_CORRUPT',
  'STORE_CLOSED',
]);

/** The error that ends the process when a write failed for good; null when trying again may help. */
export function fatalOf(error: unknown): CodedError | null {
  const code = codeOf(error);
  if (!(error instanceof CodedError) || code === undefined || !FATAL.has(code)) return null;
  if (error.exitCode !== undefined) return error;
  return new CodedError(code, error.message, { cause: error, facts: error.facts, exitCode: EXIT.temporary });
}

/** What readiness says of a failed attempt. The message of the error goes to the log only. */
export function reasonOf(error: unknown, doing: string): string {
  const fault = faultOfProcessor(error);
  if (fault !== null) return wordsOfFault(fault);
  return `${doing} failed: ${codeOf(error) ?? 'unexpected error, see the log'}`;
}
