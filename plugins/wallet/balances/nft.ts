/** A row of the NFTs of a wallet. */
export interface Nft {
  /** The mint, or the address of a Core asset or of a leaf. */
  readonly mint: string;
  readonly name: string | null;
  readonly imageUri: string | null;
  readonly collectionName: string | null;
  readonly collectionAddress: string | null;
  readonly compressed: boolean;
}

/** NFTs of a wallet that are no tokens; with what their image and their collection's name are found by. */
export interface FoundNft extends Nft {
  /** Of the JSON beside the chain. */
  readonly uri: string | null;
}

/** Where such NFTs are read. One that refuses costs its own rows only. */
export interface NftSource {
  readonly name: 'core' | 'compressed';
  /** Of a wallet in base58. Errors: of its upstream. */
  read(wallet: string): Promise<readonly FoundNft[]>;
}

/** Rows of an answer. */
export const MOST_NFTS = 100;
