import { keccak_256 } from '@noble/hashes/sha3.js';
import { type ByteReader, createByteReader, equalBytes, LayoutError } from '../../lib/bytes.ts';

/**
 * The metadata of compressed NFTs. A leaf has only hashes of it; the metadata itself is in the data of the instructions that change it.
 * Which changes the program makes to it is not assumed: what an instruction can lead to is hashed, and only what fits the leaf counts.
 */
export interface LeafMetadata {
  /** Version of the leaf: decides the layout and thereby the hash. */
  readonly version: 1 | 2;
  readonly name: string;
  readonly symbol: string;
  readonly uri: string;
  readonly sellerFeeBasisPoints: number;
  readonly primarySaleHappened: boolean;
  readonly isMutable: boolean;
  /** Version 1 only, as `uses` and `tokenProgram`. */
  readonly editionNonce: number | null;
  readonly tokenStandard: number | null;
  /** In version 2 always verified. */
  readonly collection: { readonly verified: boolean; readonly key: Uint8Array } | null;
  readonly uses: { readonly method: number; readonly remaining: bigint; readonly total: bigint } | null;
  readonly tokenProgram: number;
  readonly creators: readonly LeafCreator[];
}

interface LeafCreator {
  readonly address: Uint8Array;
  readonly verified: boolean;
  /** Per cent. */
  readonly share: number;
}

/** Reads metadata in the layout of a version. Errors: LayoutError. */
export function readLeafMetadata(reader: ByteReader, version: 1 | 2): LeafMetadata {
  const head = {
    version,
    name: text(reader),
    symbol: text(reader),
    uri: text(reader),
    sellerFeeBasisPoints: reader.u16(),
    primarySaleHappened: reader.bool(),
    isMutable: reader.bool(),
  };
  if (version === 1)
    return {
      ...head,
      editionNonce: reader.option(reader.u8),
      tokenStandard: reader.option(reader.u8),
      collection: reader.option(() => ({ verified: reader.bool(), key: reader.key() })),
      uses: reader.option(() => ({ method: reader.u8(), remaining: reader.u64(), total: reader.u64() })),
      tokenProgram: reader.u8(),
      creators: readCreators(reader),
    };
  const tokenStandard = reader.option(reader.u8);
  const creators = readCreators(reader);
  const key = reader.option(reader.key);
  const collection = key === null ? null : { verified: true, key };
  return { ...head, editionNonce: null, tokenStandard, collection, uses: null, tokenProgram: 0, creators };
}

/** Fields that an update sets; null: unchanged. */
export interface MetadataUpdate {
  readonly name: string | null;
  readonly symbol: string | null;
  readonly uri: string | null;
  readonly creators: readonly LeafCreator[] | null;
  readonly sellerFeeBasisPoints: number | null;
  readonly primarySaleHappened: boolean | null;
  readonly isMutable: boolean | null;
}

/** Errors: LayoutError. */
export function readMetadataUpdate(reader: ByteReader): MetadataUpdate {
  return {
    name: reader.option(() => text(reader)),
    symbol: reader.option(() => text(reader)),
    uri: reader.option(() => text(reader)),
    creators: reader.option(() => readCreators(reader)),
    sellerFeeBasisPoints: reader.option(reader.u16),
    primarySaleHappened: reader.option(reader.bool),
    isMutable: reader.option(reader.bool),
  };
}

const text = (reader: ByteReader): string => Buffer.from(reader.blob()).toString('utf8');

const CREATOR_BYTES = 34;

const readCreators = (reader: ByteReader): readonly LeafCreator[] =>
  reader.list(() => ({ address: reader.key(), verified: reader.bool(), share: reader.u8() }), CREATOR_BYTES);

/** The bytes that `readLeafMetadata` reads; a leaf has their hash. */
export function writeLeafMetadata(metadata: LeafMetadata): Uint8Array {
  const { version, name, symbol, uri, editionNonce, tokenStandard, collection, uses, tokenProgram } = metadata;
  const flags = [metadata.primarySaleHappened, metadata.isMutable].map(Number);
  const head = [...[name, symbol, uri].map(blob), u16(metadata.sellerFeeBasisPoints), Buffer.from(flags)];
  const creators = [
    u32(metadata.creators.length),
    ...metadata.creators.flatMap(({ address, verified, share }) => [address, Buffer.of(Number(verified), share)]),
  ];
  const standard = option(tokenStandard === null ? null : [Buffer.of(tokenStandard)]);
  if (version === 2)
    return Buffer.concat([...head, ...standard, ...creators, ...option(collection === null ? null : [collection.key])]);
  return Buffer.concat([
    ...head,
    ...option(editionNonce === null ? null : [Buffer.of(editionNonce)]),
    ...standard,
    ...option(collection === null ? null : [Buffer.of(Number(collection.verified)), collection.key]),
    ...option(uses === null ? null : [Buffer.of(uses.method), u64(uses.remaining), u64(uses.total)]),
    Buffer.of(tokenProgram),
    ...creators,
  ]);
}

const option = (parts: readonly Uint8Array[] | null): readonly Uint8Array[] =>
  parts === null ? [Buffer.of(0)] : [Buffer.of(1), ...parts];

function blob(value: string): Uint8Array {
  const bytes = Buffer.from(value);
  return Buffer.concat([u32(bytes.length), bytes]);
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}

/** The hashes in a leaf that its metadata has to fit. */
interface LeafHashes {
  readonly version: 1 | 2;
  readonly dataHash: Uint8Array;
  readonly creatorHash: Uint8Array;
  readonly more: { readonly collectionHash: Uint8Array } | null;
}

const NO_COLLECTION = new Uint8Array(32);

/** The bytes of the metadata if all hashes of the leaf are its own; null otherwise. */
function fittingBytes(metadata: LeafMetadata, { version, dataHash, creatorHash, more }: LeafHashes): Uint8Array | null {
  if (metadata.version !== version) return null;
  const bytes = writeLeafMetadata(metadata);
  const inner = keccak_256(bytes);
  if (!equalBytes(keccak_256(Buffer.concat([inner, u16(metadata.sellerFeeBasisPoints)])), dataHash)) return null;
  const creators = metadata.creators.flatMap(({ address, verified, share }) => [
    address,
    Buffer.of(Number(verified), share),
  ]);
  if (!equalBytes(keccak_256(Buffer.concat(creators)), creatorHash)) return null;
  const collection = metadata.collection?.key ?? NO_COLLECTION;
  return more === null || equalBytes(keccak_256(collection), more.collectionHash) ? bytes : null;
}

/** The metadata in these bytes, whose hash is not looked at: it may decide what is shown, and is not shown. Null if they cannot be read. */
export const storedMetadata = (bytes: Uint8Array, version: 1 | 2): LeafMetadata | null =>
  tolerant(() => readLeafMetadata(createByteReader(bytes), version));

/** The metadata in these bytes, if the leaf has their hashes; null otherwise. */
export function metadataOfLeaf(bytes: Uint8Array, leaf: LeafHashes): LeafMetadata | null {
  const metadata = storedMetadata(bytes, leaf.version);
  return metadata !== null && fittingBytes(metadata, leaf) !== null ? metadata : null;
}

/** An instruction of Bubblegum that changes a leaf. */
export interface BubblegumCall {
  readonly data: Uint8Array;
  /** Its accounts in order; absent ones are empty. */
  account(position: number): Uint8Array;
}

/** Name of the instruction, as the program spells it; null for one that is unknown. */
export const operationOf = (data: Uint8Array): string | null => formOf(data)?.operation ?? null;

/**
 * The bytes of the metadata that a leaf has after the instruction; null when the instruction has none that fits: it left the metadata as it
 * was, or its layout is unknown.
 */
export function metadataAfter(call: BubblegumCall, leaf: LeafHashes): Uint8Array | null {
  const form = formOf(call.data);
  const { metadata: place } = form ?? {};
  if (place === undefined) return null;
  const found = tolerant(() => {
    const reader = createByteReader(call.data, place.at);
    // The hash of the asset data, the flags, the nonce and the index.
    if (place.version === 2 && place.at > DISCRIMINATOR_BYTES) skipLeafArgs(reader);
    const given = readLeafMetadata(reader, place.version);
    return possible(given, place.change, reader, call);
  });
  for (const metadata of found ?? []) {
    const bytes = fittingBytes(metadata, leaf);
    if (bytes !== null) return bytes;
  }
  return null;
}

function skipLeafArgs(reader: ByteReader): void {
  reader.option(reader.key);
  reader.option(reader.u8);
  reader.bytes(8 + 4);
}

/** What the metadata of an instruction may become. */
function possible(
  given: LeafMetadata,
  change: MetadataPlace['change'],
  reader: ByteReader,
  call: BubblegumCall,
): readonly LeafMetadata[] {
  if (change === 'update') {
    const set = Object.entries(readMetadataUpdate(reader)).filter(([, value]) => value !== null);
    return [{ ...given, ...Object.fromEntries(set) }];
  }
  if (change === 'creators')
    return given.creators.map((_, at) => ({
      ...given,
      creators: given.creators.map((creator, i) => (i === at ? { ...creator, verified: !creator.verified } : creator)),
    }));
  const { collection } = given;
  const withFlag = [true, false].flatMap((verified) =>
    collection === null ? [] : [{ ...given, collection: { ...collection, verified } }],
  );
  const key = change === 'collection' ? call.account(NEW_COLLECTION_AT) : new Uint8Array(0);
  const replaced = [
    ...(key.length === 32 ? [{ ...given, collection: { key, verified: true } }] : []),
    ...(change === 'collection' ? [{ ...given, collection: null }] : []),
  ];
  return [given, ...withFlag, ...replaced];
}

/** Offset of the collection in `set_and_verify_collection` and `set_collection_v2`. */
const NEW_COLLECTION_AT = 8;

interface MetadataPlace {
  /** Offset in the data; in the second version of instructions with a root, of the arguments in front of it. */
  readonly at: number;
  readonly version: 1 | 2;
  readonly change: 'collection' | 'creators' | 'update' | 'none';
}

interface Form {
  readonly operation: string;
  readonly metadata?: MetadataPlace;
}

const DISCRIMINATOR_BYTES = 8;
const ROOT_BYTES = 32;
/** Behind root, both hashes, nonce and index. */
const CHECKED_AT = DISCRIMINATOR_BYTES + 3 * ROOT_BYTES + 8 + 4;

const form = (operation: string, metadata?: MetadataPlace): Form => ({
  operation,
  ...(metadata === undefined ? {} : { metadata }),
});
const minted = (operation: string, version: 1 | 2) =>
  form(operation, { at: DISCRIMINATOR_BYTES, version, change: 'none' });
const checked = (operation: string, change: MetadataPlace['change']) =>
  form(operation, { at: CHECKED_AT, version: 1, change });
const second = (operation: string, change: MetadataPlace['change']) =>
  form(operation, { at: DISCRIMINATOR_BYTES + ROOT_BYTES, version: 2, change });

/** By discriminator. */
const FORMS: Readonly<Record<string, Form>> = {
  '9162c076b8937668': minted('MintV1', 1),
  '9912b22fc59e560f': minted('MintToCollectionV1', 1),
  '78791792ad6ec7cd': minted('MintV2', 2),
  a334c8e78c0345ba: form('Transfer'),
  '772806ebeaddf831': form('TransferV2'),
  '746e1d386bdb2a5d': form('Burn'),
  '73d222f0e88fb710': form('BurnV2'),
  '5a934bb255580489': form('Delegate'),
  '5f577d8cb58380e3': form('DelegateV2'),
  '11e523dabef1fa7b': form('DelegateAndFreezeV2'),
  c897f46610c3ff03: form('FreezeV2'),
  '6085655d52dc92bf': form('ThawV2'),
  '56d6be25a7041c74': form('ThawAndRevokeV2'),
  b80c569546c461e1: form('Redeem'),
  '6f4ce83227af30f2': form('CancelRedeem'),
  '52c1b075b01573fd': form('Compress'),
  '34116084470455c2': checked('VerifyCreator', 'creators'),
  '6bb2392769737098': checked('UnverifyCreator', 'creators'),
  '387165fd4f377aa9': checked('VerifyCollection', 'collection'),
  fafb2a6a2989baa8: checked('UnverifyCollection', 'collection'),
  ebf279d89eeab4ea: checked('SetAndVerifyCollection', 'collection'),
  '558a8c2a16f17666': second('VerifyCreatorV2', 'creators'),
  ae701d8ee664ef07: second('UnverifyCreatorV2', 'creators'),
  e5233d5b0f0e63a0: second('SetCollectionV2', 'collection'),
  b58dce3af2c798a8: form('SetNonTransferableV2'),
  aab62bef614ee1ba: form('UpdateMetadata', {
    at: DISCRIMINATOR_BYTES + ROOT_BYTES + 8 + 4,
    version: 1,
    change: 'update',
  }),
  '2b67592a79f23e48': second('UpdateMetadataV2', 'update'),
  '3b386f2b5f0e0b3d': form('UpdateAssetDataV2'),
};

function formOf(data: Uint8Array): Form | undefined {
  return FORMS[Buffer.from(data.buffer, data.byteOffset, Math.min(DISCRIMINATOR_BYTES, data.length)).toString('hex')];
}

function tolerant<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof LayoutError) return null;
    throw error;
  }
}
