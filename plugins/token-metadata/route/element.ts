import { stringify } from '../../../src/lib/json.ts';
import type { OffChainAnswer, OffChainDocument } from '../off-chain/document.ts';
import { type TokenRecord, textsOf } from '../records/token-record.ts';
import type { ListedToken } from '../token-list/token-list.ts';
import { renderAccountInfo, renderMetadata } from './render-chain.ts';

export interface ElementParts {
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
