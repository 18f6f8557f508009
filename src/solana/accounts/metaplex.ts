import { type ByteReader, createByteReader, LayoutError } from '../../lib/bytes.ts';
import { METADATA_PROGRAM, SYSTEM_PROGRAM } from '../programs.ts';
import { type Decoded, keyText, type RawAccount, readText, tryDecode, undecoded } from './decoded.ts';

/** A Metaplex metadata account. Keys are base58; texts are without padding zeros, blanks are kept. */
export interface Metadata extends MetadataTail {
  readonly updateAuthority: string;
  readonly mint: string;
  readonly name: string;
  readonly symbol: string;
  readonly uri: string;
  readonly sellerFeeBasisPoints: number;
  readonly creators: readonly Creator[] | null;
  readonly primarySaleHappened: boolean;
  readonly isMutable: boolean;
  readonly editionNonce: number | null;
}

interface Creator {
  readonly address: string;
  readonly verified: boolean;
  /** Per cent. */
  readonly share: number;
}

/** First byte of metadata, also used in filters. */
export const METADATA_KEY = 4;
const CREATOR_BYTES = 34;

/** Reads an account of the metadata program. A closed or unwritten account is `missing`. */
export function decodeMetadata(account: RawAccount): Decoded<Metadata> {
  const { owner, lamports, data } = account;
  if (lamports === 0n || owner === SYSTEM_PROGRAM || data.length === 0) return undecoded('missing');
  return owner === METADATA_PROGRAM ? decodeMetadataBytes(data) : undecoded('foreign');
}

/** Like `decodeMetadata`, without a check of the owner: other programs use this layout too. The caller decides whether to trust the account. */
export function decodeMetadataBytes(data: Uint8Array): Decoded<Metadata> {
  if (data.length === 0 || data[0] === 0) return undecoded('missing');
  if (data[0] !== METADATA_KEY) return undecoded('foreign');
  return tryDecode(() => readMetadata(data));
}

function readMetadata(data: Uint8Array): Metadata {
  const reader = createByteReader(data, 1);
  const creator = (): Creator => ({ address: keyText(reader), verified: reader.bool(), share: reader.u8() });
  const [updateAuthority, mint] = [keyText(reader), keyText(reader)];
  const [name, symbol, uri] = [readText(reader), readText(reader), readText(reader)];
  const sellerFeeBasisPoints = reader.u16();
  const creators = reader.option(() => reader.list(creator, CREATOR_BYTES));
  const [primarySaleHappened, isMutable] = [reader.bool(), reader.bool()];
  const editionNonce = reader.option(reader.u8);
  return {
    updateAuthority,
    mint,
    name,
    symbol,
    uri,
    sellerFeeBasisPoints,
    creators,
    primarySaleHappened,
    isMutable,
    editionNonce,
    ...readMetadataTail(reader),
  };
}

/** Later additions to metadata accounts: missing in old ones, damaged in some. */
interface MetadataTail {
  readonly tokenStandard: TokenStandard | null;
  readonly collection: { readonly key: string; readonly verified: boolean } | null;
  readonly uses: { readonly method: UseMethod; readonly remaining: bigint; readonly total: bigint } | null;
  /** Size of a sized collection; 0 when the program no longer counts. */
  readonly collectionDetails: { readonly version: 1 | 2; readonly size: bigint } | null;
  readonly programmableConfig: { readonly ruleSet: string | null } | null;
}

const TOKEN_STANDARDS = [
  'NonFungible',
  'FungibleAsset',
  'Fungible',
  'NonFungibleEdition',
  'ProgrammableNonFungible',
  'ProgrammableNonFungibleEdition',
] as const;
const USE_METHODS = ['Burn', 'Multiple', 'Single'] as const;

type TokenStandard = (typeof TOKEN_STANDARDS)[number];
type UseMethod = (typeof USE_METHODS)[number];

const NO_TAIL: MetadataTail = {
  tokenStandard: null,
  collection: null,
  uses: null,
  collectionDetails: null,
  programmableConfig: null,
};
const UNUSED_BYTES = 8;

/**
 * Reads the tail like the program: the first three parts are valid only together, and everything after the first unreadable part is
 * ignored. Never throws.
 */
function readMetadataTail(reader: ByteReader): MetadataTail {
  let tail = NO_TAIL;
  try {
    const tokenStandard = reader.option(() => oneOf(TOKEN_STANDARDS, reader));
    const collection = reader.option(() => ({ verified: reader.bool(), key: keyText(reader) }));
    const uses = reader.option(() => ({
      method: oneOf(USE_METHODS, reader),
      remaining: reader.u64(),
      total: reader.u64(),
    }));
    tail = { ...tail, tokenStandard, collection, uses };
    tail = { ...tail, collectionDetails: reader.option(() => collectionDetails(reader)) };
    return { ...tail, programmableConfig: reader.option(() => programmableConfig(reader)) };
  } catch (error) {
    if (error instanceof LayoutError) return tail;
    throw error;
  }
}

function collectionDetails(reader: ByteReader): MetadataTail['collectionDetails'] {
  if (oneOf(['sized', 'unsized'], reader) === 'sized') return { version: 1, size: reader.u64() };
  reader.bytes(UNUSED_BYTES);
  return { version: 2, size: 0n };
}

function programmableConfig(reader: ByteReader): MetadataTail['programmableConfig'] {
  oneOf(['ruleSet'], reader);
  return { ruleSet: reader.option(() => keyText(reader)) };
}

function oneOf<const T>(names: readonly T[], reader: ByteReader): T {
  const number = reader.u8();
  const name = names[number];
  if (name === undefined) throw new LayoutError(`unknown variant ${number} of ${names.length}`, reader.offset - 1);
  return name;
}

/** The edition account of a mint. */
export type Edition =
  /** `supply` prints exist, of at most `maxSupply`; null: no limit. */
  | { readonly kind: 'master'; readonly supply: bigint; readonly maxSupply: bigint | null }
  /** A print: its number, and the edition account of the original, base58. */
  | { readonly kind: 'print'; readonly parent: string; readonly edition: bigint };

const KEY = { none: 0, print: 1, masterV1: 2, masterV2: 6 } as const;

/** Reads the edition account of a mint, in both lengths. */
export function decodeEdition({ owner, lamports, data }: RawAccount): Decoded<Edition> {
  if (lamports === 0n || data.length === 0 || data[0] === KEY.none) return undecoded('missing');
  if (owner !== METADATA_PROGRAM) return undecoded('foreign');
  const reader = createByteReader(data, 1);
  switch (data[0]) {
    case KEY.print:
      return tryDecode(() => ({ kind: 'print', parent: keyText(reader), edition: reader.u64() }));
    case KEY.masterV1:
    case KEY.masterV2:
      return tryDecode(() => ({ kind: 'master', supply: reader.u64(), maxSupply: reader.option(reader.u64) }));
    default:
      return undecoded('foreign');
  }
}

const NFT_STANDARDS = new Set<string>([
  'NonFungible',
  'NonFungibleEdition',
  'ProgrammableNonFungible',
  'ProgrammableNonFungibleEdition',
]);

/**
 * Whether a mint is an NFT: its supply is one indivisible unit, or its Metaplex metadata says so. A
 * `FungibleAsset` is a set of equal things, even with a supply of one.
 */
export function isNft(
  mint: { readonly decimals: number; readonly supply: bigint },
  standard: TokenStandard | null,
): boolean {
  if (standard !== null && NFT_STANDARDS.has(standard)) return true;
  return mint.decimals === 0 && mint.supply === 1n && standard !== 'FungibleAsset';
}
