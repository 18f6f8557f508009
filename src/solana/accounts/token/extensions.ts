import { ACCOUNT_TYPE_OFFSET } from './token-program.ts';

/** One extension of a Token-2022 mint or account. */
export interface Extension {
  readonly type: number;
  /** The name of the type; null for types that are not known. */
  readonly name: ExtensionName | null;
  /** A view on the account's data. */
  readonly value: Uint8Array;
}

/** By number. */
const EXTENSION_NAMES = [
  'Uninitialized',
  'TransferFeeConfig',
  'TransferFeeAmount',
  'MintCloseAuthority',
  'ConfidentialTransferMint',
  'ConfidentialTransferAccount',
  'DefaultAccountState',
  'ImmutableOwner',
  'MemoTransfer',
  'NonTransferable',
  'InterestBearingConfig',
  'CpiGuard',
  'PermanentDelegate',
  'NonTransferableAccount',
  'TransferHook',
  'TransferHookAccount',
  'ConfidentialTransferFeeConfig',
  'ConfidentialTransferFeeAmount',
  'MetadataPointer',
  'TokenMetadata',
  'GroupPointer',
  'TokenGroup',
  'GroupMemberPointer',
  'TokenGroupMember',
  'ConfidentialMintBurn',
  'ScaledUiAmount',
  'Pausable',
  'PausableAccount',
  'PermissionedBurn',
] as const;

export type ExtensionName = (typeof EXTENSION_NAMES)[number];

const HEAD_BYTES = 4;

/**
 * The extensions behind the base of a Token-2022 mint or account, in their order. Type 0 ends the list; so does a record that passes the
 * end of the data, and what was read before it counts. Empty for accounts without extensions.
 */
export function readExtensions(data: Uint8Array): readonly Extension[] {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const extensions: Extension[] = [];
  let at = ACCOUNT_TYPE_OFFSET + 1;
  while (at + HEAD_BYTES <= data.length) {
    const type = view.getUint16(at, true);
    const end = at + HEAD_BYTES + view.getUint16(at + 2, true);
    if (type === 0 || end > data.length) break;
    extensions.push({ type, name: EXTENSION_NAMES[type] ?? null, value: data.subarray(at + HEAD_BYTES, end) });
    at = end;
  }
  return extensions;
}

/** The value of the first extension with this name, or null. */
export function findExtension(extensions: readonly Extension[], name: ExtensionName): Uint8Array | null {
  return extensions.find((extension) => extension.name === name)?.value ?? null;
}
