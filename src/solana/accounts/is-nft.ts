import type { TokenStandard } from './metaplex/metadata-tail.ts';

const NFT_STANDARDS = new Set<string>([
  'NonFungible',
  'NonFungibleEdition',
  'ProgrammableNonFungible',
  'ProgrammableNonFungibleEdition',
]);

/**
 * Whether a mint is a single thing: there is one indivisible unit of it, or its Metaplex metadata says so. What is called a
 * `FungibleAsset` is a heap of equal things, also while there is only one.
 */
export function isNft(
  mint: { readonly decimals: number; readonly supply: bigint },
  standard: TokenStandard | null,
): boolean {
  if (standard !== null && NFT_STANDARDS.has(standard)) return true;
  return mint.decimals === 0 && mint.supply === 1n && standard !== 'FungibleAsset';
}
