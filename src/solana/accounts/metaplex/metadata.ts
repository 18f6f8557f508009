import { METADATA_PROGRAM, SYSTEM_PROGRAM } from '../../address/known-programs.ts';
import { createByteReader } from '../../byte-reader.ts';
import { attempt, type Decoded, undecoded } from '../decoded.ts';
import { keyText, text } from '../fields.ts';
import type { RawAccount } from '../raw-account.ts';
import { type MetadataTail, readMetadataTail } from './metadata-tail.ts';

/** A Metaplex metadata account. Keys are base58; texts are without the zeros that fill them up, blanks are kept. */
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

export interface Creator {
  readonly address: string;
  readonly verified: boolean;
  /** Per cent. */
  readonly share: number;
}

const METADATA_KEY = 4;
const CREATOR_BYTES = 34;

/** Reads an account of the metadata program. What is closed, or was never written, is `missing`. */
export function decodeMetadata(account: RawAccount): Decoded<Metadata> {
  const { owner, lamports, data } = account;
  if (lamports === 0n || owner === SYSTEM_PROGRAM || data.length === 0) return undecoded('missing');
  return owner === METADATA_PROGRAM ? decodeMetadataBytes(data) : undecoded('foreign');
}

/** The same for the bytes alone: some other programs write this layout too. Who names the account decides whether to believe it. */
export function decodeMetadataBytes(data: Uint8Array): Decoded<Metadata> {
  if (data.length === 0 || data[0] === 0) return undecoded('missing');
  if (data[0] !== METADATA_KEY) return undecoded('foreign');
  return attempt(() => readMetadata(data));
}

function readMetadata(data: Uint8Array): Metadata {
  const reader = createByteReader(data, 1);
  const creator = (): Creator => ({ address: keyText(reader), verified: reader.bool(), share: reader.u8() });
  const [updateAuthority, mint] = [keyText(reader), keyText(reader)];
  const [name, symbol, uri] = [text(reader), text(reader), text(reader)];
  const sellerFeeBasisPoints = reader.u16();
  const creators = reader.option(() => reader.list(creator, CREATOR_BYTES));
  const [primarySaleHappened, isMutable] = [reader.bool(), reader.bool()];
  const editionNonce = reader.option(reader.u8);
  return {
    ...{ updateAuthority, mint, name, symbol, uri, sellerFeeBasisPoints, creators },
    ...{ primarySaleHappened, isMutable, editionNonce },
    ...readMetadataTail(reader),
  };
}
