/**
 * Reason of trees in the state `gap` whose own rows cannot tell when nothing is missing any more, because the past was never read, or is
 * being read anew: only the account on the chain can.
 */
export const HISTORY = 'history';
