import { stringify } from '../../../src/lib/json.ts';
import { isNft, type Metadata } from '../../../src/solana/accounts/metaplex.ts';
import type { TokenMetadata } from '../../../src/solana/accounts/token.ts';
import { type TokenRecord, textsOf } from '../records.ts';
import type { OffChainAnswer, OffChainDocument } from '../store/document-store.ts';
import type { ListedToken } from '../token-list/token-list.ts';

interface ElementParts {
  readonly record: TokenRecord;
  /** Null when it was not asked for, or there is nothing to fetch. */
  readonly document: OffChainAnswer | null;
  readonly listed: ListedToken | null;
  readonly shareAsNumber: boolean;
}

/** One element of the answer, as JSON text. */
export function renderElement(parts: ElementParts): string {
  const { record, listed } = parts;
  const account = record.mint;
  if (record.kind === 'none') {
    const { error } = record;
    return stringify({
      account,
      onChainAccountInfo: { accountInfo: null, error },
      onChainMetadata: { metadata: null, error },
      offChainMetadata: { metadata: null, uri: '', error },
      legacyMetadata: listed,
    });
  }
  const { metadata } = record;
  return stringify({
    account,
    onChainAccountInfo: { accountInfo: renderAccountInfo(record), error: '' },
    onChainMetadata: {
      metadata: renderMetadata(record, parts.shareAsNumber),
      error: metadata.kind === 'none' ? metadata.error : '',
    },
    offChainMetadata:
      metadata.kind === 'none'
        ? { metadata: null, uri: '', error: metadata.error }
        : renderOffChain(textsOf(record).uri, parts.document, parts.shareAsNumber),
    legacyMetadata: listed,
  });
}

function renderOffChain(uri: string, answer: OffChainAnswer | null, shareAsNumber: boolean) {
  if (answer === null) return { metadata: null, uri, error: '' };
  if (answer.document === null) return { metadata: null, uri, error: answer.error };
  return { metadata: renderDocument(answer.document, shareAsNumber), uri, error: '' };
}

function renderDocument(document: OffChainDocument, shareAsNumber: boolean): object {
  const { properties } = document;
  const creators = properties.creators?.map(({ address, share }) => ({
    address,
    share: shareAsNumber ? share : String(share),
  }));
  return { ...document, properties: { ...properties, creators: creators ?? null } };
}

const NO_USES = { useMethod: '', remaining: 0, total: 0 } as const;

type MintRecord = TokenRecord & { readonly kind: 'mint' };

/** The section `onChainAccountInfo.accountInfo`: what is missing is written as an empty text. */
function renderAccountInfo({ mint, account, decoded }: MintRecord) {
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
function renderMetadata(record: MintRecord, shareAsNumber: boolean) {
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
