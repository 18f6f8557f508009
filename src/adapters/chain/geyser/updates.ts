/** The updates of the stream as the client decodes them, as far as they are relied on. 64-bit numbers are decimal texts. */
export interface StreamUpdate {
  readonly block?: StreamBlock | undefined;
  readonly slot?: { readonly slot: string; readonly status: number } | undefined;
  readonly ping?: object | undefined;
}

export interface StreamBlock {
  readonly slot: string;
  readonly blockhash: string;
  readonly parentSlot: string;
  readonly parentBlockhash: string;
  readonly blockTime?: { readonly timestamp: string } | undefined;
  readonly blockHeight?: { readonly blockHeight: string } | undefined;
  /** How many transactions the block has: fewer mean that some were left out on the way. */
  readonly executedTransactionCount: string;
  readonly transactions: readonly StreamTransaction[];
}

export interface StreamTransaction {
  /** Position in the block. */
  readonly index: string;
  readonly transaction?:
    | { readonly signatures: readonly Uint8Array[]; readonly message?: StreamMessage | undefined }
    | undefined;
  readonly meta?: StreamMeta | undefined;
}

export interface StreamMessage {
  readonly header?: StreamHeader | undefined;
  readonly accountKeys: readonly Uint8Array[];
  readonly recentBlockhash: Uint8Array;
  readonly instructions: readonly StreamInstruction[];
  readonly versioned: boolean;
  readonly addressTableLookups: readonly {
    readonly accountKey: Uint8Array;
    readonly writableIndexes: Uint8Array;
    readonly readonlyIndexes: Uint8Array;
  }[];
  /** Only version 1 messages have it, and all of them. */
  readonly config?: StreamConfig | undefined;
}

export interface StreamConfig {
  readonly priorityFee?: string | undefined;
  readonly computeUnitLimit?: number | undefined;
  readonly loadedAccountsDataSizeLimit?: number | undefined;
  readonly heapSize?: number | undefined;
}

interface StreamHeader {
  readonly numRequiredSignatures: number;
  readonly numReadonlySignedAccounts: number;
  readonly numReadonlyUnsignedAccounts: number;
}

interface StreamInstruction {
  readonly programIdIndex: number;
  readonly accounts: Uint8Array;
  readonly data: Uint8Array;
}

export interface StreamMeta {
  readonly err?: { readonly err: Uint8Array } | undefined;
  readonly fee: string;
  readonly preBalances: readonly string[];
  readonly postBalances: readonly string[];
  readonly innerInstructions: readonly {
    readonly index: number;
    readonly instructions: readonly (StreamInstruction & { readonly stackHeight?: number | undefined })[];
  }[];
  readonly innerInstructionsNone: boolean;
  readonly logMessages: readonly string[];
  readonly logMessagesNone: boolean;
  readonly preTokenBalances: readonly StreamTokenBalance[];
  readonly postTokenBalances: readonly StreamTokenBalance[];
  readonly loadedWritableAddresses: readonly Uint8Array[];
  readonly loadedReadonlyAddresses: readonly Uint8Array[];
  readonly returnData?: { readonly programId: Uint8Array; readonly data: Uint8Array } | undefined;
  readonly returnDataNone: boolean;
  readonly computeUnitsConsumed?: string | undefined;
  readonly costUnits?: string | undefined;
}

export interface StreamTokenBalance {
  readonly accountIndex: number;
  readonly mint: string;
  readonly owner: string;
  readonly programId: string;
  readonly uiTokenAmount?:
    | { readonly uiAmount: number; readonly decimals: number; readonly amount: string; readonly uiAmountString: string }
    | undefined;
}
