import { CodedError } from '../../../src/lib/coded-error.ts';
import type { UiTokenAmount } from '../../../src/solana/json-parsed/layout.ts';
import type { ChainTransaction, MessageParts, TableLookup } from '../vm/transaction.ts';
import type { TransactionError, VmAccount } from '../vm/vm.ts';

export interface TokenBalanceEntry {
  readonly accountIndex: number;
  readonly mint: string;
  readonly owner: string;
  readonly programId: string;
  readonly uiTokenAmount: UiTokenAmount;
}

export interface InnerInstructionJson {
  readonly programIdIndex: number;
  readonly accounts: readonly number[];
  /** base58 */
  readonly data: string;
  readonly stackHeight: number | null;
}

/** `meta` as sent by Agave, lamports as bigint when a number is not exact. */
export interface TransactionMeta {
  readonly err: TransactionError | null;
  readonly status: { readonly Ok: null } | { readonly Err: TransactionError };
  readonly fee: number;
  readonly preBalances: readonly (number | bigint)[];
  readonly postBalances: readonly (number | bigint)[];
  readonly preTokenBalances: readonly TokenBalanceEntry[];
  readonly postTokenBalances: readonly TokenBalanceEntry[];
  /** Null, like the logs, for a transaction that was not run. */
  readonly innerInstructions:
    | readonly { readonly index: number; readonly instructions: readonly InnerInstructionJson[] }[]
    | null;
  readonly logMessages: readonly string[] | null;
  readonly rewards: readonly unknown[];
  readonly loadedAddresses: { readonly writable: readonly string[]; readonly readonly: readonly string[] };
  readonly computeUnitsConsumed: number;
  readonly costUnits: number;
  readonly returnData?: { readonly programId: string; readonly data: readonly [string, 'base64'] };
}

/** A transaction in the ledger: executed here, or recorded elsewhere and appended. */
export interface TransactionRecord {
  readonly signature: string;
  readonly slot: number;
  readonly transaction: ChainTransaction;
  /** Static keys, loaded writable, loaded readonly. */
  readonly keys: readonly string[];
  readonly meta: TransactionMeta;
  readonly memo: string | null;
  readonly recorded: boolean;
  /** Position in its block. */
  readonly index: number;
}

export type UnplacedRecord = Omit<TransactionRecord, 'index'>;

/** State of an account before a block's first write to it; `state` null: it did not exist. */
export interface PreImage {
  readonly state: VmAccount | null;
  /** Set directly since: rollback still needs `state`, but readers of older states see the new one. */
  readonly overwritten: boolean;
}

export type PreImages = Map<string, PreImage>;

export interface LedgerBlock {
  readonly slot: number;
  readonly parentSlot: number;
  readonly blockhash: string;
  readonly previousBlockhash: string;
  readonly height: number;
  /** Unix seconds. */
  readonly time: number;
  readonly records: readonly TransactionRecord[];
  /** Accounts written by its transactions. Emptied, like `preImages`, when the block is finalized. */
  readonly written: Set<string>;
  readonly preImages: PreImages;
}

/** `transaction` of a `getTransaction` answer with encoding `json`. */
export interface JsonTransaction {
  readonly signatures: readonly string[];
  readonly message: {
    readonly header: MessageParts['header'];
    readonly accountKeys: readonly string[];
    readonly recentBlockhash: string;
    readonly instructions: readonly {
      readonly programIdIndex: number;
      readonly accounts: readonly number[];
      readonly data: string;
    }[];
    readonly addressTableLookups?: readonly TableLookup[];
    /** Version 1 only. */
    readonly transactionConfig?: object;
  };
}

/** A recorded transaction as returned by `getTransaction` (encoding base64 or json). */
export interface RecordedTransaction {
  /** base64 wire bytes, the pair [text, "base64"], or the object of encoding `json`. */
  readonly transaction: string | readonly [string, string] | JsonTransaction;
  readonly meta: Readonly<Record<string, unknown>> | null;
  readonly blockTime?: number | null;
}

export interface ForkRequest {
  /** Number of newest blocks to drop. */
  readonly depth: number;
  /** Dropped transactions to run again: all, none, in reverse order, or those with these signatures. */
  readonly replay?: 'all' | 'none' | 'reverse' | readonly string[];
  /** Blocks of the new branch in addition to `depth`. */
  readonly extraBlocks?: number;
  /** Slots that the new branch skips after the common ancestor. */
  readonly gap?: number;
  /** Number of further calls of each method that reads blocks that are answered from the old branch: a node that notices late. */
  readonly servesOld?: number;
}

/** Result of a fork: the ground truth for tests. */
export interface ForkReport {
  readonly commonAncestor: number;
  readonly dropped: readonly { readonly slot: number; readonly blockhash: string; readonly signatures: string[] }[];
  readonly added: readonly { readonly slot: number; readonly blockhash: string; readonly signatures: string[] }[];
  readonly lost: readonly string[];
  readonly moved: readonly { readonly signature: string; readonly from: number; readonly to: number }[];
}

/** Events of the ledger, called synchronously and in this order. */
export interface LedgerListener {
  /** A transaction ran in the slot under construction; `written`: the accounts that it changed. */
  executed?(record: TransactionRecord, written: readonly string[]): void;
  /** A slot is now under construction. */
  slotOpened?(slot: number, parentSlot: number): void;
  sealed?(block: LedgerBlock): void;
  finalized?(block: LedgerBlock): void;
  /** An account was set without a transaction. */
  accountSet?(key: string): void;
  /** Called before the new branch is built. */
  rolledBack?(ancestor: LedgerBlock): void;
}

const RECENT_HASHES = 151;
/** Pruning each block separately would shift the whole list each time. */
const PRUNE_SLACK = 256;

export interface ChainStateOptions {
  readonly finalityDepth: number;
  readonly maxBlocks: number;
}

export type LocalChainState = ReturnType<typeof createChainState>;

/** A state of these blocks, oldest first, with their transactions. `earlier`: number of transactions that were pruned before them. */
export function stateOfBlocks(
  blocks: readonly LedgerBlock[],
  options: ChainStateOptions,
  earlier = 0,
): LocalChainState {
  const [first, ...rest] = blocks;
  if (first === undefined) throw new TypeError('a chain has a first block');
  const state = createChainState(first, options, earlier);
  for (const record of first.records) state.addRecord(record);
  for (const block of rest) {
    state.append(block);
    for (const record of block.records) state.addRecord(record);
  }
  return state;
}

/** Blocks of the current branch with their indexes by slot, hash, signature and address, independent of execution. */
export function createChainState(genesis: LedgerBlock, options: ChainStateOptions, earlier = 0) {
  let blocks: LedgerBlock[] = [genesis];
  const bySlot = new Map([[genesis.slot, genesis]]);
  const heightByHash = new Map([[genesis.blockhash, genesis.height]]);
  const index = createTransactionIndex(earlier);
  let firstAvailable = genesis.slot;

  const tip = (): LedgerBlock => blocks[blocks.length - 1]!;
  function prune(slot: number): void {
    const keepFrom = blocks.findIndex((block) => block.slot >= slot);
    const cut = keepFrom === -1 ? blocks.length - 1 : keepFrom;
    for (const block of blocks.slice(0, cut)) {
      bySlot.delete(block.slot);
      for (const record of block.records) index.removeOldest(record);
    }
    blocks = blocks.slice(cut);
    firstAvailable = Math.max(firstAvailable, Math.min(slot, tip().slot));
  }
  return {
    ...index,
    tip,
    prune,
    blocks: (): readonly LedgerBlock[] => blocks,
    block: (slot: number): LedgerBlock | undefined => bySlot.get(slot),
    firstAvailable: (): number => firstAvailable,
    /** Newest block with `finalityDepth` blocks above it; the oldest one while there are fewer. */
    finalized: (): LedgerBlock => blocks[Math.max(0, blocks.length - 1 - options.finalityDepth)]!,
    append(block: LedgerBlock): void {
      blocks.push(block);
      bySlot.set(block.slot, block);
      heightByHash.set(block.blockhash, block.height);
      const old = blocks[blocks.length - 1 - RECENT_HASHES];
      if (old !== undefined) heightByHash.delete(old.blockhash);
      if (blocks.length > options.maxBlocks + PRUNE_SLACK) prune(blocks[blocks.length - options.maxBlocks]!.slot);
    },
    /** Removes the newest block and its transactions. */
    dropNewest(): LedgerBlock {
      if (blocks.length < 2) throw new CodedError('LOCAL_FORK_DEPTH', 'the oldest block cannot be dropped');
      const block = blocks.pop()!;
      bySlot.delete(block.slot);
      heightByHash.delete(block.blockhash);
      const returned = blocks[blocks.length - RECENT_HASHES];
      if (returned !== undefined) heightByHash.set(returned.blockhash, returned.height);
      for (const record of block.records.toReversed()) index.removeNewest(record);
      return block;
    },
    /** Whether a transaction with this recent blockhash may still land on top of `block`. */
    isRecentHash(hash: string, block: LedgerBlock = tip()): boolean {
      const height = heightByHash.get(hash);
      return height !== undefined && height <= block.height && block.height - height < RECENT_HASHES;
    },
  };
}

function createTransactionIndex(earlier: number) {
  const bySignature = new Map<string, TransactionRecord>();
  const byAddress = new Map<string, TransactionRecord[]>();
  let count = earlier;
  const addressesOf = (record: TransactionRecord) => new Set(record.keys);
  return {
    transactionCount: (): number => count,
    record: (signature: string): TransactionRecord | undefined => bySignature.get(signature),
    /** Oldest first, including the slot under construction. */
    recordsOf: (address: string): readonly TransactionRecord[] => byAddress.get(address) ?? [],
    addRecord(record: TransactionRecord): void {
      count += 1;
      bySignature.set(record.signature, record);
      for (const address of addressesOf(record)) {
        const list = byAddress.get(address);
        if (list === undefined) byAddress.set(address, [record]);
        else list.push(record);
      }
    },
    removeNewest(record: TransactionRecord): void {
      count -= 1;
      bySignature.delete(record.signature);
      for (const address of addressesOf(record)) byAddress.get(address)?.pop();
    },
    removeOldest(record: TransactionRecord): void {
      bySignature.delete(record.signature);
      for (const address of addressesOf(record)) {
        const list = byAddress.get(address);
        list?.shift();
        if (list?.length === 0) byAddress.delete(address);
      }
    },
  };
}
