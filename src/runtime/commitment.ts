import type { Commitment } from '../ports/chain.ts';

/**
 * The commitment at which accounts and tips are read, given what `follow.commitment` says. With `auto` it is `confirmed`: the newest
 * state that cannot be lost easily, and the final one where the chain finalizes by Alpenglow.
 */
export const readCommitment = (followed: Commitment | 'auto'): Commitment =>
  followed === 'auto' ? 'confirmed' : followed;
