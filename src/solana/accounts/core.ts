import { CORE_PROGRAM } from '../addresses.ts';
import { type ByteReader, createByteReader, LayoutError } from '../byte-reader.ts';
import { type CorePlugins, readCorePlugins } from './core-plugins.ts';
import { attempt, type Decoded, keyText, type RawAccount, text, undecoded } from './decoded.ts';

/** An asset of Metaplex Core: one account, without mint and token account. Keys are base58. */
export interface CoreAsset {
  readonly owner: string;
  readonly updateAuthority:
    | { readonly kind: 'none' }
    | { readonly kind: 'address'; readonly address: string }
    | { readonly kind: 'collection'; readonly address: string };
  readonly name: string;
  readonly uri: string;
  readonly seq: bigint | null;
  readonly plugins: CorePlugins;
}

export interface CoreCollection {
  readonly updateAuthority: string;
  readonly name: string;
  readonly uri: string;
  readonly numMinted: number;
  readonly currentSize: number;
  readonly plugins: CorePlugins;
}

/** First bytes of the accounts, also used in filters. */
export const CORE_KEY = { asset: 1, collection: 5 } as const;

/** Reads an asset. */
export function decodeCoreAsset(account: RawAccount): Decoded<CoreAsset> {
  return decodeCore(account, CORE_KEY.asset, readAsset);
}

/** Reads a collection. */
export function decodeCoreCollection(account: RawAccount): Decoded<CoreCollection> {
  return decodeCore(account, CORE_KEY.collection, readCollection);
}

function decodeCore<T>(
  { owner, lamports, data }: RawAccount,
  key: number,
  read: (reader: ByteReader, data: Uint8Array) => T,
): Decoded<T> {
  if (lamports === 0n || data.length === 0 || data[0] === 0) return undecoded('missing');
  if (owner !== CORE_PROGRAM || data[0] !== key) return undecoded('foreign');
  return attempt(() => read(createByteReader(data, 1), data));
}

function readAsset(reader: ByteReader, data: Uint8Array): CoreAsset {
  const owner = keyText(reader);
  const updateAuthority = readAuthority(reader);
  const [name, uri, seq] = [text(reader), text(reader), reader.option(reader.u64)];
  return { owner, updateAuthority, name, uri, seq, plugins: readCorePlugins(reader, data) };
}

function readAuthority(reader: ByteReader): CoreAsset['updateAuthority'] {
  const kind = reader.u8();
  if (kind === 0) return { kind: 'none' };
  if (kind > 2) throw new LayoutError(`${kind} is no update authority`, reader.offset - 1);
  return { kind: kind === 1 ? 'address' : 'collection', address: keyText(reader) };
}

function readCollection(reader: ByteReader, data: Uint8Array): CoreCollection {
  const [updateAuthority, name, uri] = [keyText(reader), text(reader), text(reader)];
  const [numMinted, currentSize] = [reader.u32(), reader.u32()];
  return { updateAuthority, name, uri, numMinted, currentSize, plugins: readCorePlugins(reader, data) };
}
