import type { Prover } from '../../prover/prover.ts';
import type { ProofParts } from '../proofs/text-method.ts';

export interface ValidityParts extends ProofParts {
  readonly prover: Prover;
  /** Deadline of one proof. */
  readonly proverTimeoutMs: number;
}

/** What the store takes, and a wait for a slot. */
const READING_MS = 10_000;

/** What both methods have in common. */
export const validityTexts = ({ proverTimeoutMs }: ValidityParts) => ({
  credits: 100,
  timeoutMs: proverTimeoutMs + READING_MS,
});
