import { type Clock, CodedError, codeOf } from '../../../src/plugin/plugin.ts';
import { meaningOfRefusal } from '../../../src/solana/node-errors.ts';
import { upstreamBehind } from './view.ts';

const AGAIN_MS = 200;

export const behind = (): CodedError =>
  new CodedError('WALLET_BEHIND', 'the upstream has not reached a slot that was already returned', { retryable: true });

export const contradicting = (): CodedError =>
  new CodedError('WALLET_NO_TRANSACTION', 'upstreams do not agree about the slot of a transaction', {
    retryable: true,
  });

const isBehind = (error: unknown): boolean =>
  codeOf(error) === 'WALLET_BEHIND' || meaningOfRefusal(error) === 'not-yet';

const isDisagreement = (error: unknown): boolean =>
  isBehind(error) || (error instanceof CodedError && error.code === 'WALLET_NO_TRANSACTION');

/**
 * Retries work while upstreams are behind or on different forks, which is usually short, until a monotonic time. Errors: those of the work,
 * and 503 while upstreams are behind.
 */
export function createPatience(clock: Clock, deadlineMs: number, signal: AbortSignal) {
  return async <T>(work: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isDisagreement(error)) throw error;
        if (clock.monotonic() + AGAIN_MS >= deadlineMs) throw isBehind(error) ? upstreamBehind() : error;
        await clock.sleep(AGAIN_MS, signal);
      }
    }
  };
}
