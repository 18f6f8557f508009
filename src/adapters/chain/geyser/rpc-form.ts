import { encode, encode32 } from '../../../lib/base58.ts';
import { writeVersion1 } from '../../../solana/decode/wire-layout.ts';
import { floatOf, metaText, quantityOf, rewardTypeName } from '../../../solana/stored-meta.ts';

/**
 * Converts a block of the stream to the text of the result of `getBlock` (base64, full), so that it is processed like any other block. Null
 * when it is incomplete, or holds a message that cannot be encoded here: the caller then requests it by RPC.
 */
export function rpcFormOf(block: StreamBlock, decodeError: (bytes: Uint8Array) => unknown): Buffer | null {
  const { transactions } = block;
  if (transactions.length !== Number(block.executedTransactionCount)) return null;
  const ordered = transactions.toSorted((a, b) => Number(a.index) - Number(b.index));
  const entries = ordered.map((entry) => entryOf(entry, decodeError));
  if (entries.includes(null)) return null;
  const form = {
    blockHeight: block.blockHeight === undefined ? null : Number(block.blockHeight.blockHeight),
    blockTime: block.blockTime === undefined ? null : Number(block.blockTime.timestamp),
    blockhash: block.blockhash,
    parentSlot: Number(block.parentSlot),
    previousBlockhash: block.parentBlockhash,
    transactions: entries,
    ...(block.rewards === undefined ? {} : rewardsOf(block.rewards)),
  };
  return Buffer.from(metaText(form));
}

function rewardsOf({ rewards, numPartitions }: StreamRewards): object {
  return {
    rewards: rewards.map(rewardOf),
    ...(numPartitions === undefined ? {} : { numRewardPartitions: Number(numPartitions.numPartitions) }),
  };
}

function rewardOf(reward: StreamReward): object {
  const { commission, commissionBps = '', lamports, postBalance, pubkey, rewardType } = reward;
  return {
    commission: commission === '' ? null : Number(commission),
    ...(commissionBps === '' ? {} : { commissionBps: Number(commissionBps) }),
    lamports: u64(lamports),
    postBalance: u64(postBalance),
    pubkey,
    rewardType: rewardTypeName(rewardType),
  };
}

function entryOf({ transaction, meta }: StreamTransaction, decodeError: (bytes: Uint8Array) => unknown): object | null {
  const message = transaction?.message;
  if (transaction === undefined || message === undefined || meta === undefined) return null;
  const wire = wireOf(transaction.signatures, message);
  if (wire === null) return null;
  return {
    meta: metaOf(meta, decodeError),
    transaction: [wire.toString('base64'), 'base64'],
    version: message.config !== undefined ? 1 : message.versioned ? 0 : 'legacy',
  };
}

const u64 = (text: string) => quantityOf(BigInt(text));

/** Members in the order of a node. */
function metaOf(meta: StreamMeta, decodeError: (bytes: Uint8Array) => unknown): object {
  const err = meta.err === undefined ? null : decodeError(meta.err.err);
  return {
    ...(meta.computeUnitsConsumed === undefined ? {} : { computeUnitsConsumed: u64(meta.computeUnitsConsumed) }),
    ...(meta.costUnits === undefined ? {} : { costUnits: u64(meta.costUnits) }),
    err,
    fee: u64(meta.fee),
    innerInstructions: meta.innerInstructionsNone ? null : meta.innerInstructions.map(innerOf),
    loadedAddresses: {
      readonly: meta.loadedReadonlyAddresses.map((key) => encode32(key)),
      writable: meta.loadedWritableAddresses.map((key) => encode32(key)),
    },
    logMessages: meta.logMessagesNone ? null : meta.logMessages,
    postBalances: meta.postBalances.map(u64),
    postTokenBalances: meta.postTokenBalances.map(balanceOf),
    preBalances: meta.preBalances.map(u64),
    preTokenBalances: meta.preTokenBalances.map(balanceOf),
    ...returnDataOf(meta),
    rewards: (meta.rewards ?? []).map(rewardOf),
    status: err === null ? { Ok: null } : { Err: err },
  };
}

function innerOf({ index, instructions }: StreamMeta['innerInstructions'][number]): object {
  return {
    index,
    instructions: instructions.map(({ programIdIndex, accounts, data, stackHeight }) => ({
      accounts: [...accounts],
      data: encode(data),
      programIdIndex,
      stackHeight: stackHeight ?? null,
    })),
  };
}

/** An empty text means that the node did not report the value. */
function balanceOf({ accountIndex, mint, owner, programId, uiTokenAmount }: StreamTokenBalance): object {
  const { amount = '0', decimals = 0, uiAmount = 0, uiAmountString = '0' } = uiTokenAmount ?? {};
  return {
    accountIndex,
    mint,
    ...(owner === '' ? {} : { owner }),
    ...(programId === '' ? {} : { programId }),
    // Nodes print null for what Rust takes for no amount.
    uiTokenAmount: {
      amount,
      decimals,
      uiAmount: Math.abs(uiAmount) > Number.EPSILON ? floatOf(uiAmount) : null,
      uiAmountString,
    },
  };
}

function returnDataOf({ returnData, returnDataNone }: StreamMeta): object {
  if (returnData === undefined || returnDataNone) return {};
  const data = Buffer.from(returnData.data).toString('base64');
  return { returnData: { data: [data, 'base64'], programId: encode32(returnData.programId) } };
}

/** The bytes of a transaction as it was signed: legacy, version 0 or 1. Null when they do not fit. */
function wireOf(signatures: readonly Uint8Array[], message: StreamMessage): Buffer | null {
  if (message.config !== undefined) return version1Of(signatures, message, message.config);
  const parts: Uint8Array[] = [compact(signatures.length), ...signatures];
  if (message.versioned) parts.push(Buffer.of(0x80));
  const { header, accountKeys, instructions, addressTableLookups } = message;
  parts.push(
    Buffer.of(
      header?.numRequiredSignatures ?? 0,
      header?.numReadonlySignedAccounts ?? 0,
      header?.numReadonlyUnsignedAccounts ?? 0,
    ),
    compact(accountKeys.length),
    ...accountKeys,
    message.recentBlockhash,
    compact(instructions.length),
  );
  for (const { programIdIndex, accounts, data } of instructions)
    parts.push(Buffer.of(programIdIndex), compact(accounts.length), accounts, compact(data.length), data);
  if (message.versioned) {
    parts.push(compact(addressTableLookups.length));
    for (const { accountKey, writableIndexes, readonlyIndexes } of addressTableLookups)
      parts.push(
        accountKey,
        compact(writableIndexes.length),
        writableIndexes,
        compact(readonlyIndexes.length),
        readonlyIndexes,
      );
  }
  return Buffer.concat(parts);
}

function version1Of(signatures: readonly Uint8Array[], message: StreamMessage, config: StreamConfig): Buffer | null {
  const { header, accountKeys, recentBlockhash, instructions } = message;
  if (header === undefined) return null;
  return writeVersion1({
    header,
    config: {
      priorityFee: config.priorityFee === undefined ? null : BigInt(config.priorityFee),
      computeUnitLimit: config.computeUnitLimit ?? null,
      loadedAccountsDataSizeLimit: config.loadedAccountsDataSizeLimit ?? null,
      heapSize: config.heapSize ?? null,
    },
    recentBlockhash,
    keys: accountKeys,
    instructions: instructions.map(({ programIdIndex, accounts, data }) => ({
      programIndex: programIdIndex,
      accounts,
      data,
    })),
    signatures,
  });
}

/** Length in compact-u16: seven bits a byte, low bits first. */
function compact(length: number): Buffer {
  const bytes: number[] = [];
  let rest = length;
  for (; rest > 0x7f; rest >>= 7) bytes.push((rest & 0x7f) | 0x80);
  bytes.push(rest);
  return Buffer.from(bytes);
}

/** Updates of the stream as the client decodes them, reduced to the members used here. 64-bit numbers are decimal texts. */
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
  /** Transactions in the block; fewer in the update mean that some were lost. */
  readonly executedTransactionCount: string;
  readonly transactions: readonly StreamTransaction[];
  readonly rewards?: StreamRewards | undefined;
}

interface StreamReward {
  readonly pubkey: string;
  readonly lamports: string;
  readonly postBalance: string;
  /** The number of a variant; those that the client does not know as well. */
  readonly rewardType: number;
  /** Empty where the server does not know it. */
  readonly commission: string;
  /** Clients of older protocols do not read it. */
  readonly commissionBps?: string | undefined;
}

export interface StreamRewards {
  readonly rewards: readonly StreamReward[];
  readonly numPartitions?: { readonly numPartitions: string } | undefined;
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
  /** Present in all version 1 messages and in no others. */
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
  readonly rewards?: readonly StreamReward[] | undefined;
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
