/**
 * The part of litesvm 1.5.0's native class that this folder uses. The package of each platform is a binary without declarations, and the
 * declarations of litesvm itself pull in a second version of another library.
 */
/** Its name is that of the engine's own export. */
export declare class Account {
  constructor(lamports: bigint, data: Uint8Array, owner: Uint8Array, executable: boolean, rentEpoch: bigint);
  lamports(): bigint;
  data(): Uint8Array;
  owner(): Uint8Array;
  executable(): boolean;
  rentEpoch(): bigint;
}
export declare class Clock {
  constructor(
    slot: bigint,
    epochStartTimestamp: bigint,
    epoch: bigint,
    leaderScheduleEpoch: bigint,
    unixTimestamp: bigint,
  );
}
export interface CompiledInstruction {
  programIdIndex(): number;
  accounts(): Uint8Array;
  data(): Uint8Array;
}
export interface InnerInstruction {
  instruction(): CompiledInstruction;
  stackHeight(): number;
}
export interface TransactionMetadata {
  signature(): Uint8Array;
  logs(): string[];
  innerInstructions(): InnerInstruction[][];
  computeUnitsConsumed(): bigint;
  returnData(): { programId(): Uint8Array; data(): Uint8Array };
}
export interface FailedTransactionMetadata {
  err(): unknown;
  meta(): TransactionMetadata;
}
export interface AddressAndAccount {
  address: Uint8Array;
  account(): Account;
}
export interface SimulatedTransactionInfo {
  meta(): TransactionMetadata;
  postAccounts(): AddressAndAccount[];
}
export declare class LiteSvm {
  setSigverify(on: boolean): void;
  setBlockhashCheck(on: boolean): void;
  setTransactionHistory(capacity: bigint): void;
  minimumBalanceForRentExemption(dataLength: bigint): bigint;
  getAccount(key: Uint8Array): Account | null;
  getProgramAccounts(program: Uint8Array): AddressAndAccount[];
  setAccount(key: Uint8Array, account: Account): void;
  getBalance(key: Uint8Array): bigint | null;
  addProgram(program: Uint8Array, bytes: Uint8Array): void;
  sendVersionedTransaction(bytes: Uint8Array): TransactionMetadata | FailedTransactionMetadata;
  simulateVersionedTransaction(bytes: Uint8Array): SimulatedTransactionInfo | FailedTransactionMetadata;
  expireBlockhash(): void;
  setClock(clock: Clock): void;
  setSlotHashes(hashes: { slot: bigint; hash: string }[]): void;
  withNativeMints(): void;
}
