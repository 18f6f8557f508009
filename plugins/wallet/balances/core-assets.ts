import { decode32, encode } from '../../../src/lib/base58.ts';
import { CORE_KEY, decodeCoreAsset, decodeCoreCollection } from '../../../src/solana/accounts/core/core-account.ts';
import { CORE_PROGRAM } from '../../../src/solana/address/known-programs.ts';
import type { ChainCall } from '../input/chain-call.ts';
import type { FoundNft, NftSource } from './nft.ts';

interface RpcAccount {
  readonly owner: string;
  readonly data: readonly [base64: string, encoding: string];
}

/** Assets of Metaplex Core, which only a search through the accounts of their program finds. */
export function coreAssets(chain: ChainCall, commitment: string): NftSource {
  return {
    name: 'core',
    async read(wallet) {
      const filters = [
        { memcmp: { offset: 0, bytes: encode(Uint8Array.of(CORE_KEY.asset)) } },
        { memcmp: { offset: 1, bytes: wallet } },
      ];
      const found = await chain.call<readonly { readonly pubkey: string; readonly account: RpcAccount }[]>(
        'getProgramAccounts',
        [CORE_PROGRAM, { encoding: 'base64', commitment, filters }],
      );
      return found.flatMap(({ pubkey, account }) => nftOf(pubkey, account) ?? []);
    },
  };
}

/** Names of Core collections by address; empty where there is none. Errors: 503 when the upstream refuses. */
export async function coreNames(
  chain: ChainCall,
  commitment: string,
  addresses: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (addresses.length === 0) return new Map();
  const { value } = await chain.call<{ value: readonly (RpcAccount | null)[] }>('getMultipleAccounts', [
    addresses,
    { encoding: 'base64', commitment },
  ]);
  const names = addresses.map((address, at): [string, string] => {
    const account = value[at] ?? null;
    return [address, account === null ? '' : (decodeCoreCollection(rawOf(account)).value?.name ?? '')];
  });
  return new Map(names);
}

function nftOf(mint: string, account: RpcAccount): FoundNft | null {
  const asset = decodeCoreAsset(rawOf(account)).value;
  if (asset === null || decode32(mint) === null) return null;
  const { updateAuthority } = asset;
  return {
    ...{ mint, name: asset.name || null, imageUri: null, uri: asset.uri || null, collectionName: null },
    collectionAddress: updateAuthority.kind === 'collection' ? updateAuthority.address : null,
    compressed: false,
  };
}

function rawOf({ owner, data }: RpcAccount) {
  // An account that is there has lamports; how many does not matter.
  return { owner, lamports: 1n, data: Buffer.from(data[0], 'base64') };
}
