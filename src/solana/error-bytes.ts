import { type ByteReader, createByteReader, LayoutError } from '../lib/bytes.ts';

/**
 * `meta.err` of a transaction in the form of the runtime: bincode of the enumeration `TransactionError`, whose variants are numbered in
 * this order.
 */
const TRANSACTION_ERRORS: readonly string[] = [
  'AccountInUse',
  'AccountLoadedTwice',
  'AccountNotFound',
  'ProgramAccountNotFound',
  'InsufficientFundsForFee',
  'InvalidAccountForFee',
  'AlreadyProcessed',
  'BlockhashNotFound',
  'InstructionError',
  'CallChainTooDeep',
  'MissingSignatureForFee',
  'InvalidAccountIndex',
  'SignatureFailure',
  'InvalidProgramForExecution',
  'SanitizeFailure',
  'ClusterMaintenance',
  'AccountBorrowOutstanding',
  'WouldExceedMaxBlockCostLimit',
  'UnsupportedVersion',
  'InvalidWritableAccount',
  'WouldExceedMaxAccountCostLimit',
  'WouldExceedAccountDataBlockLimit',
  'TooManyAccountLocks',
  'AddressLookupTableNotFound',
  'InvalidAddressLookupTableOwner',
  'InvalidAddressLookupTableData',
  'InvalidAddressLookupTableIndex',
  'InvalidRentPayingAccount',
  'WouldExceedMaxVoteCostLimit',
  'WouldExceedAccountDataTotalLimit',
  'DuplicateInstruction',
  'InsufficientFundsForRent',
  'MaxLoadedAccountsDataSizeExceeded',
  'InvalidLoadedAccountsDataSizeLimit',
  'ResanitizationNeeded',
  'ProgramExecutionTemporarilyRestricted',
  'UnbalancedTransaction',
  'ProgramCacheHitMaxLimit',
  'CommitCancelled',
  'BailOut',
];

const INSTRUCTION_ERRORS: readonly string[] = [
  'GenericError',
  'InvalidArgument',
  'InvalidInstructionData',
  'InvalidAccountData',
  'AccountDataTooSmall',
  'InsufficientFunds',
  'IncorrectProgramId',
  'MissingRequiredSignature',
  'AccountAlreadyInitialized',
  'UninitializedAccount',
  'UnbalancedInstruction',
  'ModifiedProgramId',
  'ExternalAccountLamportSpend',
  'ExternalAccountDataModified',
  'ReadonlyLamportChange',
  'ReadonlyDataModified',
  'DuplicateAccountIndex',
  'ExecutableModified',
  'RentEpochModified',
  'NotEnoughAccountKeys',
  'AccountDataSizeChanged',
  'AccountNotExecutable',
  'AccountBorrowFailed',
  'AccountBorrowOutstanding',
  'DuplicateAccountOutOfSync',
  'Custom',
  'InvalidError',
  'ExecutableDataModified',
  'ExecutableLamportChange',
  'ExecutableAccountNotRentExempt',
  'UnsupportedProgramId',
  'CallDepth',
  'MissingAccount',
  'ReentrancyNotAllowed',
  'MaxSeedLengthExceeded',
  'InvalidSeeds',
  'InvalidRealloc',
  'ComputationalBudgetExceeded',
  'PrivilegeEscalation',
  'ProgramEnvironmentSetupFailure',
  'ProgramFailedToComplete',
  'ProgramFailedToCompile',
  'Immutable',
  'IncorrectAuthority',
  'BorshIoError',
  'AccountNotRentExempt',
  'InvalidAccountOwner',
  'ArithmeticOverflow',
  'UnsupportedSysvar',
  'IllegalOwner',
  'MaxAccountsDataAllocationsExceeded',
  'MaxAccountsExceeded',
  'MaxInstructionTraceLengthExceeded',
  'BuiltinProgramsMustConsumeComputeUnits',
  'BailOut',
];

/** The variants of each enumeration, for tests. */
export const ERROR_NAMES = { transaction: TRANSACTION_ERRORS, instruction: INSTRUCTION_ERRORS } as const;

const EMPTY = Buffer.alloc(0);

/** Empty when the error is not known here: the transaction then counts as failed, with an error that nobody can read. */
export function errorBytes(error: unknown): Buffer {
  const [name, value] = variantOf(error);
  const number = TRANSACTION_ERRORS.indexOf(name);
  if (number < 0) return EMPTY;
  if (name === 'InstructionError') {
    if (!Array.isArray(value) || !isU8(value[0])) return EMPTY;
    const inner = instructionErrorBytes(value[1]);
    return inner === null ? EMPTY : Buffer.concat([u32(number), Buffer.of(value[0]), inner]);
  }
  if (value === undefined) return u32(number);
  const index = typeof value === 'object' ? (value as { account_index?: unknown } | null)?.account_index : value;
  return isU8(index) ? Buffer.concat([u32(number), Buffer.of(index)]) : EMPTY;
}

/** The reverse of `errorBytes`. Throws LayoutError when the bytes are not exactly one known error. */
export function readError(bytes: Uint8Array): unknown {
  const reader = createByteReader(bytes);
  const name = nameIn(TRANSACTION_ERRORS, reader.u32());
  let error: unknown = name;
  if (name === 'InstructionError') error = { [name]: [reader.u8(), readInstructionError(reader)] };
  else if (name === 'DuplicateInstruction') error = { [name]: reader.u8() };
  else if (name === 'InsufficientFundsForRent' || name === 'ProgramExecutionTemporarilyRestricted')
    error = { [name]: { account_index: reader.u8() } };
  if (reader.left > 0) throw new LayoutError('bytes behind an error', reader.offset);
  return error;
}

function readInstructionError(reader: ByteReader): unknown {
  const name = nameIn(INSTRUCTION_ERRORS, reader.u32());
  if (name === 'Custom') return { Custom: reader.u32() };
  // Older runtimes said what was wrong.
  if (name !== 'BorshIoError' || reader.left === 0) return name;
  return { BorshIoError: Buffer.from(reader.bytes(reader.count())).toString() };
}

function nameIn(names: readonly string[], number: number): string {
  const name = names[number];
  if (name === undefined) throw new LayoutError(`error ${number} is unknown`);
  return name;
}

function instructionErrorBytes(error: unknown): Buffer | null {
  const [name, value] = variantOf(error);
  const number = INSTRUCTION_ERRORS.indexOf(name);
  if (number < 0) return null;
  if (name !== 'Custom') return u32(number);
  return isU32(value) ? Buffer.concat([u32(number), u32(value)]) : null;
}

/** A variant without data is a text, one with data an object of one member. */
function variantOf(error: unknown): readonly [name: string, value: unknown] {
  if (typeof error === 'string') return [error, undefined];
  const [first] = typeof error === 'object' && error !== null ? Object.entries(error) : [];
  return first ?? ['', undefined];
}

const isU8 = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < 256;

const isU32 = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32;

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
