/** Positions in the accounts of an instruction; -1 where it names none. */
export interface BubblegumForm {
  readonly type: string;
  /** What stands in the sentence: `{payer} {did} a compressed nft.` */
  readonly did: string;
  readonly tree: number;
  readonly owner: number;
  readonly delegate: number;
  readonly newOwner: number;
  readonly newDelegate: number;
  readonly treeDelegate: number;
  /** Stands in for the delegate of the tree where none is named. */
  readonly payer: number;
  /** Metadata in the data of a mint, and in which layout. */
  readonly metadata: 0 | 1 | 2;
}

type Places = Partial<Omit<BubblegumForm, 'type' | 'did'>>;

const NOWHERE = {
  tree: -1,
  owner: -1,
  delegate: -1,
  newOwner: -1,
  newDelegate: -1,
  treeDelegate: -1,
  payer: -1,
  metadata: 0,
} as const;

const form = (type: string, did: string, places: Places): BubblegumForm => ({ ...NOWHERE, type, did, ...places });
const nft = (what: string, did: string, places: Places) => form(`COMPRESSED_NFT_${what}`, did, places);

const V1 = { owner: 1, delegate: 2, tree: 3 } as const;
const V2 = { owner: 3, delegate: 4, tree: 5 } as const;
const MINT_V2 = { treeDelegate: 2, payer: 1, newOwner: 4, newDelegate: 5, tree: 6, metadata: 2 } as const;
const DELEGATE_V2 = { owner: 2, delegate: 3, newDelegate: 4, tree: 5 } as const;
const COLLECTION_V2 = { owner: 4, delegate: 5, tree: 6 } as const;
const MINT_V1 = { newOwner: 1, newDelegate: 2, tree: 3, treeDelegate: 5, metadata: 1 } as const;
const CHECKED_V1 = { ...V1, treeDelegate: 5 } as const;

/** By discriminator. */
export const BUBBLEGUM_FORMS: Readonly<Record<string, BubblegumForm>> = {
  // mint_v1, mint_to_collection_v1, mint_v2, mint_to_collection_v2
  '9162c076b8937668': nft('MINT', 'minted', MINT_V1),
  '9912b22fc59e560f': nft('MINT', 'minted', MINT_V1),
  '78791792ad6ec7cd': nft('MINT', 'minted', MINT_V2),
  '6b63aacb7a13e503': nft('MINT', 'minted', MINT_V2),
  // transfer, transfer_v2
  a334c8e78c0345ba: nft('TRANSFER', 'transferred', { owner: 1, delegate: 2, newOwner: 3, tree: 4 }),
  '772806ebeaddf831': nft('TRANSFER', 'transferred', { owner: 3, delegate: 4, newOwner: 5, tree: 6 }),
  // burn, burn_v2
  '746e1d386bdb2a5d': nft('BURN', 'burned', V1),
  '73d222f0e88fb710': nft('BURN', 'burned', { owner: 2, delegate: 3, tree: 4 }),
  // delegate, delegate_v2
  '5a934bb255580489': nft('DELEGATE', 'delegated', { owner: 1, delegate: 2, newDelegate: 3, tree: 4 }),
  '5f577d8cb58380e3': nft('DELEGATE', 'delegated', DELEGATE_V2),
  // delegate_and_freeze_v2
  '11e523dabef1fa7b': nft('DELEGATE', 'delegated', DELEGATE_V2),
  b80c569546c461e1: nft('REDEEM', 'redeemed', V1),
  '6f4ce83227af30f2': nft('CANCEL_REDEEM', 'cancelled the redemption of', { owner: 1, tree: 2 }),
  '34116084470455c2': nft('VERIFY_CREATOR', 'verified a creator of', V1),
  '6bb2392769737098': nft('UNVERIFY_CREATOR', 'unverified a creator of', V1),
  '387165fd4f377aa9': nft('VERIFY_COLLECTION', 'verified the collection of', CHECKED_V1),
  fafb2a6a2989baa8: nft('UNVERIFY_COLLECTION', 'unverified the collection of', CHECKED_V1),
  ebf279d89eeab4ea: nft('SET_VERIFY_COLLECTION', 'set the collection of', CHECKED_V1),
  // verify_creator_v2, unverify_creator_v2, set_collection_v2, update_metadata_v2
  '558a8c2a16f17666': nft('VERIFY_CREATOR', 'verified a creator of', V2),
  ae701d8ee664ef07: nft('UNVERIFY_CREATOR', 'unverified a creator of', V2),
  e5233d5b0f0e63a0: nft('SET_VERIFY_COLLECTION', 'set the collection of', COLLECTION_V2),
  '2b67592a79f23e48': nft('UPDATE_METADATA', 'updated the metadata of', {}),
  // freeze_v2, thaw_v2, thaw_and_revoke_v2
  c897f46610c3ff03: form('FREEZE', '', V2),
  '6085655d52dc92bf': form('THAW', '', V2),
  '56d6be25a7041c74': form('THAW', '', V2),
  aab62bef614ee1ba: nft('UPDATE_METADATA', 'updated the metadata of', { owner: 5, delegate: 6, tree: 8 }),
  a553888e59ca2fdc: form('CREATE_MERKLE_TREE', '', { tree: 1, treeDelegate: 3, payer: 2 }),
  '37635fd78ecbe3cd': form('CREATE_MERKLE_TREE', '', { tree: 1, treeDelegate: 3, payer: 2 }),
  // decompress_v1: the tree is no longer part of it
  '36554c46e4faa451': form('DECOMPRESS_NFT', '', { owner: 1 }),
};
