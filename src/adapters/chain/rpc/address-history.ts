import type { CoreConfig } from '../../../config/core.ts';
import { encode32 } from '../../../lib/base58.ts';
import { CodedError } from '../../../lib/coded-error.ts';
import { OWN_WORK } from '../../../ports/access.ts';
import type { ChainBlock } from '../../../ports/block.ts';
import type { AddressEntry, AskOptions, NodeAddressHistory } from '../../../ports/chain.ts';
import type { Random } from '../../../ports/clock.ts';
import { decodeEntries } from '../../../solana/decode/decode-block.ts';
import { isFinalAnswer } from '../../../solana/node-errors.ts';
import { callRefused, type RpcClient } from './client.ts';

interface AddressHistoryOptions {
  readonly client: RpcClient;
  readonly random: Random;
  readonly upstreamCount: () => number;
  /** Read anew for each call, because a reload may change them. */
  readonly limits: Pick<CoreConfig['follow'], 'requestTimeoutMs' | 'maxBodyBytes'>;
  /** Highest transaction version requested. */
  readonly maxVersion: number;
}

/** Answer to `getTransaction`. */
interface TransactionPlace {
  readonly slot: number;
  readonly blockTime: number | null;
  /** Newer nodes only. */
  readonly transactionIndex?: unknown;
}

/** Stands in for unknown block hashes. */
const NO_HASH = encode32(new Uint8Array(32));

/** `getSignaturesForAddress` and `getTransaction` over the upstreams of a chain. */
export function createAddressHistory(options: AddressHistoryOptions): NodeAddressHistory {
  const { client, random, limits, maxVersion } = options;

  async function ask(method: string, params: readonly unknown[], { signal, avoid = [] }: AskOptions) {
    const answered = await client.ask({
      method,
      params,
      signal,
      tenant: OWN_WORK,
      avoid,
      timeoutMs: limits.requestTimeoutMs,
      maxBytes: limits.maxBodyBytes,
      isFinal: isFinalAnswer,
    });
    const { error } = answered;
    if (error !== undefined) throw callRefused(method, error);
    return { upstream: answered.upstream.label, result: answered.result };
  }

  /** Null when every upstream reports that the transaction does not exist. */
  async function transaction(signature: string, slot: number, options_: AskOptions): Promise<TransactionPlace | null> {
    const { commitment } = options_;
    const params = [signature, { encoding: 'base64', commitment, maxSupportedTransactionVersion: maxVersion }];
    const avoid: string[] = [];
    while (avoid.length < options.upstreamCount()) {
      const { upstream, result } = await ask('getTransaction', params, { ...options_, avoid });
      if (isPlace(result) && result.slot === slot) return result;
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
      const found: TransactionPlace[] = [];
      for (const signature of signatures) {
        const one = await transaction(signature, slot, options_);
        if (one === null) return null;
        found.push(one);
      }
      // Without indexes the given order stays: the sort is stable.
      found.sort((a, b) => indexOf(a) - indexOf(b));
      return {
        slot,
        parentSlot: slot - 1,
        blockhash: NO_HASH,
        previousBlockhash: NO_HASH,
        blockHeight: null,
        blockTime: found[0]?.blockTime ?? null,
        ...decodeEntries(slot, found, random.bytes(32)),
      };
    },
  };
}

const indexOf = ({ transactionIndex }: TransactionPlace) =>
  typeof transactionIndex === 'number' ? transactionIndex : 0;

const isPlace = (value: unknown): value is TransactionPlace =>
  typeof value === 'object' && value !== null && Number.isSafeInteger((value as Partial<TransactionPlace>).slot);

const isEntry = (value: unknown): value is AddressEntry =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as Partial<AddressEntry>).signature === 'string' &&
  Number.isSafeInteger((value as Partial<AddressEntry>).slot);
