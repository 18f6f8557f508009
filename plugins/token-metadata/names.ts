import type { Clock } from '../../src/ports/clock.ts';
import type { TokenFacts } from '../../src/ports/token-facts.ts';
import type { TokenNames } from '../../src/ports/token-names.ts';

export interface NamesParts {
  readonly facts: TokenFacts;
  readonly clock: Clock;
}

export interface NamesService extends TokenNames {
  stop(): void;
}

const MAX_UNKNOWN = 500;
const PAUSE_MS = 500;

/** Names that are in memory. What nobody knows yet is looked up a little later, so that the next one who asks finds it. */
export function createNames({ facts, clock }: NamesParts): NamesService {
  const unknown = new Set<string>();
  let cancel: (() => void) | null = null;
  let stopped = false;

  function learnLater(mint: string): void {
    if (stopped || unknown.size >= MAX_UNKNOWN) return;
    unknown.add(mint);
    cancel ??= clock.timeout(PAUSE_MS, () => {
      cancel = null;
      const mints = [...unknown];
      unknown.clear();
      // Nobody waits for them; whoever asks again starts again.
      facts.lookUp(mints).catch(() => undefined);
    });
  }

  return {
    peek(mint) {
      const known = facts.peek(mint);
      if (known === undefined) learnLater(mint);
      if (!known) return null;
      const { name, symbol, decimals, tokenStandard, isNft } = known;
      return { name, symbol, decimals, tokenStandard: tokenStandard ?? (isNft ? 'NonFungible' : null) };
    },
    stop() {
      stopped = true;
      cancel?.();
    },
  };
}
