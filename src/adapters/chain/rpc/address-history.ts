import { encode32 } from '../../../lib/base58.ts';
import { CodedError } from '../../../lib/coded-error.ts';
import type { ChainBlock } from '../../../ports/block.ts';
import type { AddressEntry, AddressHistory, AskOptions } from '../../../ports/chain.ts';
import type { Random } from '../../../ports/clock.ts';
import { decodeEntries } from '../../../solana/decode/decode-block.ts';
import { meaningOf, type RpcClient } from './client.ts';

export interface AddressHistoryOptions {
  readonly client: RpcClient;
  readonly random: Random;
  readonly upstreamCount: number;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** Highest transaction version asked for. */
  readonly maxVersion: number;
}

/** As a node tells it in the answer to `getTransaction`. */
interface Told {
  readonly slot: number;
  readonly blockTime: number | null;
  /** Newer nodes only. */
  readonly transactionIndex?: unknown;
}

/** Stands for the hashes of a block that nobody has. */
const NO_HASH = encode32(new Uint8Array(32));

/** `getSignaturesForAddress` and `getTransaction` over the upstreams of a chain. */
export function createAddressHistory(options: AddressHistoryOptions): AddressHistory {
  const { client, random, timeoutMs, maxBytes, maxVersion } = options;

  async function ask(method: string, params: readonly unknown[], { signal, avoid = [] }: AskOptions) {
    const answered = await client.ask({
      ...{ method, params, signal, avoid, timeoutMs, maxBytes },
      onNodeError: ({ code }) => (meaningOf(code) === 'version' ? 'take' : 'next'),
    });
    const { error } = answered;
    if (error !== undefined)
      throw new CodedError('CHAIN_RPC_ERROR', `${method}: ${error.message}`, {
        retryable: true,
        facts: { method, rpcCode: error.code },
      });
    return { upstream: answered.upstream.label, result: answered.result };
  }

  /** Null when every upstream says that there is none. */
  async function transaction(signature: string, slot: number, options_: AskOptions): Promise<Told | null> {
    const { commitment } = options_;
    const params = [signature, { encoding: 'base64', commitment, maxSupportedTransactionVersion: maxVersion }];
    const avoid: string[] = [];
    while (avoid.length < options.upstreamCount) {
      const { upstream, result } = await ask('getTransaction', params, { ...options_, avoid });
      if (isTold(result) && result.slot === slot) return result;
      avoid.push(upstream);
    }
    return null;
  }

  return {
    async page(address, { before, limit }, options_) {
      const { commitment } = options_;
      const config = { limit, commitment, ...(before === null ? {} : { before }) };
      const { upstream, result } = await ask('getSignaturesForAddress', [address, config], options_);
      if (!Array.isArray(result) || !result.every(isEntry))
        throw new CodedError('CHAIN_BAD_RESPONSE', 'getSignaturesForAddress: the answer is no list of signatures', {
          retryable: true,
        });
      return { upstream, entries: result.map(({ signature, slot }) => ({ signature, slot })) };
    },
    async partialBlock(slot, signatures, options_): Promise<ChainBlock | null> {
      const told: Told[] = [];
      for (const signature of signatures) {
        const one = await transaction(signature, slot, options_);
        if (one === null) return null;
        told.push(one);
      }
      // Where nodes tell no index the given order stands: sorting is stable.
      told.sort((a, b) => indexOf(a) - indexOf(b));
      return {
        ...{ slot, parentSlot: slot - 1, blockhash: NO_HASH, previousBlockhash: NO_HASH, blockHeight: null },
        blockTime: told[0]?.blockTime ?? null,
        ...decodeEntries(slot, told, random.bytes(32)),
      };
    },
  };
}

const indexOf = ({ transactionIndex }: Told) => (typeof transactionIndex === 'number' ? transactionIndex : 0);

const isTold = (value: unknown): value is Told =>
  typeof value === 'object' && value !== null && Number.isSafeInteger((value as Partial<Told>).slot);

const isEntry = (value: unknown): value is AddressEntry =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as Partial<AddressEntry>).signature === 'string' &&
  Number.isSafeInteger((value as Partial<AddressEntry>).slot);
