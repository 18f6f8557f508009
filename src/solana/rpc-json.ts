import type { Lamports } from '../ports/block.ts';

/** Shapes of the JSON of nodes, reduced to the members used here. Other members are ignored. */
export interface RpcTokenBalance {
  readonly accountIndex: number;
  readonly mint: string;
  readonly owner?: string | null;
  readonly programId?: string | null;
  readonly uiTokenAmount: {
    readonly amount: string;
    readonly decimals: number;
    readonly uiAmount?: number | null;
    readonly uiAmountString?: string;
  };
}

export interface RpcInstruction {
  readonly programIdIndex: number;
  readonly accounts: readonly number[];
  /** base58 */
  readonly data: string;
  readonly stackHeight?: number | null;
}

export interface RpcInnerInstructions {
  readonly index: number;
  readonly instructions: readonly RpcInstruction[];
}

export interface RpcLoadedAddresses {
  readonly writable: readonly string[];
  readonly readonly: readonly string[];
}

export interface RpcMeta {
  readonly err: unknown;
  readonly fee: Lamports;
  readonly preBalances: readonly Lamports[];
  readonly postBalances: readonly Lamports[];
  readonly preTokenBalances?: readonly RpcTokenBalance[] | null;
  readonly postTokenBalances?: readonly RpcTokenBalance[] | null;
  readonly innerInstructions?: readonly RpcInnerInstructions[] | null;
  readonly logMessages?: readonly string[] | null;
  readonly loadedAddresses?: RpcLoadedAddresses | null;
  readonly rewards?: readonly unknown[] | null;
}

/** The message of a transaction in `json` encoding. */
export interface RpcMessage {
  readonly accountKeys: readonly string[];
  readonly header: {
    readonly numRequiredSignatures: number;
    readonly numReadonlySignedAccounts: number;
    readonly numReadonlyUnsignedAccounts: number;
  };
  readonly instructions: readonly RpcInstruction[];
  readonly recentBlockhash: string;
  readonly addressTableLookups?: readonly {
    readonly accountKey: string;
    readonly writableIndexes: readonly number[];
    readonly readonlyIndexes: readonly number[];
  }[];
  /** Version 1 only. */
  readonly transactionConfig?: RpcTransactionConfig | null;
}

/** Null when the header omits the value. */
export interface RpcTransactionConfig {
  readonly priorityFee?: Lamports | null;
  readonly computeUnitLimit?: number | null;
  readonly loadedAccountsDataSizeLimit?: number | null;
  readonly heapSize?: number | null;
}
