import { CodedError, codeOf, messageOf } from '../../lib/coded-error.ts';
import { EXIT } from '../../runtime/errors.ts';
import { isDescriptorCode, outOfDescriptors } from '../descriptors.ts';

const SQLSTATE = /^[0-9A-Z]{5}$/;
/** Server starts, stops, has no connection left, or has ended one that stood still. */
const UNREACHABLE_STATES = ['57P01', '57P02', '57P03', '57P05', '25P03', '53300'];
const DAMAGED_STATES = ['XX001', 'XX002'];
const NETWORK_CODES = /^(ECONN|ENOTFOUND|EAI_|ETIMEDOUT|EPIPE|EHOSTUNREACH|ENETUNREACH|ENOENT|ERR_SSL|ERR_TLS|CERT_)/;
/** pg gives these without a code. */
const NETWORK_MESSAGES =
  /connection terminated|connection timeout|trying to connect|connection error|not queryable|query read timeout|unable to connect|does not support ssl/i;

/** Whether running the whole transaction again may help: serialisation failure or deadlock. */
export function isSerialisationFailure(error: unknown): boolean {
  const state = codeOf(error);
  return state === '40001' || state === '40P01';
}

/** Turns an error of pg into a coded one; what is no database condition (bad SQL) stays as it is. */
export function postgresError(error: unknown): unknown {
  if (error instanceof CodedError) return error;
  const code = codeOf(error) ?? '';
  return SQLSTATE.test(code) && !NETWORK_CODES.test(code) ? stateError(error, code) : networkError(error, code);
}

function stateError(error: unknown, state: string): unknown {
  const options = { cause: error, facts: { sqlstate: state } };
  if (state === '23505') return new CodedError('STORE_CONFLICT', 'a row with this key exists', options);
  if (state.startsWith('23')) {
    return new CodedError('STORE_CONSTRAINT', `a row breaks a rule of its table (${state})`, options);
  }
  if (state === '53100')
    return new CodedError('STORE_FULL', 'the disk of the database server is full', {
      ...options,
      exitCode: EXIT.temporary,
    });
  if (state === '25006')
    return new CodedError('STORE_READ_ONLY', 'the database server accepts no writes', {
      ...options,
      exitCode: EXIT.temporary,
    });
  if (DAMAGED_STATES.includes(state)) {
    const message = `the database server reports damaged data (${state}): ${messageOf(error)}`;
    return new CodedError('STORE_CORRUPT', message, { ...options, exitCode: EXIT.config });
  }
  if (state.startsWith('58') || state.startsWith('XX')) {
    return new CodedError('STORE_IO', `the database server could not read or write its files (${state})`, {
      ...options,
      exitCode: EXIT.temporary,
    });
  }
  if (isSerialisationFailure(error) || state === '55P03' || state === '57014') {
    return new CodedError('STORE_BUSY', `the database server gave the statement up (${state})`, {
      ...options,
      exitCode: EXIT.temporary,
      retryable: true,
    });
  }
  if (state.startsWith('08') || UNREACHABLE_STATES.includes(state)) return unreachable(error, state);
  if (state.startsWith('28') || state === '3D000') {
    return new CodedError('STORE_UNREACHABLE', `the database server refuses the log-in: ${messageOf(error)}`, {
      ...options,
      exitCode: EXIT.temporary,
    });
  }
  return error;
}

function networkError(error: unknown, code: string): unknown {
  if (isDescriptorCode(code)) return outOfDescriptors(error);
  const isNetwork = NETWORK_CODES.test(code) || NETWORK_MESSAGES.test(messageOf(error));
  return isNetwork ? unreachable(error, code === '' ? messageOf(error) : code) : error;
}

function unreachable(error: unknown, reason: string): CodedError {
  return new CodedError('STORE_UNREACHABLE', `the database server does not answer (${reason})`, {
    cause: error,
    exitCode: EXIT.temporary,
    retryable: true,
  });
}
