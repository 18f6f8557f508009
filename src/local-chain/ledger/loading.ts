import { createHash } from 'node:crypto';
import { decode32 } from '../../lib/base58.ts';
import type { TransactionError } from '../vm/errors.ts';
import type { MessageInstruction, MessageParts } from '../vm/transaction.ts';
import type { VmAccount } from '../vm/vm.ts';
import type { Accounts } from './accounts.ts';
import { view } from './token-state.ts';

type Lookup = (key: string) => VmAccount | null;

/** A transaction whose programs or accounts cannot be loaded lands all the same: it costs its fee and does nothing. */
const LOADING_ERRORS = new Set([
  'ProgramAccountNotFound',
  'InvalidProgramForExecution',
  'MaxLoadedAccountsDataSizeExceeded',
]);

/** Errors of a transaction that no block may hold, whoever sends it: a node refuses the call. */
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

/** The engine does not tell a program that is absent from an account that is none. */
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

/** Takes the fee of a transaction that was not run. False where the payer cannot pay it. */
export function payFee(accounts: Accounts, message: MessageParts): boolean {
  const key = message.staticKeys[0]!;
  const payer = accounts.get(key);
  const fee = BigInt(feeOf(message));
  if (payer === null || payer.lamports < fee) return false;
  accounts.set(key, { ...payer, lamports: payer.lamports - fee });
  return true;
}

/** Moves the nonce of a failed transaction on: whoever sends it again does not pay again. */
export function advanceNonce(accounts: Accounts, nonceKey: string, blockhash: string): void {
  const account = accounts.get(nonceKey);
  if (account === null) return;
  const data = Uint8Array.from(account.data);
  data.set(createHash('sha256').update('DURABLE_NONCE').update(decode32(blockhash)!).digest(), 40);
  accounts.set(nonceKey, { ...account, data });
}

const COMPUTE_BUDGET = 'ComputeBudget111111111111111111111111111111';
/** Their first data byte counts signatures that are checked, and paid, like those of the transaction. */
const SIGNATURE_CHECKERS = new Set([
  'Ed25519SigVerify111111111111111111111111111',
  'KeccakSecp256k11111111111111111111111111111',
  'Secp256r1SigVerify1111111111111111111111111',
]);
const BUILTINS = new Set([
  '11111111111111111111111111111111',
  COMPUTE_BUDGET,
  'Vote111111111111111111111111111111111111111',
  'BPFLoaderUpgradeab1e11111111111111111111111',
  'BPFLoader2111111111111111111111111111111111',
  'BPFLoader1111111111111111111111111111111111',
  'LoaderV411111111111111111111111111111111111',
  ...SIGNATURE_CHECKERS,
]);
const LAMPORTS_PER_SIGNATURE = 5000n;
const MAX_UNITS = 1_400_000n;
const BUILTIN_UNITS = 3_000n;
const PROGRAM_UNITS = 200_000n;
const MICRO = 1_000_000n;

/** Lamports that a message will cost: its signatures, those of precompiles, and the priority fee. */
export function feeOf(message: MessageParts): number {
  let signatures = BigInt(message.header.numRequiredSignatures);
  for (const item of message.instructions) {
    if (SIGNATURE_CHECKERS.has(programOf(message, item))) signatures += BigInt(item.data[0] ?? 0);
  }
  return Number(signatures * LAMPORTS_PER_SIGNATURE + priorityFeeOf(message));
}

/** Version 1 names the whole fee in its header; ComputeBudget instructions do nothing there. */
function priorityFeeOf(message: MessageParts): bigint {
  if (message.version === 1) return message.config?.priorityFee ?? 0n;
  return (unitLimitOf(message) * unitPriceOf(message) + MICRO - 1n) / MICRO;
}

/** Micro-lamports per compute unit that a message offers. */
export function unitPriceOf(message: MessageParts): bigint {
  if (message.version === 1) {
    const limit = BigInt(message.config?.computeUnitLimit ?? 0);
    return limit === 0n ? 0n : (priorityFeeOf(message) * MICRO) / limit;
  }
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

function defaultUnits(message: MessageParts, item: MessageInstruction): bigint {
  return BUILTINS.has(programOf(message, item)) ? BUILTIN_UNITS : PROGRAM_UNITS;
}

function budgetInstruction(message: MessageParts, tag: number, bytes: number): MessageInstruction | undefined {
  return message.instructions.find(
    (item) => programOf(message, item) === COMPUTE_BUDGET && item.data[0] === tag && item.data.length >= bytes,
  );
}

function programOf(message: MessageParts, item: MessageInstruction): string {
  return message.staticKeys[item.programIdIndex] ?? '';
}
