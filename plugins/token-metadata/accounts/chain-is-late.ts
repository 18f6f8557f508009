import { CodedError } from '../../../src/lib/coded-error.ts';

/** The upstreams took longer than somebody could wait. */
export const chainIsLate = (): CodedError =>
  new CodedError('CHAIN_TIMEOUT', 'the accounts were not read in time', { retryable: true });
