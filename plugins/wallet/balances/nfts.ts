import { codeOf, type Log, type Metrics } from '../../../src/plugin/plugin.ts';
import type { MintFacts, TokenFacts } from '../../../src/ports/token-facts.ts';
import type { ChainCall } from '../input.ts';
import { coreNames, type FoundNft, MOST_NFTS, type Nft, type NftSource } from './assets.ts';
import type { LookUpFacts } from './facts.ts';

export interface NftReader {
  /** The first hundred NFTs of a wallet by mint: tokens (their mints are given), and those of the sources. */
  read(wallet: string, mints: readonly string[]): Promise<readonly Nft[]>;
}

export interface NftParts {
  readonly chain: ChainCall;
  readonly lookUp: LookUpFacts;
  readonly images: TokenFacts['images'];
  readonly sources: readonly NftSource[];
  readonly commitment: string;
  readonly log: Log;
  readonly metrics: Metrics;
}

export function createNftReader({ chain, lookUp, images, sources, commitment, log, metrics }: NftParts): NftReader {
  const failures = metrics.counter('nft_failures_total', 'look-ups of NFTs that were refused', ['source']);

  async function readSource(source: NftSource, wallet: string): Promise<readonly FoundNft[]> {
    try {
      return await source.read(wallet);
    } catch (error) {
      failures.with(source.name).add();
      log.warn({ source: source.name, code: codeOf(error) }, 'NFTs of a wallet cannot be read');
      return [];
    }
  }

  /** Names of collections, of tokens or of Core. */
  async function namesOf(addresses: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const facts = await lookUp(addresses);
    const core = await coreNames(
      chain,
      commitment,
      addresses.filter((address) => facts.get(address) == null),
    );
    return new Map(addresses.map((address) => [address, facts.get(address)?.name ?? core.get(address) ?? '']));
  }

  return {
    async read(wallet, mints) {
      const lists = await Promise.all(sources.map((source) => readSource(source, wallet)));
      const found = new Map(lists.flat().map((nft) => [nft.mint, nft]));
      const shown = [...new Set([...mints, ...found.keys()])].sort().slice(0, MOST_NFTS);
      const tokens = shown.filter((mint) => !found.has(mint));
      const others = shown.flatMap((mint) => found.get(mint) ?? []);
      const [facts, pictures] = await Promise.all([
        lookUp(tokens, { wantLogos: true }),
        images(others.flatMap(({ uri, imageUri }) => (imageUri === null && uri !== null ? [uri] : []))),
      ]);
      const rows = shown.map((mint) => dressed(found.get(mint) ?? tokenNft(mint, facts.get(mint) ?? null), pictures));
      const unnamed = rows.flatMap(({ collectionName, collectionAddress }) =>
        collectionName === null && collectionAddress !== null ? [collectionAddress] : [],
      );
      const names = await namesOf([...new Set(unnamed)]);
      return rows.map((row) => ({
        ...row,
        collectionName: row.collectionName ?? (names.get(row.collectionAddress ?? '') || null),
      }));
    },
  };
}

const dressed = ({ uri, ...nft }: FoundNft, pictures: ReadonlyMap<string, string>): Nft => ({
  ...nft,
  imageUri: nft.imageUri ?? pictures.get(uri ?? '') ?? null,
});

function tokenNft(mint: string, facts: MintFacts | null): FoundNft {
  return {
    ...{ mint, name: facts?.name ?? null, imageUri: facts?.logoUri ?? null, uri: null, collectionName: null },
    // Whoever makes metadata can name any collection; only a verified one is true.
    ...{ collectionAddress: facts?.collection?.verified === true ? facts.collection.key : null, compressed: false },
  };
}
