/**
 * Methods of the asset API, each with its other names: SDKs use some, and the reference has all in snake case. Whoever answers one, a plugin or
 * an upstream, takes its names from here, so that no name has another price.
 */
export const ASSET_METHODS = {
  getAsset: ['get_asset'],
  getAssetBatch: ['getAssets', 'get_asset_batch', 'get_assets'],
  getAssetProof: ['get_asset_proof'],
  getAssetProofBatch: ['getAssetProofs', 'get_asset_proof_batch', 'get_asset_proofs'],
  getAssetsByAuthority: ['get_assets_by_authority'],
  getAssetsByCreator: ['get_assets_by_creator'],
  getAssetsByGroup: ['get_assets_by_group'],
  getAssetsByOwner: ['get_assets_by_owner'],
  getGrouping: ['get_grouping'],
  getNftEditions: ['get_nft_editions'],
  getSignaturesForAsset: [
    'getAssetSignatures',
    'getAssetSignaturesV2',
    'get_signatures_for_asset',
    'get_asset_signatures',
    'get_asset_signatures_v2',
  ],
  getTokenAccounts: ['get_token_accounts'],
  searchAssets: ['search_assets'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type AssetMethod = keyof typeof ASSET_METHODS;

/** All names of a method, its own first. */
export function namesOf(method: AssetMethod): readonly string[] {
  return [method, ...ASSET_METHODS[method]];
}
