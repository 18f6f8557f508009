import { RequestError } from '../../../src/plugin/request.ts';
import type { LookUpOptions, MintFacts, TokenFacts } from '../../../src/ports/token-facts.ts';
import { refusedAs503 } from '../input.ts';

/** Facts of any number of mints. Throws what a caller is to be told. */
export type LookUpFacts = (
  mints: readonly string[],
  options?: LookUpOptions,
) => Promise<ReadonlyMap<string, MintFacts | null>>;

const MOST_AT_ONCE = 1_000;

/** Asks for many mints in several look-ups, one after the other. */
export function createFactsLookUp(facts: TokenFacts | null): LookUpFacts {
  return async (mints, options) => {
    if (mints.length === 0) return new Map();
    if (facts === null)
      throw new RequestError(503, 'Service unavailable', { details: 'The plugin token-metadata is not enabled' });
    const found: [string, MintFacts | null][] = [];
    for (let at = 0; at < mints.length; at += MOST_AT_ONCE) {
      const some = mints.slice(at, at + MOST_AT_ONCE);
      found.push(...(await refusedAs503('getMultipleAccounts', facts.lookUp(some, options))));
    }
    return new Map(found);
  };
}
