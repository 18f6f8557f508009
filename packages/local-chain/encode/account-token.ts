import { encode32 } from '../../../src/lib/base58.ts';
import { base64, byteReader, type LayoutReader } from '../../../src/solana/json-parsed/layout.ts';
import { SYSTEM_PROGRAM } from '../../../src/solana/programs.ts';
import { uiAmountOf, view } from '../ledger/accounts.ts';
import type { VmAccount } from '../vm/vm.ts';

const ACCOUNT_STATES = ['uninitialized', 'initialized', 'frozen'];
/** Offset of the extensions in any account. */
const EXTENSIONS_AT = 166;
const MULTISIG_SIGNERS = 11;
const NO_KEY = SYSTEM_PROGRAM;

export interface TokenContext {
  /** Finds the mint of a token account. */
  account(key: string): VmAccount | null;
  readonly unixSeconds: number;
}

export function tokenAccountInfo(data: Uint8Array, context: TokenContext) {
  const reader = view(data);
  const mint = encode32(data, 0);
  const mintAccount = context.account(mint);
  const amountOf = (at: number) => uiAmountOf(reader.getBigUint64(at, true), mintAccount, context.unixSeconds);
  const delegate = optionalKey(data, 72);
  const isNative = reader.getUint32(109, true) === 1;
  const closeAuthority = optionalKey(data, 129);
  return {
    isNative,
    mint,
    owner: encode32(data, 32),
    state: ACCOUNT_STATES[data[108]!] ?? 'uninitialized',
    tokenAmount: amountOf(64),
    ...(delegate === null ? {} : { delegate, delegatedAmount: amountOf(121) }),
    ...(isNative ? { rentExemptReserve: amountOf(113) } : {}),
    ...(closeAuthority === null ? {} : { closeAuthority }),
    ...extensionsInfo(data),
  };
}

export function mintInfo(data: Uint8Array) {
  return {
    decimals: data[44],
    freezeAuthority: optionalKey(data, 46),
    isInitialized: data[45] === 1,
    mintAuthority: optionalKey(data, 0),
    supply: view(data).getBigUint64(36, true).toString(),
    ...extensionsInfo(data),
  };
}

export function multisigInfo(data: Uint8Array) {
  const signers = Array.from({ length: MULTISIG_SIGNERS }, (_, index) => encode32(data, 3 + 32 * index));
  return {
    numRequiredSigners: data[0],
    numValidSigners: data[1],
    isInitialized: data[2] === 1,
    signers: signers.filter((signer) => signer !== NO_KEY),
  };
}

/** An optional key: u32 tag, then 32 bytes. */
function optionalKey(data: Uint8Array, at: number): string | null {
  return view(data).getUint32(at, true) === 1 ? encode32(data, at + 4) : null;
}

interface Extension {
  readonly name: string;
  /** Without it the extension has no state. */
  readonly state?: (read: LayoutReader) => unknown;
}

const encoded = (bytes: number) => (read: LayoutReader) => base64(read.raw(bytes));
const ciphertext = encoded(64);
const decryptable = encoded(36);
const elGamalKey = encoded(32);

function elGamalKeyOrNone(read: LayoutReader): string | null {
  const bytes = read.raw(32);
  return bytes.every((byte) => byte === 0) ? null : base64(bytes);
}

function transferFee(read: LayoutReader) {
  return { epoch: read.amount(), maximumFee: read.amount(), transferFeeBasisPoints: read.u16() };
}

const pointer = (name: string) => (read: LayoutReader) => ({ authority: read.keyOrNone(), [name]: read.keyOrNone() });

function tokenMetadata(read: LayoutReader) {
  return {
    updateAuthority: read.keyOrNone(),
    mint: read.key(),
    name: read.shortText(),
    symbol: read.shortText(),
    uri: read.shortText(),
    additionalMetadata: read.list(read.u32(), () => [read.shortText(), read.shortText()]),
  };
}

function confidentialAccount(read: LayoutReader) {
  return {
    approved: read.bool(),
    elgamalPubkey: elGamalKey(read),
    pendingBalanceLo: ciphertext(read),
    pendingBalanceHi: ciphertext(read),
    availableBalance: ciphertext(read),
    decryptableAvailableBalance: decryptable(read),
    allowConfidentialCredits: read.bool(),
    allowNonConfidentialCredits: read.bool(),
    pendingBalanceCreditCounter: read.amount(),
    maximumPendingBalanceCreditCounter: read.amount(),
    expectedPendingBalanceCreditCounter: read.amount(),
    actualPendingBalanceCreditCounter: read.amount(),
  };
}

/** Extensions of mints and token accounts by number. */
const EXTENSIONS: readonly Extension[] = [
  { name: 'uninitialized' },
  {
    name: 'transferFeeConfig',
    state: (read) => ({
      transferFeeConfigAuthority: read.keyOrNone(),
      withdrawWithheldAuthority: read.keyOrNone(),
      withheldAmount: read.amount(),
      olderTransferFee: transferFee(read),
      newerTransferFee: transferFee(read),
    }),
  },
  { name: 'transferFeeAmount', state: (read) => ({ withheldAmount: read.amount() }) },
  { name: 'mintCloseAuthority', state: (read) => ({ closeAuthority: read.keyOrNone() }) },
  {
    name: 'confidentialTransferMint',
    state: (read) => ({
      authority: read.keyOrNone(),
      autoApproveNewAccounts: read.bool(),
      auditorElgamalPubkey: elGamalKeyOrNone(read),
    }),
  },
  { name: 'confidentialTransferAccount', state: confidentialAccount },
  { name: 'defaultAccountState', state: (read) => ({ accountState: ACCOUNT_STATES[read.u8()] ?? 'uninitialized' }) },
  { name: 'immutableOwner' },
  { name: 'memoTransfer', state: (read) => ({ requireIncomingTransferMemos: read.bool() }) },
  { name: 'nonTransferable' },
  {
    name: 'interestBearingConfig',
    state: (read) => ({
      rateAuthority: read.keyOrNone(),
      initializationTimestamp: read.time(),
      preUpdateAverageRate: read.i16(),
      lastUpdateTimestamp: read.time(),
      currentRate: read.i16(),
    }),
  },
  { name: 'cpiGuard', state: (read) => ({ lockCpi: read.bool() }) },
  { name: 'permanentDelegate', state: (read) => ({ delegate: read.keyOrNone() }) },
  { name: 'nonTransferableAccount' },
  { name: 'transferHook', state: pointer('programId') },
  { name: 'transferHookAccount', state: (read) => ({ transferring: read.bool() }) },
  {
    name: 'confidentialTransferFeeConfig',
    state: (read) => ({
      authority: read.keyOrNone(),
      withdrawWithheldAuthorityElgamalPubkey: elGamalKeyOrNone(read),
      harvestToMintEnabled: read.bool(),
      withheldAmount: ciphertext(read),
    }),
  },
  { name: 'confidentialTransferFeeAmount', state: (read) => ({ withheldAmount: ciphertext(read) }) },
  { name: 'metadataPointer', state: pointer('metadataAddress') },
  { name: 'tokenMetadata', state: tokenMetadata },
  { name: 'groupPointer', state: pointer('groupAddress') },
  {
    name: 'tokenGroup',
    state: (read) => ({
      updateAuthority: read.keyOrNone(),
      mint: read.key(),
      size: read.amount(),
      maxSize: read.amount(),
    }),
  },
  { name: 'groupMemberPointer', state: pointer('memberAddress') },
  {
    name: 'tokenGroupMember',
    state: (read) => ({ mint: read.key(), group: read.key(), memberNumber: read.amount() }),
  },
  {
    name: 'confidentialMintBurn',
    state: (read) => ({
      confidentialSupply: ciphertext(read),
      decryptableSupply: decryptable(read),
      supplyElgamalPubkey: elGamalKey(read),
      pendingBurn: ciphertext(read),
    }),
  },
  {
    name: 'scaledUiAmountConfig',
    state: (read) => ({
      authority: read.keyOrNone(),
      multiplier: String(read.f64()),
      newMultiplierEffectiveTimestamp: read.time(),
      newMultiplier: String(read.f64()),
    }),
  },
  { name: 'pausableConfig', state: (read) => ({ authority: read.keyOrNone(), paused: read.bool() }) },
  { name: 'pausableAccount' },
  { name: 'permissionedBurnConfig', state: (read) => ({ authority: read.keyOrNone() }) },
];

/** Extensions in stored order; empty if the account has no extensions or the list is malformed. */
function extensionsInfo(data: Uint8Array): { extensions?: unknown[] } {
  const extensions: unknown[] = [];
  const reader = byteReader(data.subarray(EXTENSIONS_AT));
  while (reader.left() >= 4) {
    const type = reader.u16();
    const length = reader.u16();
    if (type === 0) break;
    const extension = EXTENSIONS[type];
    if (extension === undefined || length > reader.left()) return {};
    extensions.push(extensionInfo(extension, reader.raw(length)));
  }
  return extensions.length === 0 ? {} : { extensions };
}

function extensionInfo({ name, state }: Extension, bytes: Uint8Array) {
  if (state === undefined) return { extension: name };
  try {
    return { extension: name, state: state(byteReader(bytes)) };
  } catch (error) {
    if (error instanceof RangeError) return { extension: 'unparseableExtension' };
    throw error;
  }
}
