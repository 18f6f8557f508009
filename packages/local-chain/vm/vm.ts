import { createRequire } from 'node:module';
import { encode32 } from '../../../src/lib/base58.ts';
import { CodedError, EXIT, messageOf } from '../../../src/lib/coded-error.ts';
import type * as Litesvm from './litesvm.ts';
import type { ChainTransaction } from './transaction.ts';

/** An account in the engine. `data` is a copy. */
export interface VmAccount {
  readonly lamports: bigint;
  readonly data: Uint8Array;
  /** base58 */
  readonly owner: string;
  readonly ownerBytes: Uint8Array;
  readonly executable: boolean;
  readonly rentEpoch: bigint;
}

export interface VmInnerInstruction {
  readonly programIdIndex: number;
  readonly accounts: readonly number[];
  readonly data: Uint8Array;
  readonly stackHeight: number;
}

export interface VmOutcome {
  readonly err: TransactionError | null;
  readonly logs: readonly string[];
  /** By outer instruction; entries may be empty. */
  readonly inner: readonly (readonly VmInnerInstruction[])[];
  readonly computeUnits: number;
  readonly returnData: { readonly programId: string; readonly data: Uint8Array } | null;
}

export interface VmSimulation extends VmOutcome {
  /** Accounts after the run; empty when it failed. */
  readonly accounts: ReadonlyMap<string, VmAccount>;
}

/** The guard around the engine and the only way to it: no input of a caller can abort the process. */
export type Vm = Awaited<ReturnType<typeof createVm>>;

const ZERO_KEY = new Uint8Array(32);
export const MAX_RENT_EPOCH = 18446744073709551615n;
const EPOCH_SLOTS = 432_000;

/** Starts an engine without a chain: no blockhash check and no history, because the ledger has both. */
export async function createVm() {
  const native = loadNative();
  const engine = new native.LiteSvm();
  engine.setBlockhashCheck(false);
  engine.setTransactionHistory(0n);
  engine.setSigverify(true);
  engine.withNativeMints();
  removeAirdropAccount(native, engine);
  return { ...accountAccess(native, engine), ...execution(engine), ...sysvars(native, engine) };
}

/** The engine's airdrop wallet has a random key: with it chains of one seed would differ. */
function removeAirdropAccount(native: Native, engine: Litesvm.LiteSvm): void {
  for (const item of engine.getProgramAccounts(ZERO_KEY)) {
    if (!item.account().executable())
      engine.setAccount(item.address, new native.Account(0n, new Uint8Array(0), ZERO_KEY, false, 0n));
  }
}

function accountAccess(native: Native, engine: Litesvm.LiteSvm) {
  return {
    /** Lamports of an account, 0 when it does not exist. Cheap, whatever the size of the account. */
    balance: (key: Uint8Array): bigint => engine.getBalance(checked(key)) ?? 0n,
    /** A copy of an account, or null. Costly for large accounts. */
    account(key: Uint8Array): VmAccount | null {
      const account = engine.getAccount(checked(key));
      return account === null || account.lamports() === 0n ? null : plain(account);
    },
    /** Writes an account; null removes it. */
    write(key: Uint8Array, account: Omit<VmAccount, 'owner'> | null): void {
      const value =
        account === null
          ? new native.Account(0n, new Uint8Array(0), ZERO_KEY, false, 0n)
          : new native.Account(
              account.lamports,
              account.data,
              checked(account.ownerBytes),
              account.executable,
              account.rentEpoch,
            );
      engine.setAccount(checked(key), value);
    },
    programAccounts(program: Uint8Array): Map<string, VmAccount> {
      const found = new Map<string, VmAccount>();
      for (const item of engine.getProgramAccounts(checked(program))) {
        found.set(encode32(item.address), plain(item.account()));
      }
      return found;
    },
    deploy: (program: Uint8Array, bytes: Uint8Array): void => engine.addProgram(checked(program), bytes),
    rentExemptLamports: (dataBytes: number): bigint => engine.minimumBalanceForRentExemption(BigInt(dataBytes)),
  };
}

function execution(engine: Litesvm.LiteSvm) {
  return {
    execute(transaction: ChainTransaction): VmOutcome {
      const answer = engine.sendVersionedTransaction(transaction.bytes);
      return 'err' in answer ? outcome(answer.meta(), toTransactionError(answer.err())) : outcome(answer, null);
    },
    /** Runs without effect. `verify`: check the signatures. */
    simulate(transaction: ChainTransaction, verify: boolean): VmSimulation {
      engine.setSigverify(verify);
      try {
        const answer = engine.simulateVersionedTransaction(transaction.bytes);
        if ('err' in answer)
          return { ...outcome(answer.meta(), toTransactionError(answer.err())), accounts: new Map() };
        const accounts = new Map<string, VmAccount>();
        for (const item of answer.postAccounts()) accounts.set(encode32(item.address), plain(item.account()));
        return { ...outcome(answer.meta(), null), accounts };
      } finally {
        engine.setSigverify(true);
      }
    },
    /** Only for histories that tests build in bulk. */
    setSignatureCheck: (on: boolean): void => engine.setSigverify(on),
  };
}

function sysvars(native: Native, engine: Litesvm.LiteSvm) {
  return {
    setClock(slot: number, unixSeconds: number): void {
      const epoch = Math.floor(slot / EPOCH_SLOTS);
      engine.setClock(new native.Clock(BigInt(slot), 0n, BigInt(epoch), BigInt(epoch + 1), BigInt(unixSeconds)));
    },
    /** Newest first. */
    setSlotHashes(hashes: readonly { readonly slot: number; readonly hash: string }[]): void {
      engine.setSlotHashes(hashes.map(({ slot, hash }) => ({ slot: BigInt(slot), hash })));
      engine.expireBlockhash();
    },
  };
}

function checked(key: Uint8Array): Uint8Array {
  if (key.length !== 32) throw new CodedError('LOCAL_BAD_KEY', `a key has 32 bytes, not ${key.length}`);
  return key;
}

function plain(account: Litesvm.Account): VmAccount {
  const ownerBytes = account.owner();
  return {
    lamports: account.lamports(),
    data: account.data(),
    owner: encode32(ownerBytes),
    ownerBytes,
    executable: account.executable(),
    rentEpoch: account.rentEpoch(),
  };
}

function outcome(meta: Litesvm.TransactionMetadata, err: TransactionError | null): VmOutcome {
  const returned = meta.returnData();
  const data = returned.data();
  return {
    err,
    logs: meta.logs(),
    inner: meta.innerInstructions().map((group) =>
      group.map((item) => {
        const instruction = item.instruction();
        return {
          programIdIndex: instruction.programIdIndex(),
          accounts: [...instruction.accounts()],
          data: instruction.data(),
          stackHeight: item.stackHeight(),
        };
      }),
    ),
    computeUnits: Number(meta.computeUnitsConsumed()),
    returnData: data.length === 0 ? null : { programId: encode32(returned.programId()), data },
  };
}

type Native = typeof Litesvm;

/** Every method that the guard calls: the entry is not a documented API, so a changed release must fail at the start. */
const METHODS = [
  'setSigverify',
  'setBlockhashCheck',
  'setTransactionHistory',
  'minimumBalanceForRentExemption',
  'getAccount',
  'getProgramAccounts',
  'setAccount',
  'getBalance',
  'addProgram',
  'sendVersionedTransaction',
  'simulateVersionedTransaction',
  'expireBlockhash',
  'setClock',
  'setSlotHashes',
  'withNativeMints',
] as const;

const load = createRequire(import.meta.url);

/**
 * Loads the native engine: the package of this platform, which is the binary alone. Throws LOCAL_ENGINE_MISSING (exit 78) when it is missing,
 * does not load or lacks a method.
 */
export function loadNative(): Native {
  const name = enginePackages().find(isInstalled) ?? enginePackage();
  let native: Native;
  try {
    native = load(name) as Native;
  } catch (error) {
    throw missing(name, messageOf(error).split('\n', 1)[0]!, error);
  }
  const prototype = native.LiteSvm?.prototype as unknown as Record<string, unknown> | undefined;
  const absent = METHODS.filter((method) => typeof prototype?.[method] !== 'function');
  if (absent.length > 0 || typeof native.Account !== 'function' || typeof native.Clock !== 'function') {
    throw missing(name, `this release lacks ${absent.join(', ') || 'Account or Clock'}`);
  }
  return native;
}

/** Packages with a binary for this platform; npm installs the one for the C library that it finds. */
function enginePackages(): readonly string[] {
  const name = `litesvm-${process.platform}-${process.arch}`;
  return process.platform === 'linux' ? [`${name}-gnu`, `${name}-musl`] : [name];
}

function isInstalled(name: string): boolean {
  try {
    load.resolve(name);
    return true;
  } catch {
    return false;
  }
}

/** The package that this platform needs. It makes a report of the process, so it is for errors only. */
function enginePackage(): string {
  const [first, other] = enginePackages();
  const { header } = process.report.getReport() as { readonly header?: { readonly glibcVersionRuntime?: string } };
  return header?.glibcVersionRuntime === undefined ? (other ?? first!) : first!;
}

function missing(name: string, reason: string, cause?: unknown): CodedError {
  return new CodedError(
    'LOCAL_ENGINE_MISSING',
    `the native engine of the local chain, the package ${name}, could not be loaded (${reason}). Install it (npm install ${name}@1.5.0), or name a real node: SOLANA_RPC_URL=... or upstream.urls`,
    { cause, exitCode: EXIT.config },
  );
}

/** A transaction error in Agave's JSON form. */
export type TransactionError = string | Readonly<Record<string, unknown>>;

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

/** Names of the fieldless errors by number; a test compares both lists with the engine's. */
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

/** Converts the engine's error to Agave's JSON. Fieldless errors become strings; those transactions do not land. */
function toTransactionError(error: unknown): TransactionError {
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
