import { createByteReader, LayoutError } from '../../lib/bytes.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../programs.ts';
import {
  type Decoded,
  keyText,
  nullableKey,
  optionalKey,
  presence,
  type RawAccount,
  readText,
  tryDecode,
  undecoded,
} from './decoded.ts';

/** A mint of SPL Token or Token-2022. Keys are base58. */
export interface Mint {
  readonly program: string;
  readonly mintAuthority: string | null;
  /** Raw units. */
  readonly supply: bigint;
  readonly decimals: number;
  readonly freezeAuthority: string | null;
  /** Empty for SPL Token. */
  readonly extensions: readonly Extension[];
}

/** Reads a mint. An uninitialized one is `foreign`. */
export function decodeMint({ owner, data }: Pick<RawAccount, 'owner' | 'data'>): Decoded<Mint> {
  if (!hasForm('mint', owner, data)) return undecoded(data.length === 0 ? 'missing' : 'foreign');
  const read = tryDecode(() => {
    const reader = createByteReader(data);
    const mintAuthority = optionalKey(reader);
    const [supply, decimals, isInitialized] = [reader.u64(), reader.u8(), reader.bool()];
    return { program: owner, mintAuthority, supply, decimals, freezeAuthority: optionalKey(reader), isInitialized };
  });
  if (read.value === null) return read;
  const { isInitialized, ...mint } = read.value;
  return isInitialized ? { value: { ...mint, extensions: readExtensions(data) }, reason: null } : undecoded('foreign');
}

/** An account that holds tokens. Keys are base58, amounts raw units. */
export interface TokenAccount {
  readonly program: string;
  readonly mint: string;
  readonly owner: string;
  readonly amount: bigint;
  readonly delegate: string | null;
  readonly delegatedAmount: bigint;
  readonly isFrozen: boolean;
  /** Lamports reserved for the account itself when it holds wrapped SOL; null for all others. */
  readonly nativeReserve: bigint | null;
  readonly closeAuthority: string | null;
  /** Empty for SPL Token. */
  readonly extensions: readonly Extension[];
}

const STATE = { uninitialized: 0, frozen: 2 } as const;

/** Reads a token account. An uninitialized one is `foreign`. */
export function decodeTokenAccount({ owner, data }: Pick<RawAccount, 'owner' | 'data'>): Decoded<TokenAccount> {
  if (!hasForm('account', owner, data)) return undecoded(data.length === 0 ? 'missing' : 'foreign');
  const read = tryDecode(() => readBase(data));
  if (read.value === null) return read;
  const { state, ...account } = read.value;
  if (state === STATE.uninitialized) return undecoded('foreign');
  const isFrozen = state === STATE.frozen;
  return { value: { program: owner, ...account, isFrozen, extensions: readExtensions(data) }, reason: null };
}

function readBase(data: Uint8Array) {
  const reader = createByteReader(data);
  const [mint, owner, amount, delegate] = [keyText(reader), keyText(reader), reader.u64(), optionalKey(reader)];
  const state = reader.u8();
  if (state > STATE.frozen) throw new LayoutError(`${state} is no state of a token account`, reader.offset - 1);
  const isNative = presence(reader);
  const reserve = reader.u64();
  const delegatedAmount = reader.u64();
  const closeAuthority = optionalKey(reader);
  return {
    mint,
    owner,
    amount,
    delegate,
    delegatedAmount,
    nativeReserve: isNative ? reserve : null,
    closeAuthority,
    state,
  };
}

/** Sizes of a mint and a token account without extensions, and of a multisig account. */
const MINT_BYTES = 82;
const TOKEN_ACCOUNT_BYTES = 165;
const MULTISIG_BYTES = 355;
/** After the longer base comes the account type, then the extensions. */
const ACCOUNT_TYPE_OFFSET = 165;
const ACCOUNT_TYPE = { mint: 1, account: 2 } as const;

/** Whether a program uses the account layout of SPL Token. */
function isTokenProgram(program: string): boolean {
  return program === TOKEN_PROGRAM || program === TOKEN_2022_PROGRAM;
}

/** Whether the bytes have the size and type of a mint or token account of this program. Does not check their content. */
function hasForm(kind: 'mint' | 'account', program: string, data: Uint8Array): boolean {
  const baseBytes = kind === 'mint' ? MINT_BYTES : TOKEN_ACCOUNT_BYTES;
  if (!isTokenProgram(program)) return false;
  if (data.length === baseBytes) return true;
  if (program !== TOKEN_2022_PROGRAM || data.length <= ACCOUNT_TYPE_OFFSET || data.length === MULTISIG_BYTES)
    return false;
  if (data[ACCOUNT_TYPE_OFFSET] !== ACCOUNT_TYPE[kind]) return false;
  // A shorter base is padded, so that both kinds have their type at one offset.
  return data.subarray(baseBytes, ACCOUNT_TYPE_OFFSET).every((byte) => byte === 0);
}

/** One extension of a Token-2022 mint or account. */
export interface Extension {
  readonly type: number;
  /** The name of the type; null for unknown types. */
  readonly name: ExtensionName | null;
  /** A view of the account's data. */
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

type ExtensionName = (typeof EXTENSION_NAMES)[number];

const HEAD_BYTES = 4;

/**
 * The extensions after the base of a Token-2022 mint or account, in order. Type 0 ends the list, and so does a record that exceeds the
 * data; earlier records are returned. Empty for accounts without extensions.
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

/** Address of the metadata of a Token-2022 mint. Keys are base58. */
interface MetadataPointer {
  readonly authority: string | null;
  readonly metadataAddress: string | null;
}

/** The pointer of a mint; null without one. */
export function readMetadataPointer(extensions: readonly Extension[]): MetadataPointer | null {
  const value = findExtension(extensions, 'MetadataPointer');
  if (value === null) return null;
  return tryDecode(() => {
    const reader = createByteReader(value);
    return { authority: nullableKey(reader), metadataAddress: nullableKey(reader) };
  }).value;
}

/** Metadata in an extension of Token-2022. Keys are base58. */
export interface TokenMetadata {
  readonly updateAuthority: string | null;
  readonly mint: string;
  readonly name: string;
  readonly symbol: string;
  readonly uri: string;
  readonly additional: readonly (readonly [key: string, value: string])[];
}

/** Minimum size of a pair of texts: two lengths. */
const PAIR_BYTES = 8;

/** Reads the value of the extension `TokenMetadata`. */
export function decodeTokenMetadata(value: Uint8Array): Decoded<TokenMetadata> {
  return tryDecode(() => {
    const reader = createByteReader(value);
    const updateAuthority = nullableKey(reader);
    const [mint, name, symbol, uri] = [keyText(reader), readText(reader), readText(reader), readText(reader)];
    const additional = reader.list(() => [readText(reader), readText(reader)] as const, PAIR_BYTES);
    return { updateAuthority, mint, name, symbol, uri, additional };
  });
}
