import { decode32 } from '../../../src/lib/base58.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import { isPlainObject } from '../../../src/lib/plain-object.ts';
import type { OutboundClient } from '../../../src/ports/outbound.ts';
import { WALLET_ERRORS } from '../errors.ts';
import { type FoundNft, MOST_NFTS, type NftSource } from './nft.ts';

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 4_194_304;

/** Compressed NFTs, whose owners no account tells: an asset API (`searchAssets`) that the operator names. */
export function compressedAssets(client: OutboundClient, url: string): NftSource {
  return {
    name: 'compressed',
    async read(wallet) {
      const params = {
        ...{ ownerAddress: wallet, compressed: true, burnt: false, page: 1, limit: MOST_NFTS },
        sortBy: { sortBy: 'id', sortDirection: 'asc' },
      };
      const response = await client.request({
        ...{ method: 'POST', url, headers: { 'content-type': 'application/json', accept: 'application/json' } },
        body: Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'searchAssets', params })),
        ...{ timeoutMs: TIMEOUT_MS, keepBytes: MAX_BYTES, maxBytes: MAX_BYTES },
      });
      if (response.status !== 200) throw badAnswer(`status ${response.status}`);
      return itemsOf(response.body.toString('utf8')).flatMap((item) => nftOf(item) ?? []);
    },
  };
}

function itemsOf(text: string): readonly unknown[] {
  const answer = parse(text);
  const items = part(part(answer, 'result'), 'items');
  if (Array.isArray(items)) return items;
  throw badAnswer(isPlainObject(answer) && 'error' in answer ? 'an error' : 'no list of assets');
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw badAnswer('no JSON');
  }
}

const badAnswer = (reason: string) =>
  new CodedError('WALLET_ASSETS_BAD_ANSWER', WALLET_ERRORS.WALLET_ASSETS_BAD_ANSWER, { facts: { reason } });

const part = (value: unknown, name: string): unknown => (isPlainObject(value) ? value[name] : undefined);
const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null);

/** Null for what is no compressed asset that is there, whatever was asked for. */
function nftOf(item: unknown): FoundNft | null {
  const mint = text(part(item, 'id'));
  const isThere = part(part(item, 'compression'), 'compressed') === true && part(item, 'burnt') !== true;
  if (mint === null || decode32(mint) === null || !isThere) return null;
  const content = part(item, 'content');
  const groups = part(item, 'grouping');
  const collection = (Array.isArray(groups) ? groups : []).find(
    (group) => part(group, 'group_key') === 'collection' && part(group, 'verified') !== false,
  );
  const address = text(part(collection, 'group_value'));
  return {
    ...{ mint, name: text(part(part(content, 'metadata'), 'name')), compressed: true },
    imageUri: text(part(part(content, 'links'), 'image')),
    uri: text(part(content, 'json_uri')),
    collectionName: text(part(part(collection, 'collection_metadata'), 'name')),
    collectionAddress: address !== null && decode32(address) !== null ? address : null,
  };
}
