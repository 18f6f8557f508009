import { CodedError } from '../../lib/coded-error.ts';
import type { LedgerBlock, TransactionRecord } from './types.ts';

const RECENT_HASHES = 151;
/** Pruning each block separately would shift the whole list each time. */
const PRUNE_SLACK = 256;

export interface ChainStateOptions {
  readonly finalityDepth: number;
  readonly maxBlocks: number;
}

export type ChainState = ReturnType<typeof createChainState>;

/** Blocks of the current branch with their indexes by slot, hash, signature and address, independent of execution. */
export function createChainState(genesis: LedgerBlock, options: ChainStateOptions) {
  let blocks: LedgerBlock[] = [genesis];
  const bySlot = new Map([[genesis.slot, genesis]]);
  const heightByHash = new Map([[genesis.blockhash, genesis.height]]);
  const index = createTransactionIndex();
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

function createTransactionIndex() {
  const bySignature = new Map<string, TransactionRecord>();
  const byAddress = new Map<string, TransactionRecord[]>();
  let count = 0;
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
