import { encode32 } from '../../../lib/base58.ts';
import { type ByteReader, createByteReader, LayoutError } from '../../byte-reader.ts';

const STANDARDS = ['NonFungible', 'FungibleAsset', 'Fungible', 'NonFungibleEdition'];
const TOKEN_PROGRAMS = ['Original', 'Token2022'];
const USE_METHODS = ['Burn', 'Multiple', 'Single'];

/**
 * The metadata that a mint carries behind its discriminator; null when it is damaged. Options that are absent have no member.
 */
export function readMintMetadata(data: Uint8Array, layout: 1 | 2): Readonly<Record<string, unknown>> | null {
  try {
    const reader = createByteReader(data, 8);
    return layout === 1 ? readV1(reader) : readV2(reader);
  } catch (error) {
    if (error instanceof LayoutError) return null;
    throw error;
  }
}

const text = (reader: ByteReader): string => Buffer.from(reader.blob()).toString('utf8');

function head(reader: ByteReader) {
  return {
    name: text(reader),
    symbol: text(reader),
    uri: text(reader),
    sellerFeeBasisPoints: reader.u16(),
    primarySaleHappened: reader.bool(),
    isMutable: reader.bool(),
  };
}

function readV1(reader: ByteReader): Readonly<Record<string, unknown>> {
  const { name, symbol, uri, sellerFeeBasisPoints, primarySaleHappened, isMutable } = head(reader);
  const editionNonce = reader.option(() => reader.u8());
  const standard = reader.option(() => reader.u8());
  const collection = reader.option(() => ({ verified: reader.bool(), key: encode32(reader.key()) }));
  const uses = reader.option(() => ({
    useMethod: nameOf(USE_METHODS, reader.u8()),
    remaining: Number(reader.u64()),
    total: Number(reader.u64()),
  }));
  const tokenProgramVersion = nameOf(TOKEN_PROGRAMS, reader.u8());
  return {
    ...(collection === null ? {} : { collection: { key: collection.key, verified: collection.verified } }),
    creators: creators(reader),
    ...(editionNonce === null ? {} : { editionNonce }),
    ...{ isMutable, name, primarySaleHappened, sellerFeeBasisPoints, symbol, tokenProgramVersion },
    ...(standard === null ? {} : { tokenStandard: nameOf(STANDARDS, standard) }),
    uri,
    ...(uses === null ? {} : { uses }),
  };
}

function readV2(reader: ByteReader): Readonly<Record<string, unknown>> {
  const { name, symbol, uri, sellerFeeBasisPoints, primarySaleHappened, isMutable } = head(reader);
  const standard = reader.option(() => reader.u8());
  const list = creators(reader);
  const collection = reader.option(() => encode32(reader.key()));
  return {
    // A mint of this version is refused when the collection does not sign.
    ...(collection === null ? {} : { collection: { key: collection, verified: true } }),
    creators: list,
    ...{ isMutable, name, primarySaleHappened, sellerFeeBasisPoints, symbol },
    ...(standard === null ? {} : { tokenStandard: nameOf(STANDARDS, standard) }),
    uri,
  };
}

function creators(reader: ByteReader) {
  return reader.list(() => {
    const address = encode32(reader.key());
    const verified = reader.bool();
    return { address, share: reader.u8(), verified };
  }, 34);
}

function nameOf(names: readonly string[], at: number): string {
  const name = names[at];
  if (name === undefined) throw new LayoutError(`no name for ${at}`);
  return name;
}
