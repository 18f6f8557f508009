import type { TokenNames } from '../../src/ports/tokens.ts';
import { readJsonFixture } from './fixtures.ts';
import type { HostedElement } from './rebuild-enhanced.ts';

/** The recorded answers of the hosted parser. */
export function hostedElements(): HostedElement[] {
  const rows = readJsonFixture<{ enhanced: HostedElement }[]>('chain/helius-enhanced/enhanced-open.json');
  return rows.map(({ enhanced }) => enhanced);
}

/** Names that make the descriptions of recorded answers: read out of them, since the tokens' metadata is not recorded. */
export function namesOf(element: HostedElement): TokenNames {
  const word = wordOf(element);
  const standards = new Map(element.tokenTransfers.map(({ mint, tokenStandard }) => [mint, tokenStandard]));
  const nfts = (element.events['nft'] as { nfts?: { mint: string; tokenStandard: string }[] } | undefined)?.nfts ?? [];
  for (const { mint, tokenStandard } of nfts) standards.set(mint, tokenStandard);
  return {
    peek: (mint) =>
      standards.has(mint) || word !== null
        ? { name: word, symbol: word, tokenStandard: standards.get(mint) ?? null, decimals: null }
        : null,
  };
}

/** What a description calls its token; null where it names none, or more than one. */
function wordOf({ description }: HostedElement): string | null {
  const found =
    /transferred [\d.]+ (.+) to \w+\.$/.exec(description) ??
    / sold (.+) to \w+ for /.exec(description) ??
    / listed (.+) for /.exec(description) ??
    / bid for (.+) on /.exec(description) ??
    /swapped (?:[\d.]+ SOL for [\d.]+ (.+)|[\d.]+ (.+) for [\d.]+ SOL)$/.exec(description);
  return found?.[1] ?? found?.[2] ?? null;
}
