import type { ListEnd, ListedSignature, SignatureList } from '../ports/ledger.ts';

/** The two sides of a seam contradict each other. */
export class Contradiction extends Error {}

/** `list` null: a node has to answer this query as a whole. */
export interface Joined<T> {
  readonly list: T | null;
}

export const PASS_ON: Joined<never> = { list: null };

/** A list may end so far below the tip of an upstream that does not list: the follower is moments behind. */
export const MAX_LAG_SLOTS = 8;

export const missingAt = (below: number, reason: string): ListEnd => ({ kind: 'missing', below, reason });
export const FORKED = missingAt(Number.MAX_SAFE_INTEGER, 'the upstream and the ledger do not have the same blocks');

type Rows = readonly ListedSignature[];
export const bounded = (rows: Rows): Joined<SignatureList> => ({ list: { rows, end: { kind: 'bounded' } } });
export const pruned = (rows: Rows, slot: number | null): Joined<SignatureList> => ({
  list: { rows, end: { kind: 'pruned', slot } },
});
export const noRowsBelow = (rows: Rows, below: number, reason: string): Joined<SignatureList> => ({
  list: { rows, end: missingAt(below, reason) },
});
