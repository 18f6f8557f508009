import { isNft } from '../../../src/solana/accounts/is-nft.ts';
import type { Metadata } from '../../../src/solana/accounts/metaplex/metadata.ts';
import type { TokenMetadata } from '../../../src/solana/accounts/token/token-metadata.ts';
import type { TokenRecord } from '../records/token-record.ts';

const NO_USES = { useMethod: '', remaining: 0, total: 0 } as const;

type MintRecord = TokenRecord & { readonly kind: 'mint' };

/** The section `onChainAccountInfo.accountInfo`: what is missing is written as an empty text. */
export function renderAccountInfo({ mint, account, decoded }: MintRecord) {
  const info = {
    decimals: decoded.decimals,
    freezeAuthority: decoded.freezeAuthority ?? '',
    isInitialized: true,
    mintAuthority: decoded.mintAuthority ?? '',
    supply: decoded.supply.toString(),
  };
  return {
    key: mint,
    isSigner: false,
    isWritable: false,
    lamports: account.lamports,
    data: { parsed: { info, type: 'mint' }, program: account.owner, space: account.data.length },
    owner: account.owner,
    executable: account.executable,
    rentEpoch: account.rentEpoch,
  };
}

/** The section `onChainMetadata.metadata`, whatever kind of metadata it is; null when there is none. */
export function renderMetadata(record: MintRecord, shareAsNumber: boolean) {
  const { metadata } = record;
  if (metadata.kind === 'metaplex') return renderMetaplex(metadata.value, shareAsNumber);
  return metadata.kind === 'extension' ? renderExtension(record, metadata.value) : null;
}

function renderMetaplex(value: Metadata, shareAsNumber: boolean) {
  const { name, symbol, uri, sellerFeeBasisPoints, collection, collectionDetails, uses } = value;
  const creators = value.creators?.map(({ address, share, verified }) => ({
    address,
    share: shareAsNumber ? share : String(share),
    verified,
  }));
  return {
    key: 'MetadataV1',
    updateAuthority: value.updateAuthority,
    mint: value.mint,
    data: { name, symbol, uri, sellerFeeBasisPoints, creators: creators ?? null },
    primarySaleHappened: value.primarySaleHappened,
    isMutable: value.isMutable,
    editionNonce: value.editionNonce ?? 0,
    tokenStandard: value.tokenStandard ?? '',
    collection: collection && { key: collection.key, verified: collection.verified },
    collectionDetails: collectionDetails && { size: collectionDetails.size },
    uses: uses === null ? NO_USES : { useMethod: uses.method, remaining: uses.remaining, total: uses.total },
  };
}

function renderExtension({ decoded }: MintRecord, { updateAuthority, mint, name, symbol, uri }: TokenMetadata) {
  return {
    key: 'MetadataV1',
    updateAuthority: updateAuthority ?? '',
    mint,
    data: { name, symbol, uri, sellerFeeBasisPoints: 0, creators: null },
    primarySaleHappened: false,
    isMutable: updateAuthority !== null,
    editionNonce: 0,
    tokenStandard: isNft(decoded, null) ? 'NonFungible' : 'Fungible',
    collection: null,
    collectionDetails: null,
    uses: NO_USES,
  };
}
