import type { AccountInput } from './account-input.ts';
import type { ForkReport, ForkRequest, RecordedTransaction } from './ledger/types.ts';

/** A running local chain in this process. */
export interface LocalChainHandle {
  readonly rpcUrl: string;
  readonly wsUrl: string;
  /** The second port for WebSocket alone, where there is one. */
  readonly socketPort: number | null;
  readonly genesisHash: string;
  /** A real transfer from the faucet; answers its signature. At most 100,000 SOL. */
  fund(address: string, lamports: number | bigint): Promise<string>;
  /** Loads a program from a file or from bytes. */
  deploy(programId: string, pathOrBytes: string | Uint8Array): Promise<void>;
  /** Sets an account at once, without a transaction; null removes it. Counted as a fixture. */
  setAccount(address: string, account: AccountInput | null): Promise<void>;
  /** Puts a recorded transaction into the next block without running it. */
  appendRecorded(transaction: RecordedTransaction): Promise<void>;
  /** Runs wire transactions in order, `perBlock` in each block, without HTTP. Throws at the first that does not land. */
  submitAll(
    transactions: readonly Uint8Array[],
    options?: { readonly perBlock?: number; readonly verifySignatures?: boolean },
  ): Promise<readonly string[]>;
  /** Makes `count` blocks now; answers the slot of the newest. */
  seal(count?: number): Promise<number>;
  /** Leaves `count` slots without a block. */
  skip(count?: number): Promise<void>;
  fork(request: ForkRequest): Promise<ForkReport>;
  /** Forgets blocks and transactions below a slot. */
  prune(firstAvailableSlot: number): Promise<void>;
  /** Moves chain time forward to unix seconds. */
  setTime(unixSeconds: number): Promise<void>;
  /** Ends all WebSockets; default 1006, without a close frame. */
  dropSockets(code?: number): Promise<void>;
  stop(): Promise<void>;
}
