import { codeOf, type Log } from '../../src/plugin/plugin.ts';
import { RequestError } from '../../src/plugin/request.ts';
import type { MintFacts, TokenFacts } from '../../src/ports/tokens.ts';

/** Facts of mints, for responses that are correct without them: unavailable facts are omitted. */
export interface MintFactsReader {
  /** By mint (base58); an unknown mint has no entry. Never fails. */
  known(mints: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, MintFacts>>;
  /** The same for facts on which an amount depends. Errors: 503. */
  needed(mints: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, MintFacts>>;
  /** Changes whenever facts may have changed. */
  revision(): number;
}

const MOST_AT_ONCE = 500;
const TIMEOUT_MS = 3_000;

export function createMintFactsReader(facts: TokenFacts | null, log: Log): MintFactsReader {
  async function lookUp(mints: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, MintFacts>> {
    const found = new Map<string, MintFacts>();
    const distinct = [...new Set(mints)];
    for (let at = 0; facts !== null && at < distinct.length; at += MOST_AT_ONCE) {
      const part = await facts.lookUp(distinct.slice(at, at + MOST_AT_ONCE), { signal, timeoutMs: TIMEOUT_MS });
      for (const [mint, one] of part) if (one !== null) found.set(mint, one);
    }
    return found;
  }

  return {
    revision: () => facts?.revision() ?? 0,
    async known(mints, signal) {
      try {
        return await lookUp(mints, signal);
      } catch (error) {
        signal.throwIfAborted();
        log.debug({ code: codeOf(error) }, 'token names are not available now');
        return new Map(
          mints.flatMap((mint) => {
            const one = facts?.peek(mint);
            return one === null || one === undefined ? [] : [[mint, one] as const];
          }),
        );
      }
    },
    async needed(mints, signal) {
      try {
        return await lookUp(mints, signal);
      } catch (error) {
        signal.throwIfAborted();
        throw new RequestError(503, 'Service unavailable', {
          details: 'The Solana upstream does not report how amounts of a token are shown',
          cause: error,
        });
      }
    },
  };
}
