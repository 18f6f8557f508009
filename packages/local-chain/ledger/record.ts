import { createHash } from 'node:crypto';
import { decode32, encode, encode32 } from '../../../src/lib/base58.ts';
import { base64, exact } from '../../../src/solana/json-parsed/layout.ts';
import {
  COMPUTE_BUDGET_PROGRAM,
  ED25519_PROGRAM,
  LOADER_V1,
  LOADER_V2,
  LOADER_V3,
  LOADER_V4,
  LOOKUP_TABLE_PROGRAM,
  RECENT_BLOCKHASHES_SYSVAR,
  SECP256K1_PROGRAM,
  SECP256R1_PROGRAM,
  SYSTEM_PROGRAM,
  VOTE_PROGRAM,
} from '../../../src/solana/programs.ts';
import { isStaticWritable, memoOfWire } from '../../../src/solana/show-transaction.ts';
import type { ChainTransaction, MessageInstruction, MessageParts } from '../vm/transaction.ts';
import type { TransactionError, VmAccount, VmOutcome } from '../vm/vm.ts';
import { type Accounts, type TokenState, uiAmountOf, view } from './accounts.ts';
import type { TokenBalanceEntry, TransactionMeta, UnplacedRecord } from './state.ts';

/** Balances of all keys of a transaction at one moment. */
export interface BalanceSheet {
  readonly lamports: readonly bigint[];
  readonly tokens: readonly (TokenState | null)[];
}

/** Reads the sheet; `after` the run only accounts that may have been written are read again. */
export function readBalances(accounts: Accounts, keys: ResolvedKeys, after: boolean): BalanceSheet {
  return {
    lamports: keys.all.map((key) => accounts.balance(key)),
    tokens: keys.all.map((key, index) => accounts.token(key, after && keys.writable[index] === true)),
  };
}

interface RecordInput {
  readonly transaction: ChainTransaction;
  readonly keys: ResolvedKeys;
  readonly slot: number;
  readonly unixSeconds: number;
  readonly outcome: VmOutcome;
  readonly before: BalanceSheet;
  readonly after: BalanceSheet;
}

export function makeRecord(input: RecordInput, accounts: Accounts): UnplacedRecord {
  const { transaction, keys, slot } = input;
  return {
    signature: transaction.signatures[0]!,
    slot,
    transaction,
    keys: keys.all,
    meta: makeMeta(input, accounts),
    memo: memoOfWire(transaction, keys.all),
    recorded: false,
  };
}

function makeMeta(input: RecordInput, accounts: Accounts): TransactionMeta {
  const { transaction, keys, outcome, before, after, unixSeconds } = input;
  const { err, returnData } = outcome;
  const wasRun = err === null || !isLoadingError(err);
  // Members in alphabetical order, as nodes write them.
  return {
    computeUnitsConsumed: outcome.computeUnits,
    costUnits: costOf(
      transaction,
      keys.writable.filter(Boolean).length,
      outcome.computeUnits,
      loadedBytes(accounts, transaction, keys.all),
    ),
    err,
    fee: Number(chargedFee(keys.all, before.lamports, after.lamports)),
    innerInstructions: wasRun ? innerJson(outcome) : null,
    loadedAddresses: keys.loaded,
    logMessages: wasRun ? outcome.logs : null,
    postBalances: after.lamports.map(exact),
    postTokenBalances: stored(tokenBalances(after.tokens, accounts, unixSeconds)),
    preBalances: before.lamports.map(exact),
    preTokenBalances: stored(tokenBalances(before.tokens, accounts, unixSeconds)),
    ...(returnData === null
      ? {}
      : { returnData: { data: [base64(returnData.data), 'base64'] as const, programId: returnData.programId } }),
    rewards: [],
    status: err === null ? { Ok: null } : { Err: err },
  };
}

export function innerJson(outcome: VmOutcome) {
  return outcome.inner.flatMap((group, index) =>
    group.length === 0 ? [] : [{ index, instructions: group.map((item) => ({ ...item, data: encode(item.data) })) }],
  );
}

/** The engine conserves lamports apart from the fee, so the fee is the difference. */
function chargedFee(keys: readonly string[], before: readonly bigint[], after: readonly bigint[]): bigint {
  const seen = new Set<string>();
  let fee = 0n;
  keys.forEach((key, index) => {
    if (seen.has(key)) return;
    seen.add(key);
    fee += before[index]! - after[index]!;
  });
  return fee;
}

export function tokenBalances(
  states: readonly (TokenState | null)[],
  accounts: Accounts,
  unixSeconds: number,
): TokenBalanceEntry[] {
  return states.flatMap((state, accountIndex) => {
    if (state === null) return [];
    const { mint, owner, programId, amount } = state;
    return [
      { accountIndex, mint, owner, programId, uiTokenAmount: uiAmountOf(amount, accounts.get(mint), unixSeconds) },
    ];
  });
}

/** Agave does not store whether an amount of 0 was present. */
function stored(balances: readonly TokenBalanceEntry[]): TokenBalanceEntry[] {
  return balances.map((balance) => {
    const { uiTokenAmount } = balance;
    return uiTokenAmount.uiAmount === 0 ? { ...balance, uiTokenAmount: { ...uiTokenAmount, uiAmount: null } } : balance;
  });
}

const SIGNATURE_UNITS = 720;
const WRITE_LOCK_UNITS = 300;
const DATA_BYTES_PER_UNIT = 4;
const PAGE_BYTES = 32 * 1024;
const PAGE_UNITS = 8;
/** Overhead that each loaded account counts, in addition to its data. */
const ACCOUNT_BYTES = 64;
/** What a transaction may load at most, and the default of versions before 1. */
const MAX_LOADED_BYTES = 64 * 1024 * 1024;
const TABLE_BYTES = 8_248;
/** The sysvar always has room for 150 entries on a node; that of the engine has those that are used. */
const RECENT_BLOCKHASHES_BYTES = 6_008;
/** Programs that check signatures, and what one costs; their first data byte counts them. */
const CHECKER_UNITS: Readonly<Record<string, number>> = {
  [ED25519_PROGRAM]: 2_400,
  [SECP256K1_PROGRAM]: 6_690,
  [SECP256R1_PROGRAM]: 4_800,
};

/** Cost of a transaction toward a block's limit. */
function costOf(message: MessageParts, writable: number, computeUnits: number, loadedBytes: number): number {
  let units = SIGNATURE_UNITS * message.header.numRequiredSignatures + WRITE_LOCK_UNITS * writable + computeUnits;
  let dataBytes = 0;
  for (const { programIdIndex, data } of message.instructions) {
    dataBytes += data.length;
    units += (CHECKER_UNITS[message.staticKeys[programIdIndex] ?? ''] ?? 0) * (data[0] ?? 0);
  }
  return units + Math.floor(dataBytes / DATA_BYTES_PER_UNIT) + PAGE_UNITS * Math.ceil(loadedBytes / PAGE_BYTES);
}

/**
 * Bytes of all accounts that a transaction loads, including the data of upgradeable programs and each lookup table; at most what it allows itself,
 * where loading ends.
 */
export function loadedBytes(accounts: Accounts, message: MessageParts, keys: readonly string[]): number {
  const counted = new Set<string>();
  let total = TABLE_BYTES * message.lookups.length;
  const count = (key: string): void => {
    if (counted.has(key)) return;
    counted.add(key);
    const size = key === RECENT_BLOCKHASHES_SYSVAR ? RECENT_BLOCKHASHES_BYTES : accounts.size(key);
    if (size !== null) total += ACCOUNT_BYTES + size;
  };
  for (const key of keys) count(key);
  for (const { programIdIndex } of message.instructions) {
    const program = accounts.small(keys[programIdIndex] ?? '');
    if (program?.owner === LOADER_V3 && program.data.length === 36) count(encode32(program.data, 4));
  }
  return Math.min(total, loadedBytesLimit(message));
}

const TABLE_HEADER_BYTES = 56;
/** In the header: the slot of the last extension, and the index of its first entry. */
const LAST_EXTENDED_AT = 12;
const FIRST_NEW_ENTRY_AT = 20;

export interface ResolvedKeys {
  /** Static, loaded writable, loaded readonly. */
  readonly all: readonly string[];
  readonly writable: readonly boolean[];
  readonly loaded: { readonly writable: readonly string[]; readonly readonly: readonly string[] };
}

/**
 * All keys of a message in the order used by instructions. Omits entries missing in the tables: the engine
 * refuses such a transaction, so the result is not used.
 */
export function resolveKeys(message: MessageParts, account: (key: string) => VmAccount | null): ResolvedKeys {
  const loaded = { writable: [] as string[], readonly: [] as string[] };
  for (const lookup of message.lookups) {
    const table = account(lookup.accountKey);
    if (table === null || table.owner !== LOOKUP_TABLE_PROGRAM) continue;
    loaded.writable.push(...entries(table.data, lookup.writableIndexes));
    loaded.readonly.push(...entries(table.data, lookup.readonlyIndexes));
  }
  return {
    all: [...message.staticKeys, ...loaded.writable, ...loaded.readonly],
    writable: [
      ...message.staticKeys.map((_, index) => isStaticWritable(message, index)),
      ...loaded.writable.map(() => true),
      ...loaded.readonly.map(() => false),
    ],
    loaded,
  };
}

/** Whether all entries that a message loads were in its tables before `slot`: those of an extension wait until its slot has passed. */
export function hasActiveEntries(
  message: MessageParts,
  account: (key: string) => VmAccount | null,
  slot: number,
): boolean {
  return message.lookups.every(({ accountKey, writableIndexes, readonlyIndexes }) => {
    const table = account(accountKey);
    if (table === null || table.owner !== LOOKUP_TABLE_PROGRAM || table.data.length < TABLE_HEADER_BYTES) return true;
    const header = view(table.data);
    if (BigInt(slot) > header.getBigUint64(LAST_EXTENDED_AT, true)) return true;
    const active = table.data[FIRST_NEW_ENTRY_AT]!;
    return [...writableIndexes, ...readonlyIndexes].every((index) => index < active);
  });
}

function entries(data: Uint8Array, indexes: readonly number[]): string[] {
  const found: string[] = [];
  for (const index of indexes) {
    const at = TABLE_HEADER_BYTES + 32 * index;
    if (at + 32 <= data.length) found.push(encode32(data, at));
  }
  return found;
}

type Lookup = (key: string) => VmAccount | null;

/** A transaction whose programs or accounts cannot be loaded still lands: it costs its fee and does nothing. */
const LOADING_ERRORS = new Set([
  'ProgramAccountNotFound',
  'InvalidProgramForExecution',
  'MaxLoadedAccountsDataSizeExceeded',
]);

/** Errors of a transaction that no block may contain: Agave refuses the call. */
const SANITIZE_ERRORS = new Set([
  'SanitizeFailure',
  'UnsupportedVersion',
  'AccountLoadedTwice',
  'InvalidAccountIndex',
  'MissingSignatureForFee',
  'AddressLookupTableNotFound',
  'InvalidAddressLookupTableOwner',
  'InvalidAddressLookupTableData',
  'InvalidAddressLookupTableIndex',
  'InvalidLoadedAccountsDataSizeLimit',
]);

export function isLoadingError(err: TransactionError): boolean {
  return typeof err === 'string' && LOADING_ERRORS.has(err);
}

export function isSanitizeError(err: TransactionError): boolean {
  return typeof err === 'string' ? SANITIZE_ERRORS.has(err) : err['DuplicateInstruction'] !== undefined;
}

/** The engine does not distinguish a missing program from an account that is not a program. */
export function nodeError(
  err: TransactionError | null,
  message: MessageParts,
  keys: readonly string[],
  account: Lookup,
): TransactionError | null {
  if (err !== 'InvalidProgramForExecution') return err;
  for (const { programIdIndex } of message.instructions) {
    const program = account(keys[programIdIndex] ?? '');
    if (program === null) return 'ProgramAccountNotFound';
    if (!program.executable) break;
  }
  return err;
}

/** Charges the fee of a transaction that was not run. False when the payer cannot pay it. */
export function payFee(accounts: Accounts, message: MessageParts): boolean {
  const key = message.staticKeys[0]!;
  const payer = accounts.get(key);
  const fee = BigInt(feeOf(message));
  if (payer === null || payer.lamports < fee) return false;
  accounts.set(key, { ...payer, lamports: payer.lamports - fee });
  return true;
}

/** Advances the nonce of a failed transaction, so that sending it again does not cost again. */
export function advanceNonce(accounts: Accounts, nonceKey: string, blockhash: string): void {
  const account = accounts.get(nonceKey);
  if (account === null) return;
  const data = Uint8Array.from(account.data);
  data.set(createHash('sha256').update('DURABLE_NONCE').update(decode32(blockhash)!).digest(), 40);
  accounts.set(nonceKey, { ...account, data });
}

/** Their first data byte counts signatures that are checked, and paid, like those of the transaction. */
const SIGNATURE_CHECKERS = new Set([ED25519_PROGRAM, SECP256K1_PROGRAM, SECP256R1_PROGRAM]);
const BUILTINS = new Set([
  SYSTEM_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  VOTE_PROGRAM,
  LOADER_V3,
  LOADER_V2,
  LOADER_V1,
  LOADER_V4,
  ...SIGNATURE_CHECKERS,
]);
export const LAMPORTS_PER_SIGNATURE = 5000n;
const MAX_UNITS = 1_400_000n;
const BUILTIN_UNITS = 3_000n;
const PROGRAM_UNITS = 200_000n;
const MICRO = 1_000_000n;

/** Fee of a message in lamports: its signatures, those of precompiles, and the priority fee. */
export function feeOf(message: MessageParts): number {
  let signatures = BigInt(message.header.numRequiredSignatures);
  for (const item of message.instructions) {
    if (SIGNATURE_CHECKERS.has(programOf(message, item))) signatures += BigInt(item.data[0] ?? 0);
  }
  return Number(signatures * LAMPORTS_PER_SIGNATURE + priorityFeeOf(message));
}

/** Version 1 has the total fee in its header; ComputeBudget instructions have no effect there. */
function priorityFeeOf(message: MessageParts): bigint {
  if (message.version === 1) return message.config?.priorityFee ?? 0n;
  return (unitLimitOf(message) * unitPriceOf(message) + MICRO - 1n) / MICRO;
}

/** Micro-lamports per compute unit, worked back from the whole lamports that a message pays, as nodes do for their statistics. */
export function paidUnitPrice(message: MessageParts): bigint {
  const limit = message.version === 1 ? BigInt(message.config?.computeUnitLimit ?? 0) : unitLimitOf(message);
  return limit === 0n ? 0n : (priorityFeeOf(message) * MICRO) / limit;
}

function unitPriceOf(message: MessageParts): bigint {
  const item = budgetInstruction(message, 3, 9);
  return item === undefined ? 0n : view(item.data).getBigUint64(1, true);
}

function unitLimitOf(message: MessageParts): bigint {
  const item = budgetInstruction(message, 2, 5);
  const asked =
    item === undefined
      ? message.instructions.reduce((sum, each) => sum + defaultUnits(message, each), 0n)
      : BigInt(view(item.data).getUint32(1, true));
  return asked < MAX_UNITS ? asked : MAX_UNITS;
}

function loadedBytesLimit(message: MessageParts): number {
  if (message.version === 1) return message.config?.loadedAccountsDataSizeLimit ?? 0;
  const item = budgetInstruction(message, 4, 5);
  return item === undefined ? MAX_LOADED_BYTES : Math.min(view(item.data).getUint32(1, true), MAX_LOADED_BYTES);
}

function defaultUnits(message: MessageParts, item: MessageInstruction): bigint {
  return BUILTINS.has(programOf(message, item)) ? BUILTIN_UNITS : PROGRAM_UNITS;
}

function budgetInstruction(message: MessageParts, tag: number, bytes: number): MessageInstruction | undefined {
  return message.instructions.find(
    (item) => programOf(message, item) === COMPUTE_BUDGET_PROGRAM && item.data[0] === tag && item.data.length >= bytes,
  );
}

function programOf(message: MessageParts, item: MessageInstruction): string {
  return message.staticKeys[item.programIdIndex] ?? '';
}
