import { codeOf, type Log, type Metrics } from '../../../src/kernel/plugin.ts';
import { decode32, encode } from '../../../src/lib/base58.ts';
import type { MintFacts } from '../../../src/ports/token-facts.ts';
import { CORE_KEY, decodeCoreAsset, decodeCoreCollection } from '../../../src/solana/accounts/core/core-account.ts';
import { CORE_PROGRAM } from '../../../src/solana/address/known-programs.ts';
import type { ChainCall } from '../input/chain-call.ts';
import type { LookUpFacts } from './facts.ts';

export interface Nft {
  readonly mint: string;
  readonly name: string | null;
  readonly imageUri: string | null;
  readonly collectionName: string | null;
  readonly collectionAddress: string | null;
  readonly compressed: boolean;
}

export interface NftReader {
  /** The first hundred NFTs of a wallet by mint: tokens (their mints are given) and Core assets. */
  read(wallet: string, mints: readonly string[]): Promise<readonly Nft[]>;
}

export interface NftParts {
  readonly chain: ChainCall;
  readonly lookUp: LookUpFacts;
  readonly commitment: string;
  readonly withCore: boolean;
  readonly log: Log;
  readonly metrics: Metrics;
}

interface RpcAccount {
  readonly owner: string;
  readonly data: readonly [base64: string, encoding: string];
}

const MOST = 100;

export function createNftReader({ chain, lookUp, commitment, withCore, log, metrics }: NftParts): NftReader {
  const failures = metrics.counter('core_assets_failures_total', 'look-ups of Core assets that the upstream refused');
  const options = { encoding: 'base64', commitment };

  /** Without a collection's name yet. An upstream that refuses to search costs these rows only. */
  async function coreAssets(wallet: string): Promise<readonly Nft[]> {
    const filters = [
      { memcmp: { offset: 0, bytes: encode(Uint8Array.of(CORE_KEY.asset)) } },
      { memcmp: { offset: 1, bytes: wallet } },
    ];
    try {
      const found = await chain.call<readonly { readonly pubkey: string; readonly account: RpcAccount }[]>(
        'getProgramAccounts',
        [CORE_PROGRAM, { ...options, filters }],
      );
      return found.flatMap(({ pubkey, account }) => coreNft(pubkey, account) ?? []);
    } catch (error) {
      failures.add();
      log.warn({ code: codeOf(error) }, 'Core assets of a wallet cannot be read');
      return [];
    }
  }

  async function coreNames(addresses: readonly string[]): Promise<ReadonlyMap<string, string>> {
    if (addresses.length === 0) return new Map();
    const { value } = await chain.call<{ value: readonly (RpcAccount | null)[] }>('getMultipleAccounts', [
      addresses,
      options,
    ]);
    const names = addresses.map((address, at): [string, string] => {
      const account = value[at] ?? null;
      return [address, account === null ? '' : (decodeCoreCollection(rawOf(account)).value?.name ?? '')];
    });
    return new Map(names);
  }

  return {
    async read(wallet, mints) {
      const assets = withCore ? await coreAssets(wallet) : [];
      const core = new Map(assets.map((asset) => [asset.mint, asset]));
      const shown = [...new Set([...mints, ...core.keys()])].sort().slice(0, MOST);
      const facts = await lookUp(
        shown.filter((mint) => !core.has(mint)),
        { wantLogos: true },
      );
      const keys = new Set(shown.flatMap((mint) => collectionOf(facts.get(mint)) ?? []));
      const coreKeys = new Set(shown.flatMap((mint) => core.get(mint)?.collectionAddress ?? []));
      const [collections, coreCollections] = await Promise.all([lookUp([...keys]), coreNames([...coreKeys])]);
      return shown.map((mint) => {
        const asset = core.get(mint);
        if (asset !== undefined)
          return { ...asset, collectionName: coreCollections.get(asset.collectionAddress ?? '') || null };
        return tokenNft(mint, facts.get(mint) ?? null, collections);
      });
    },
  };
}

function coreNft(mint: string, account: RpcAccount): Nft | null {
  const asset = decodeCoreAsset(rawOf(account)).value;
  if (asset === null || decode32(mint) === null) return null;
  const { updateAuthority } = asset;
  return {
    mint,
    name: asset.name || null,
    imageUri: null,
    collectionName: null,
    collectionAddress: updateAuthority.kind === 'collection' ? updateAuthority.address : null,
    compressed: false,
  };
}

function tokenNft(mint: string, facts: MintFacts | null, collections: ReadonlyMap<string, MintFacts | null>): Nft {
  const collectionAddress = collectionOf(facts);
  const collection = collectionAddress === null ? null : collections.get(collectionAddress);
  return {
    ...{ mint, name: facts?.name ?? null, imageUri: facts?.logoUri ?? null },
    ...{ collectionName: collection?.name ?? null, collectionAddress, compressed: false },
  };
}

/** Whoever makes metadata can name any collection; only a verified one is true. */
function collectionOf(facts: MintFacts | null | undefined): string | null {
  return facts?.collection?.verified === true ? facts.collection.key : null;
}

function rawOf({ owner, data }: RpcAccount) {
  // An account that is there has lamports; how many does not matter.
  return { owner, lamports: 1n, data: Buffer.from(data[0], 'base64') };
}
