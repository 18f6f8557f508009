import { decode32 } from '../../src/lib/base58.ts';
import type { Metadata } from '../../src/solana/accounts/metaplex.ts';

export type MetadataFields = Metadata;

const STANDARDS = [
  'NonFungible',
  'FungibleAsset',
  'Fungible',
  'NonFungibleEdition',
  'ProgrammableNonFungible',
  'ProgrammableNonFungibleEdition',
];
const METHODS = ['Burn', 'Multiple', 'Single'];
/** What old accounts fill name, symbol and uri up to. */
const PADDED = { name: 32, symbol: 10, uri: 200 } as const;

type TailPart = 'tokenStandard' | 'collection' | 'uses' | 'collectionDetails' | 'programmableConfig';

export interface WrittenMetadata {
  readonly data: Buffer;
  /** Where the tail begins. */
  readonly tailAt: number;
  /** Where each part of the tail says whether it is there. */
  readonly partsAt: readonly (readonly [number, TailPart])[];
}

/** The bytes of a Metaplex metadata account. `padded`: as the first version of the program wrote them. */
export function writeMetadata(fields: MetadataFields, padded: boolean): WrittenMetadata {
  const parts: Buffer[] = [];
  let length = 0;
  const put = (...bytes: Uint8Array[]): void => {
    for (const part of bytes) {
      parts.push(Buffer.from(part));
      length += part.length;
    }
  };
  const u64 = (value: bigint): Buffer => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(value);
    return bytes;
  };
  const flag = (value: boolean): Buffer => Buffer.of(value ? 1 : 0);
  const key = (value: string): Uint8Array => decode32(value)!;
  const text = (name: keyof typeof PADDED): void => {
    const bytes = Buffer.from(fields[name]);
    const filled = padded ? Buffer.concat([bytes, Buffer.alloc(Math.max(0, PADDED[name] - bytes.length))]) : bytes;
    const head = Buffer.alloc(4);
    head.writeUInt32LE(filled.length);
    put(head, filled);
  };

  put(Buffer.of(4), key(fields.updateAuthority), key(fields.mint));
  text('name');
  text('symbol');
  text('uri');
  put(Buffer.of(fields.sellerFeeBasisPoints & 255, fields.sellerFeeBasisPoints >> 8));
  const { creators, editionNonce, tokenStandard, collection, uses, collectionDetails, programmableConfig } = fields;
  put(flag(creators !== null));
  if (creators !== null) {
    put(Buffer.of(creators.length, 0, 0, 0));
    for (const { address, verified, share } of creators) put(key(address), flag(verified), Buffer.of(share));
  }
  put(flag(fields.primarySaleHappened), flag(fields.isMutable), flag(editionNonce !== null));
  if (editionNonce !== null) put(Buffer.of(editionNonce));

  const tailAt = length;
  const partsAt: [number, TailPart][] = [];
  const part = (name: TailPart, isThere: boolean): void => {
    partsAt.push([length, name]);
    put(flag(isThere));
  };
  part('tokenStandard', tokenStandard !== null);
  if (tokenStandard !== null) put(Buffer.of(STANDARDS.indexOf(tokenStandard)));
  part('collection', collection !== null);
  if (collection !== null) put(flag(collection.verified), key(collection.key));
  part('uses', uses !== null);
  if (uses !== null) put(Buffer.of(METHODS.indexOf(uses.method)), u64(uses.remaining), u64(uses.total));
  part('collectionDetails', collectionDetails !== null);
  if (collectionDetails !== null) put(Buffer.of(collectionDetails.version - 1), u64(collectionDetails.size));
  part('programmableConfig', programmableConfig !== null);
  if (programmableConfig !== null) {
    put(Buffer.of(0), flag(programmableConfig.ruleSet !== null));
    if (programmableConfig.ruleSet !== null) put(key(programmableConfig.ruleSet));
  }
  return { data: Buffer.concat(parts), tailAt, partsAt };
}
