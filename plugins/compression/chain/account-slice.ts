import type { ChainReader } from '../../../src/kernel/plugin.ts';
import { encode32 } from '../../../src/lib/base58.ts';

const TIMEOUT_MS = 10_000;

export interface ReadOptions {
  readonly signal?: AbortSignal;
  /** A node that stands below this slot refuses (CHAIN_RPC_ERROR). */
  readonly minSlot?: number;
}

export interface AccountReply {
  readonly data: readonly [string, string];
  readonly owner: string;
}

/** A part of an account, and the slot at which the node stood; null where there is no such account. */
export interface AccountSlice {
  readonly context: { readonly slot: number };
  readonly value: AccountReply | null;
}

/** Reads a part of an account. Errors: CHAIN_RPC_ERROR, CHAIN_UNREACHABLE, CHAIN_TIMEOUT. */
export type SliceReader = (
  key: Uint8Array,
  offset: number,
  length: number,
  options: ReadOptions,
) => Promise<AccountSlice>;

export function createSliceReader(chain: ChainReader, commitment: 'confirmed' | 'finalized'): SliceReader {
  return async (key, offset, length, { signal, minSlot }) =>
    await chain.call<AccountSlice>(
      'getAccountInfo',
      [
        encode32(key),
        {
          ...{ encoding: 'base64', commitment, dataSlice: { offset, length } },
          ...(minSlot === undefined ? {} : { minContextSlot: minSlot }),
        },
      ],
      { timeoutMs: TIMEOUT_MS, ...(signal === undefined ? {} : { signal }) },
    );
}

export const sliceBytes = ({ data }: AccountReply): Uint8Array => Uint8Array.from(Buffer.from(data[0], 'base64'));
