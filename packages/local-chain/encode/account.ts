import { encode, encode32 } from '../../../src/lib/base58.ts';
import { isPlainObject, withSortedMembers } from '../../../src/lib/json.ts';
import { zstdFrame } from '../../../src/lib/zstd.ts';
import { base64, byteReader, exact, type LayoutReader } from '../../../src/solana/json-parsed/layout.ts';
import {
  CLOCK_SYSVAR,
  CONFIG_PROGRAM,
  EPOCH_REWARDS_SYSVAR,
  EPOCH_SCHEDULE_SYSVAR,
  FEES_SYSVAR,
  LAST_RESTART_SLOT_SYSVAR,
  LOADER_V3,
  LOOKUP_TABLE_PROGRAM,
  RECENT_BLOCKHASHES_SYSVAR,
  RENT_SYSVAR,
  SLOT_HASHES_SYSVAR,
  SLOT_HISTORY_SYSVAR,
  STAKE_HISTORY_SYSVAR,
  STAKE_PROGRAM,
  SYSTEM_PROGRAM,
  SYSVAR_OWNER,
  TOKEN_PROGRAM,
  VALIDATOR_INFO,
  VOTE_PROGRAM,
} from '../../../src/solana/programs.ts';
import { isMint, isTokenAccount, isTokenProgram } from '../ledger/accounts.ts';
import { NONCE_BYTES } from '../ledger/bank.ts';
import type { VmAccount } from '../vm/vm.ts';
import { mintInfo, multisigInfo, type TokenContext, tokenAccountInfo } from './account-token.ts';
import { type AccountConfig, type AccountEncoding, RPC, rpcError, small } from './params.ts';

const BASE58_LIMIT_BYTES = 128;

export interface AccountFormat {
  readonly encoding: AccountEncoding;
  readonly slice: { readonly offset: number; readonly length: number } | null;
}

/** The format requested by `encoding` and `dataSlice`. */
export function accountFormatOf(
  config: Partial<Pick<AccountConfig, 'encoding' | 'dataSlice'>> | undefined,
  standard: AccountEncoding = 'binary',
): AccountFormat {
  const { encoding = standard, dataSlice } = config ?? {};
  if (dataSlice === undefined) return { encoding, slice: null };
  return { encoding, slice: { offset: small(dataSlice.offset), length: small(dataSlice.length) } };
}

/** An account in Agave's form; null when it does not exist. Throws -32600 for data above the base58 limit. */
export function accountJson(account: VmAccount | null, format: AccountFormat, context: ParseContext) {
  if (account === null) return null;
  return {
    data: dataJson(account, format, context),
    executable: account.executable,
    lamports: exact(account.lamports),
    owner: account.owner,
    rentEpoch: account.rentEpoch,
    space: account.data.length,
  };
}

/** Like `accountJson`, for a notification, which has its members in another order. It cannot fail: a message replaces data above the base58 limit. */
export function accountNotification(account: VmAccount, format: AccountFormat, context: ParseContext) {
  return {
    lamports: exact(account.lamports),
    data: notifiedData(account, format, context),
    owner: account.owner,
    executable: account.executable,
    rentEpoch: account.rentEpoch,
    space: account.data.length,
  };
}

function notifiedData(account: VmAccount, format: AccountFormat, context: ParseContext): unknown {
  const { encoding, slice } = format;
  const bytes = Math.min(slice?.length ?? Number.POSITIVE_INFINITY, account.data.length - (slice?.offset ?? 0));
  const isText = encoding === 'binary' || encoding === 'base58';
  const shown = isText && bytes > BASE58_LIMIT_BYTES ? null : dataJson(account, format, context);
  // Members of what is parsed are sorted there too.
  if (isPlainObject(shown))
    return { program: shown['program'], parsed: withSortedMembers(shown['parsed']), space: shown['space'] };
  if (shown !== null) return shown;
  const text = 'error: data too large for bs58 encoding';
  return encoding === 'binary' ? text : [text, encoding];
}

function dataJson(account: VmAccount, { encoding, slice }: AccountFormat, context: ParseContext): unknown {
  if (encoding === 'jsonParsed') {
    const parsed = parseAccount(account, context);
    if (parsed !== null) return parsed;
  }
  const data = slice === null ? account.data : account.data.subarray(slice.offset, slice.offset + slice.length);
  if (encoding === 'base64' || encoding === 'jsonParsed') return [base64(data), 'base64'];
  if (encoding === 'base64+zstd') return [base64(zstdFrame(data)), encoding];
  if (data.length > BASE58_LIMIT_BYTES) {
    throw rpcError(
      RPC.invalidRequest,
      `Encoded binary (base 58) data should be less than ${BASE58_LIMIT_BYTES} bytes, please use Base64 encoding.`,
    );
  }
  return encoding === 'binary' ? encode(data) : [encode(data), 'base58'];
}

const MULTISIG_BYTES = 355;

/** Additional facts about the displayed account. */
export interface ParseContext extends TokenContext {
  /** The account's own address. */
  readonly address: string;
}

interface Program {
  readonly name: string;
  readonly parse: (data: Uint8Array, address: string) => AccountInfo | null;
}

/** Programs whose accounts Agave shows parsed, in addition to the token programs. */
const PROGRAMS: Readonly<Record<string, Program>> = {
  [SYSTEM_PROGRAM]: { name: 'nonce', parse: (data) => (data.length === NONCE_BYTES ? nonceInfo(data) : null) },
  [LOOKUP_TABLE_PROGRAM]: { name: 'address-lookup-table', parse: tableInfo },
  [LOADER_V3]: { name: 'bpf-upgradeable-loader', parse: loaderInfo },
  [CONFIG_PROGRAM]: { name: 'config', parse: configInfo },
  [STAKE_PROGRAM]: { name: 'stake', parse: stakeInfo },
  [SYSVAR_OWNER]: { name: 'sysvar', parse: (data, address) => sysvarInfo(address, data) },
  [VOTE_PROGRAM]: { name: 'vote', parse: voteInfo },
};

/** `data` of an account for `jsonParsed`; null when Agave cannot parse it either. */
function parseAccount(account: VmAccount, context: ParseContext) {
  const { data, owner } = account;
  const found = isTokenProgram(owner)
    ? { program: owner === TOKEN_PROGRAM ? 'spl-token' : 'spl-token-2022', parsed: parseTokenData(account, context) }
    : parseNative(owner, data, context.address);
  if (found === null || found.parsed === null) return null;
  return { program: found.program, parsed: found.parsed, space: data.length };
}

function parseTokenData(account: VmAccount, context: ParseContext): AccountInfo | null {
  const { data } = account;
  if (isTokenAccount(account)) return { type: 'account', info: tokenAccountInfo(data, context) };
  if (isMint(account)) return { type: 'mint', info: mintInfo(data) };
  return data.length === MULTISIG_BYTES ? { type: 'multisig', info: multisigInfo(data) } : null;
}

/** Accounts of some programs may contain any bytes: truncated data is shown unparsed. */
function parseNative(owner: string, data: Uint8Array, address: string) {
  const program = Object.hasOwn(PROGRAMS, owner) ? PROGRAMS[owner] : undefined;
  if (program === undefined) return null;
  try {
    return { program: program.name, parsed: program.parse(data, address) };
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** Content of an account of a native program; `info` is absent for types without content. */
export interface AccountInfo {
  readonly type: string;
  readonly info?: unknown;
}

/** Buffers and program data: size of the header before the program. */
const BUFFER_HEAD = 37;
const PROGRAM_DATA_HEAD = 45;
const NO_AUTHORITY = 32;

function loaderInfo(data: Uint8Array): AccountInfo | null {
  const read = byteReader(data);
  switch (read.u32()) {
    case 0:
      return { type: 'uninitialized' };
    case 1: {
      const authority = read.optionalKey();
      return { type: 'buffer', info: { authority, data: rest(data, BUFFER_HEAD, authority) } };
    }
    case 2:
      return { type: 'program', info: { programData: read.key() } };
    case 3: {
      const slot = read.amount();
      const authority = read.optionalKey();
      return { type: 'programData', info: { slot, authority, data: rest(data, PROGRAM_DATA_HEAD, authority) } };
    }
    default:
      return null;
  }
}

function rest(data: Uint8Array, head: number, authority: string | null) {
  return [base64(data.subarray(authority === null ? head - NO_AUTHORITY : head)), 'base64'];
}

function stakeInfo(data: Uint8Array): AccountInfo | null {
  const read = byteReader(data);
  const state = read.u32();
  if (state === 0) return { type: 'uninitialized' };
  if (state === 3) return { type: 'rewardsPool' };
  if (state > 3) return null;
  const meta = {
    rentExemptReserve: read.u64().toString(),
    authorized: { staker: read.key(), withdrawer: read.key() },
    lockup: { unixTimestamp: read.time(), epoch: read.amount(), custodian: read.key() },
  };
  if (state === 1) return { type: 'initialized', info: { meta, stake: null } };
  const delegation = {
    voter: read.key(),
    stake: read.u64().toString(),
    activationEpoch: read.u64().toString(),
    deactivationEpoch: read.u64().toString(),
  };
  // A rate that programs no longer use.
  read.f64();
  return { type: 'delegated', info: { meta, stake: { delegation, creditsObserved: read.amount() } } };
}

/** Vote accounts of every version, shown as the newest one. */
function voteInfo(data: Uint8Array, address: string): AccountInfo | null {
  const read = byteReader(data);
  const version = read.u32();
  if (version !== 1 && version !== 2 && version !== 3) return null;
  const nodePubkey = read.key();
  const authorizedWithdrawer = read.key();
  const isNewest = version === 3;
  const head = isNewest ? newestHead(read) : olderHead(read, address, nodePubkey);
  const votes = read.list(Number(read.u64()), () => ({
    latency: version === 1 ? 0 : read.u8(),
    slot: read.amount(),
    confirmationCount: read.u32(),
  }));
  const rootSlot = read.option(read.amount);
  const authorizedVoters = read.list(Number(read.u64()), () => ({
    epoch: read.amount(),
    authorizedVoter: read.key(),
  }));
  // 32 previous voters with their epochs, an index into that ring and an empty flag: no longer stored.
  if (!isNewest) read.raw(32 * 48 + 9);
  const epochCredits = read.list(Number(read.u64()), () => ({
    epoch: read.amount(),
    credits: read.u64().toString(),
    previousCredits: read.u64().toString(),
  }));
  const lastTimestamp = { slot: read.amount(), timestamp: read.time() };
  return {
    type: 'vote',
    info: {
      nodePubkey,
      authorizedWithdrawer,
      commission: Math.min(255, Math.ceil(head.inflationRewardsCommissionBps / 100)),
      votes,
      rootSlot,
      authorizedVoters,
      priorVoters: [],
      epochCredits,
      lastTimestamp,
      ...head,
    },
  };
}

function newestHead(read: LayoutReader) {
  return {
    inflationRewardsCollector: read.key(),
    blockRevenueCollector: read.key(),
    inflationRewardsCommissionBps: read.u16(),
    blockRevenueCommissionBps: read.u16(),
    pendingDelegatorRewards: read.u64().toString(),
    blsPubkeyCompressed: read.option(() => encode(read.raw(48))),
  };
}

/** Collectors for versions without them: the account itself, and its node. */
function olderHead(read: LayoutReader, address: string, nodePubkey: string) {
  return {
    inflationRewardsCollector: address,
    blockRevenueCollector: nodePubkey,
    inflationRewardsCommissionBps: read.u8() * 100,
    blockRevenueCommissionBps: 10_000,
    pendingDelegatorRewards: '0',
    blsPubkeyCompressed: null,
  };
}

/** Validator info: JSON text after a list of keys. */
function configInfo(data: Uint8Array): AccountInfo | null {
  const read = byteReader(data);
  const keys = read.list(read.u8(), () => ({ pubkey: read.key(), signer: read.bool() }));
  if (keys[0]?.pubkey !== VALIDATOR_INFO) return null;
  try {
    return { type: 'validatorInfo', info: { keys, configData: JSON.parse(read.text()) as unknown } };
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function nonceInfo(data: Uint8Array): AccountInfo {
  const read = byteReader(data);
  read.u32();
  if (read.u32() !== 1) return { type: 'uninitialized' };
  return {
    type: 'initialized',
    info: {
      authority: read.key(),
      blockhash: read.key(),
      feeCalculator: { lamportsPerSignature: read.u64().toString() },
    },
  };
}

/** Address lookup tables: a head of 56 bytes, then the addresses. */
function tableInfo(data: Uint8Array): AccountInfo | null {
  const read = byteReader(data);
  const state = read.u32();
  if (state === 0) return { type: 'uninitialized' };
  if (state !== 1) return null;
  const deactivationSlot = read.u64().toString();
  const lastExtendedSlot = read.u64().toString();
  const lastExtendedSlotStartIndex = read.u8();
  const authority = read.optionalKey();
  const addresses: string[] = [];
  for (let at = 56; at + 32 <= data.length; at += 32) addresses.push(encode32(data, at));
  return {
    type: 'lookupTable',
    info: {
      addresses,
      ...(authority === null ? {} : { authority }),
      deactivationSlot,
      lastExtendedSlot,
      lastExtendedSlotStartIndex,
    },
  };
}

/** Number of slots covered by the history sysvar. */
const HISTORY_SLOTS = 1024 * 1024;

interface Sysvar {
  readonly type: string;
  readonly info: (read: LayoutReader) => unknown;
}

const fee = (read: LayoutReader) => ({ lamportsPerSignature: read.u64().toString() });

/** Little-endian number of 16 bytes. */
function u128(read: LayoutReader): string {
  const low = read.u64();
  return ((read.u64() << 64n) | low).toString();
}

function slotHistory(read: LayoutReader) {
  read.u8();
  const words = read.raw(Number(read.u64()) * 8);
  const bits = Number(read.u64());
  const set = (at: number) => at < bits && ((words[at >> 3] ?? 0) & (1 << (at & 7))) !== 0;
  return {
    bits: Array.from({ length: HISTORY_SLOTS }, (_, at) => (set(at) ? '1' : '0')).join(''),
    nextSlot: read.amount(),
  };
}

const SYSVARS: Readonly<Record<string, Sysvar>> = {
  [CLOCK_SYSVAR]: {
    type: 'clock',
    info: (read) => ({
      slot: read.amount(),
      epochStartTimestamp: read.time(),
      epoch: read.amount(),
      leaderScheduleEpoch: read.amount(),
      unixTimestamp: read.time(),
    }),
  },
  [EPOCH_SCHEDULE_SYSVAR]: {
    type: 'epochSchedule',
    info: (read) => ({
      slotsPerEpoch: read.amount(),
      leaderScheduleSlotOffset: read.amount(),
      warmup: read.bool(),
      firstNormalEpoch: read.amount(),
      firstNormalSlot: read.amount(),
    }),
  },
  [FEES_SYSVAR]: { type: 'fees', info: (read) => ({ feeCalculator: fee(read) }) },
  [RECENT_BLOCKHASHES_SYSVAR]: {
    type: 'recentBlockhashes',
    info: (read) => read.list(Number(read.u64()), () => ({ blockhash: read.key(), feeCalculator: fee(read) })),
  },
  [RENT_SYSVAR]: {
    type: 'rent',
    info: (read) => ({ lamportsPerByte: read.u64().toString() }),
  },
  [SLOT_HASHES_SYSVAR]: {
    type: 'slotHashes',
    info: (read) => read.list(Number(read.u64()), () => ({ slot: read.amount(), hash: read.key() })),
  },
  [SLOT_HISTORY_SYSVAR]: { type: 'slotHistory', info: slotHistory },
  [STAKE_HISTORY_SYSVAR]: {
    type: 'stakeHistory',
    info: (read) =>
      read.list(Number(read.u64()), () => ({
        epoch: read.amount(),
        stakeHistory: { effective: read.amount(), activating: read.amount(), deactivating: read.amount() },
      })),
  },
  [LAST_RESTART_SLOT_SYSVAR]: {
    type: 'lastRestartSlot',
    info: (read) => ({ lastRestartSlot: read.amount() }),
  },
  [EPOCH_REWARDS_SYSVAR]: {
    type: 'epochRewards',
    info: (read) => ({
      distributionStartingBlockHeight: read.amount(),
      numPartitions: read.amount(),
      parentBlockhash: read.key(),
      totalPoints: u128(read),
      totalRewards: read.u64().toString(),
      distributedRewards: read.u64().toString(),
      active: read.bool(),
    }),
  },
};

/** Null for an address that is not a sysvar. Throws RangeError when the data is too short. */
function sysvarInfo(address: string, data: Uint8Array) {
  const sysvar = Object.hasOwn(SYSVARS, address) ? SYSVARS[address] : undefined;
  return sysvar === undefined ? null : { type: sysvar.type, info: sysvar.info(byteReader(data)) };
}
