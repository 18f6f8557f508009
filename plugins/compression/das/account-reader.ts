import type { ChainReader } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';
import { LayoutError } from '../../../src/solana/byte-reader.ts';
import { CONCURRENT_PROGRAMS } from '../../../src/solana/concurrent/programs.ts';
import { CONCURRENT_HEADER_BYTES, readConcurrentTree } from '../../../src/solana/concurrent/tree-account.ts';

/** What the account of a concurrent tree says now. */
export interface TreeNow {
  readonly height: number;
  readonly seq: number;
}

/** Null when there is no such tree. Errors: CHAIN_RPC_ERROR, CHAIN_UNREACHABLE, CHAIN_TIMEOUT. */
export type AccountReader = (key: Uint8Array, signal: AbortSignal) => Promise<TreeNow | null>;

const TIMEOUT_MS = 10_000;

export function createAccountReader(chain: ChainReader, commitment: 'confirmed' | 'finalized'): AccountReader {
  const dataSlice = { offset: 0, length: CONCURRENT_HEADER_BYTES };
  return async (key, signal) => {
    const { value } = await chain.call<{
      readonly value: { readonly data: [string, string]; readonly owner: string } | null;
    }>('getAccountInfo', [encode32(key), { encoding: 'base64', commitment, dataSlice }], {
      signal,
      timeoutMs: TIMEOUT_MS,
    });
    if (value === null || !CONCURRENT_PROGRAMS.includes(value.owner)) return null;
    try {
      const { height, seq } = readConcurrentTree(Buffer.from(value.data[0], 'base64'));
      return { height, seq: Number(seq) };
    } catch (error) {
      if (error instanceof LayoutError) return null;
      throw error;
    }
  };
}
