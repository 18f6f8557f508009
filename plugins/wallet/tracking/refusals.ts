import { RequestError } from '../../../src/kernel/request.ts';

const RETRY_S = 5;

export const beingIndexed = (found: number): RequestError =>
  new RequestError(503, 'Wallet history is being indexed', {
    details: `${found} signatures so far`,
    retryAfterS: RETRY_S,
  });

/** The upstream has lost what was asked for; waiting does not help. */
export const incompleteHistory = (firstSlot: number): RequestError =>
  new RequestError(503, 'Incomplete history', {
    details: `The upstream node has no data before slot ${firstSlot}; configure an archive endpoint`,
    retryAfterS: null,
  });

export const noChain = (): RequestError =>
  new RequestError(503, 'Service unavailable', { details: 'no Solana upstream is configured' });
