import type { ChainReader } from '../../../src/kernel/plugin.ts';
import {
  chainOfPart,
  QUEUE_HEADER_BYTES,
  type QueueHeader,
  readQueueHeader,
} from '../../../src/solana/compression/queue-account.ts';
import { createSliceReader, type ReadOptions, sliceBytes } from './account-slice.ts';

/** A full part of a queue and the hash over its values. */
export interface QueueChain {
  /** Place of its first value, counted from 0. */
  readonly from: number;
  readonly size: number;
  readonly chain: Uint8Array;
}

export interface QueueOnChain {
  /** Whoever has indexed this slot knows all values of these parts. */
  readonly slot: number;
  /** Full parts that were not in the tree yet, ascending. */
  readonly chains: readonly QueueChain[];
}

/** Reads the account of a queue: of an output queue, or of a V2 tree. Null when it is none, or was written to too fast. */
export interface QueueReader {
  /** Errors: CHAIN_RPC_ERROR, CHAIN_UNREACHABLE, CHAIN_TIMEOUT. */
  read(key: Uint8Array, options?: ReadOptions): Promise<QueueOnChain | null>;
}

export function createQueueReader(chain: ChainReader, commitment: 'confirmed' | 'finalized'): QueueReader {
  const slice = createSliceReader(chain, commitment);

  async function header(key: Uint8Array, options: ReadOptions) {
    const { context, value } = await slice(key, 0, QUEUE_HEADER_BYTES, options);
    return { slot: context.slot, header: value === null ? null : readQueueHeader(sliceBytes(value)) };
  }

  return {
    async read(key, options = {}) {
      const before = await header(key, options);
      if (before.header === null) return null;
      const { slot } = before;
      if (before.header.fullParts.length === 0) return { slot, chains: [] };
      const { storesOffset, storesBytes } = before.header;
      const stores = await slice(key, storesOffset, storesBytes, { ...options, minSlot: slot });
      if (stores.value === null) return null;
      const bytes = sliceBytes(stores.value);
      const after = await header(key, { ...options, minSlot: stores.context.slot });
      return { slot, chains: chainsOf(before.header, after.header, bytes) };
    },
  };
}

/** A chain stays as it is until its batch is used again; parts that were gone when all was read may have been. */
function chainsOf(before: QueueHeader, after: QueueHeader | null, stores: Uint8Array): QueueChain[] {
  const still = new Set(after?.fullParts.map(({ from }) => from));
  return before.fullParts.flatMap((part) => {
    const chain = still.has(part.from) ? chainOfPart(stores, before, part) : null;
    return chain === null ? [] : [{ from: part.from, size: part.size, chain }];
  });
}
