import { CodedError } from '../../lib/coded-error.ts';

/** A transaction error as a Solana node writes it in JSON. */
export type TransactionError = string | Readonly<Record<string, unknown>>;

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

/** Names of the fieldless errors by number; a test compares both lists with the engine's own. */
export const TRANSACTION_ERRORS = words(`
  AccountInUse AccountLoadedTwice AccountNotFound ProgramAccountNotFound InsufficientFundsForFee InvalidAccountForFee
  AlreadyProcessed BlockhashNotFound CallChainTooDeep MissingSignatureForFee InvalidAccountIndex SignatureFailure
  InvalidProgramForExecution SanitizeFailure ClusterMaintenance AccountBorrowOutstanding WouldExceedMaxBlockCostLimit
  UnsupportedVersion InvalidWritableAccount WouldExceedMaxAccountCostLimit WouldExceedAccountDataBlockLimit
  TooManyAccountLocks AddressLookupTableNotFound InvalidAddressLookupTableOwner InvalidAddressLookupTableData
  InvalidAddressLookupTableIndex InvalidRentPayingAccount WouldExceedMaxVoteCostLimit WouldExceedAccountDataTotalLimit
  MaxLoadedAccountsDataSizeExceeded ResanitizationNeeded InvalidLoadedAccountsDataSizeLimit UnbalancedTransaction
  ProgramCacheHitMaxLimit CommitCancelled`);

export const INSTRUCTION_ERRORS = words(`
  GenericError InvalidArgument InvalidInstructionData InvalidAccountData AccountDataTooSmall InsufficientFunds
  IncorrectProgramId MissingRequiredSignature AccountAlreadyInitialized UninitializedAccount UnbalancedInstruction
  ModifiedProgramId ExternalAccountLamportSpend ExternalAccountDataModified ReadonlyLamportChange ReadonlyDataModified
  DuplicateAccountIndex ExecutableModified RentEpochModified NotEnoughAccountKeys AccountDataSizeChanged
  AccountNotExecutable AccountBorrowFailed AccountBorrowOutstanding DuplicateAccountOutOfSync InvalidError
  ExecutableDataModified ExecutableLamportChange ExecutableAccountNotRentExempt UnsupportedProgramId CallDepth
  MissingAccount ReentrancyNotAllowed MaxSeedLengthExceeded InvalidSeeds InvalidRealloc ComputationalBudgetExceeded
  PrivilegeEscalation ProgramEnvironmentSetupFailure ProgramFailedToComplete ProgramFailedToCompile Immutable
  IncorrectAuthority AccountNotRentExempt InvalidAccountOwner ArithmeticOverflow UnsupportedSysvar IllegalOwner
  MaxAccountsDataAllocationsExceeded MaxAccountsExceeded MaxInstructionTraceLengthExceeded
  BuiltinProgramsMustConsumeComputeUnits BorshIoError`);

/** Turns the engine's error into the node's JSON. Fieldless errors become strings; those transactions do not land. */
export function toTransactionError(error: unknown): TransactionError {
  if (typeof error === 'number') return name(TRANSACTION_ERRORS, error);
  const native = error as { index?: number; accountIndex?: number; err?: () => unknown; constructor: { name: string } };
  const kind = native.constructor.name;
  if (typeof native.err === 'function') return { InstructionError: [native.index, instructionError(native.err())] };
  if (kind === 'TransactionErrorDuplicateInstruction') return { DuplicateInstruction: native.index };
  if (kind === 'TransactionErrorInsufficientFundsForRent')
    return { InsufficientFundsForRent: { account_index: native.accountIndex } };
  if (kind === 'TransactionErrorProgramExecutionTemporarilyRestricted')
    return { ProgramExecutionTemporarilyRestricted: { account_index: native.accountIndex } };
  throw new CodedError('LOCAL_ENGINE_ANSWER', `the engine gave an error of unknown kind: ${kind}`);
}

function instructionError(error: unknown): unknown {
  if (typeof error === 'number') return name(INSTRUCTION_ERRORS, error);
  const native = error as { code?: number; msg?: string };
  return native.code !== undefined ? { Custom: native.code } : { BorshIoError: native.msg };
}

function name(table: readonly string[], number: number): string {
  return table[number] ?? `Unknown${number}`;
}
