import { encode } from '../../lib/base58.ts';
import { type ByteReader, createByteReader } from '../../lib/bytes.ts';
import { f64, i16, i64, readTransferFeeConfig } from './amounts.ts';
import { keyText, nullableKey, tryDecode } from './decoded.ts';
import { decodeTokenMetadata, type Extension, findExtension } from './token.ts';

type Members = Readonly<Record<string, unknown>>;

/**
 * The extensions of a Token-2022 mint as asset APIs show them, by name in snake case. Amounts are raw units, times unix seconds, rates
 * basis points; encryption keys and ciphertexts are base58, but for that of the auditor, which is base64 in the reference. Unknown and damaged
 * extensions are left out. Null without any. `hasWords`: states are words, and not the numbers of the account.
 */
export function mintExtensionsJson(extensions: readonly Extension[], hasWords: boolean): Members | null {
  return extensionsJson(extensions, MINT_READERS, hasWords);
}

/** Like `mintExtensionsJson`, for a token account. Extensions that only say that the mint has one are left out. */
export function accountExtensionsJson(extensions: readonly Extension[]): Members | null {
  return extensionsJson(extensions, ACCOUNT_READERS, true);
}

function extensionsJson(extensions: readonly Extension[], readers: Readers, hasWords: boolean): Members | null {
  const found = extensions.flatMap((extension) => {
    const [name, read] = readers[extension.name ?? ''] ?? [];
    if (name === undefined || read === undefined) return [];
    const { value } = tryDecode(() => read(createByteReader(extension.value), extensions, hasWords));
    return value === null ? [] : [[name, value] as const];
  });
  return found.length === 0 ? null : Object.fromEntries(found);
}

type ExtensionReader = (reader: ByteReader, all: readonly Extension[], hasWords: boolean) => Members | null;
type Readers = Readonly<Record<string, readonly [name: string, read: ExtensionReader]>>;

const MINT_READERS: Readers = {
  TransferFeeConfig: ['transfer_fee_config', (_, all) => feeConfig(all)],
  MintCloseAuthority: ['mint_close_authority', (reader) => ({ close_authority: nullableKey(reader) })],
  ConfidentialTransferMint: [
    'confidential_transfer_mint',
    (reader) => ({
      authority: nullableKey(reader),
      auto_approve_new_accounts: reader.bool(),
      auditor_elgamal_pubkey: nullableBase64(reader.key()),
    }),
  ],
  DefaultAccountState: [
    'default_account_state',
    (reader, _, hasWords) => {
      const state = reader.u8();
      return { state: hasWords ? (STATES[state] ?? 'Uninitialized') : state };
    },
  ],
  NonTransferable: ['non_transferable', () => ({})],
  InterestBearingConfig: [
    'interest_bearing_config',
    (reader) => ({
      rate_authority: nullableKey(reader),
      initialization_timestamp: i64(reader),
      pre_update_average_rate: i16(reader),
      last_update_timestamp: i64(reader),
      current_rate: i16(reader),
    }),
  ],
  PermanentDelegate: ['permanent_delegate', (reader) => ({ delegate: nullableKey(reader) })],
  TransferHook: ['transfer_hook', (reader) => ({ authority: nullableKey(reader), program_id: nullableKey(reader) })],
  ConfidentialTransferFeeConfig: [
    'confidential_transfer_fee_config',
    (reader) => ({
      authority: nullableKey(reader),
      withdraw_withheld_authority_elgamal_pubkey: keyText(reader),
      harvest_to_mint_enabled: reader.bool(),
      // Two group elements.
      withheld_amount: encode(reader.bytes(64)),
    }),
  ],
  MetadataPointer: ['metadata_pointer', (reader) => pointer(reader, 'metadata_address')],
  TokenMetadata: ['metadata', (_, all) => metadata(all)],
  GroupPointer: ['group_pointer', (reader) => pointer(reader, 'group_address')],
  TokenGroup: [
    'token_group',
    (reader) => ({
      update_authority: nullableKey(reader),
      mint: keyText(reader),
      size: reader.u64(),
      max_size: reader.u64(),
    }),
  ],
  GroupMemberPointer: ['group_member_pointer', (reader) => pointer(reader, 'member_address')],
  TokenGroupMember: [
    'token_group_member',
    (reader) => ({ mint: keyText(reader), group: keyText(reader), member_number: reader.u64() }),
  ],
  ScaledUiAmount: [
    'scaled_ui_amount_config',
    (reader) => ({
      authority: nullableKey(reader),
      multiplier: f64(reader),
      new_multiplier_effective_timestamp: i64(reader),
      new_multiplier: f64(reader),
    }),
  ],
  Pausable: ['pausable_config', (reader) => ({ authority: nullableKey(reader), paused: reader.bool() })],
};

const CIPHERTEXT_BYTES = 64;
const OWN_CIPHERTEXT_BYTES = 36;

const ACCOUNT_READERS: Readers = {
  TransferFeeAmount: ['transfer_fee_amount', (reader) => ({ withheld_amount: reader.u64() })],
  MemoTransfer: ['memo_transfer', (reader) => ({ require_incoming_transfer_memos: reader.bool() })],
  CpiGuard: ['cpi_guard', (reader) => ({ lock_cpi: reader.bool() })],
  ConfidentialTransferAccount: [
    'confidential_transfer',
    (reader) => ({
      approved: reader.bool(),
      elgamal_pubkey: keyText(reader),
      pending_balance_lo: encode(reader.bytes(CIPHERTEXT_BYTES)),
      pending_balance_hi: encode(reader.bytes(CIPHERTEXT_BYTES)),
      available_balance: encode(reader.bytes(CIPHERTEXT_BYTES)),
      decryptable_available_balance: encode(reader.bytes(OWN_CIPHERTEXT_BYTES)),
      allow_confidential_credits: reader.bool(),
      allow_non_confidential_credits: reader.bool(),
      pending_balance_credit_counter: reader.u64(),
      maximum_pending_balance_credit_counter: reader.u64(),
      expected_pending_balance_credit_counter: reader.u64(),
      actual_pending_balance_credit_counter: reader.u64(),
    }),
  ],
};

const nullableBase64 = (bytes: Uint8Array): string | null =>
  bytes.every((byte) => byte === 0) ? null : Buffer.from(bytes).toString('base64');

const STATES = ['Uninitialized', 'Initialized', 'Frozen'] as const;

/** The authority stands before the address and is not shown. */
function pointer(reader: ByteReader, name: string): Members {
  reader.key();
  return { [name]: nullableKey(reader) };
}

function feeConfig(all: readonly Extension[]): Members | null {
  const config = readTransferFeeConfig(all);
  if (config === null) return null;
  const fee = ({ epoch, maximum, basisPoints }: (typeof config)['older']) => ({
    epoch,
    maximum_fee: maximum,
    transfer_fee_basis_points: basisPoints,
  });
  return {
    transfer_fee_config_authority: config.feeAuthority,
    withdraw_withheld_authority: config.withdrawAuthority,
    withheld_amount: config.withheld,
    older_transfer_fee: fee(config.older),
    newer_transfer_fee: fee(config.newer),
  };
}

function metadata(all: readonly Extension[]): Members | null {
  const bytes = findExtension(all, 'TokenMetadata');
  const value = bytes === null ? null : decodeTokenMetadata(bytes).value;
  if (value === null) return null;
  const { updateAuthority, mint, name, symbol, uri, additional } = value;
  return { update_authority: updateAuthority, mint, name, symbol, uri, additional_metadata: additional };
}
