import { EXIT } from '../../../src/lib/coded-error.ts';
import { CodedError } from '../../../src/plugin/plugin.ts';
import { SIGNUP_ERRORS } from '../config.ts';

/** The settings cannot be used. */
export const perCallRefused = (problem: string): CodedError =>
  new CodedError('SIGNUP_PER_CALL', `${SIGNUP_ERRORS.SIGNUP_PER_CALL}: ${problem}`, { exitCode: EXIT.config });
