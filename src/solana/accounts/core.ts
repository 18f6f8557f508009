import { CORE_PROGRAM } from '../addresses.ts';
import { type ByteReader, createByteReader, LayoutError } from '../byte-reader.ts';
import { attempt, type Decoded, keyText, type RawAccount, text, undecoded } from './decoded.ts';

/** An asset of Metaplex Core: one account, without mint and token account. Keys are base58. */
interface CoreAsset {
  readonly owner: string;
  readonly updateAuthority:
    | { readonly kind: 'none' }
    | { readonly kind: 'address'; readonly address: string }
    | { readonly kind: 'collection'; readonly address: string };
  readonly name: string;
  readonly uri: string;
  readonly seq: bigint | null;
  readonly plugins: readonly CorePlugin[];
}

interface CoreCollection {
  readonly updateAuthority: string;
  readonly name: string;
  readonly uri: string;
  readonly numMinted: number;
  readonly currentSize: number;
  readonly plugins: readonly CorePlugin[];
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

/** A plugin of a Core asset or collection, from the account's registry; its body is not read. */
interface CorePlugin {
  readonly type: number;
  /** Null for unknown types. */
  readonly name: CorePluginName | null;
  readonly authority: 'none' | 'owner' | 'updateAuthority' | { readonly address: string };
  /** Offset of its body in the account's data. */
  readonly offset: bigint;
}

const PLUGIN_NAMES = [
  'Royalties',
  'FreezeDelegate',
  'BurnDelegate',
  'TransferDelegate',
  'UpdateDelegate',
  'PermanentFreezeDelegate',
  'Attributes',
  'PermanentTransferDelegate',
  'PermanentBurnDelegate',
  'Edition',
  'MasterEdition',
  'AddBlocker',
  'ImmutableMetadata',
  'VerifiedCreators',
  'Autograph',
  'BubblegumV2',
  'FreezeExecute',
  'PermanentFreezeExecute',
  'Groups',
] as const;
const AUTHORITIES = ['none', 'owner', 'updateAuthority'] as const;
const KEY = { header: 3, registry: 4 } as const;
/** Type, authority without an address, offset. */
const ENTRY_BYTES = 10;

type CorePluginName = (typeof PLUGIN_NAMES)[number];

/** The plugins in the registry referenced by the header after the asset. A damaged registry counts as empty: no response depends on it. */
function readCorePlugins(reader: ByteReader, data: Uint8Array): readonly CorePlugin[] {
  try {
    if (reader.left === 0 || reader.u8() !== KEY.header) return [];
    const registry = createByteReader(data, Math.min(reader.count(), data.length));
    return registry.u8() === KEY.registry ? registry.list(() => readEntry(registry), ENTRY_BYTES) : [];
  } catch (error) {
    if (error instanceof LayoutError) return [];
    throw error;
  }
}

function readEntry(reader: ByteReader): CorePlugin {
  const type = reader.u8();
  const kind = reader.u8();
  const authority = AUTHORITIES[kind] ?? (kind === AUTHORITIES.length ? { address: keyText(reader) } : null);
  if (authority === null) throw new LayoutError(`${kind} is no authority of a plugin`, reader.offset - 1);
  return { type, name: PLUGIN_NAMES[type] ?? null, authority, offset: reader.u64() };
}
