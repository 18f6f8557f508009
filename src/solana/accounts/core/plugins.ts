import { type ByteReader, createByteReader, LayoutError } from '../../byte-reader.ts';
import { keyText } from '../fields.ts';

/** A plugin of a Core asset or collection, by its entry in the account's registry; its body is not read. */
export interface CorePlugin {
  readonly type: number;
  /** Null for types that are not known. */
  readonly name: CorePluginName | null;
  readonly authority: 'none' | 'owner' | 'updateAuthority' | { readonly address: string };
  /** Where its body begins in the account's data. */
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

export type CorePluginName = (typeof PLUGIN_NAMES)[number];

/** The plugins in the registry that the header behind the asset points to. A damaged registry counts as none: no answer depends on it. */
export function readCorePlugins(reader: ByteReader, data: Uint8Array): readonly CorePlugin[] {
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
