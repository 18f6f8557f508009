import type { CoreConfig } from '../../../kernel/config/core.ts';
import { CodedError, messageOf } from '../../../lib/coded-error.ts';
import type { BlockHeader } from '../../../ports/block.ts';
import type { AskOptions, ChainId, ChainSource } from '../../../ports/chain.ts';
import type { Clock, Random } from '../../../ports/clock.ts';
import type { Log } from '../../../ports/log.ts';
import type { UpstreamPool } from '../../../ports/upstream.ts';
import { decodeHeader } from '../../../solana/decode/decode-header.ts';
import { createSlotHints } from '../websocket/slot-hints.ts';
import { createBlockRequest } from './block-request.ts';
import { createRpcClient } from './client.ts';
import { meaningOf } from './node-errors.ts';

export interface SourceOptions {
  readonly chain: ChainId;
  readonly pool: UpstreamPool;
  readonly core: CoreConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

const FIRST_AVAILABLE_TTL_MS = 60_000;
const SMALL_ANSWER_BYTES = 8 * 1024 * 1024;

/** Blocks by polling JSON-RPC; a websocket only tells when to look. */
export function createRpcChainSource({ chain, pool, core, clock, random, log }: SourceOptions): ChainSource {
  const client = createRpcClient(pool, clock, random);
  const timeoutMs = core.follow.requestTimeoutMs;
  const block = createBlockRequest({
    client,
    timeoutMs,
    maxBytes: core.follow.maxBodyBytes,
    maxVersion: core.follow.maxSupportedTransactionVersion,
  });
  const hints = createSlotHints({ pool, clock, log });
  let first: { readonly slot: number; readonly until: number } | null = null;

  async function small<T>(
    method: string,
    params: readonly unknown[],
    signal: AbortSignal,
    avoid: readonly string[] = [],
  ): Promise<T> {
    const { result, error } = await client.ask({
      method,
      params,
      signal,
      avoid,
      timeoutMs,
      maxBytes: SMALL_ANSWER_BYTES,
      onNodeError: () => 'next',
    });
    if (error !== undefined)
      throw new CodedError('CHAIN_RPC_ERROR', `${method}: ${error.message}`, {
        retryable: true,
        facts: { method, rpcCode: error.code },
      });
    return result as T;
  }

  async function header(slot: number, options: AskOptions): Promise<BlockHeader | null> {
    const { result, error } = await client.ask({
      method: 'getBlock',
      params: [
        slot,
        {
          transactionDetails: 'none',
          rewards: false,
          commitment: options.commitment,
          maxSupportedTransactionVersion: core.follow.maxSupportedTransactionVersion,
        },
      ],
      signal: options.signal,
      avoid: options.avoid ?? [],
      timeoutMs,
      maxBytes: SMALL_ANSWER_BYTES,
      onNodeError: () => 'next',
      check: (value) => (value === null ? null : faultOfHeader(slot, value)),
    });
    if (error !== undefined) {
      if (meaningOf(error.code) === 'unwell' || meaningOf(error.code) === 'fatal')
        throw new CodedError('CHAIN_RPC_ERROR', `getBlock ${slot}: ${error.message}`, {
          retryable: true,
          facts: { method: 'getBlock', rpcCode: error.code },
        });
      return null;
    }
    return result === null ? null : decodeHeader(slot, result);
  }

  return {
    chain,
    upstreamCount: pool.size,
    block,
    header,
    tip: ({ commitment, signal, avoid }) => small<number>('getSlot', [{ commitment }], signal, avoid),
    produced: (from, to, { commitment, signal, avoid }) =>
      small<number[]>('getBlocks', [from, to, { commitment }], signal, avoid),
    async firstAvailable(signal) {
      const now = clock.monotonic();
      if (first === null || first.until <= now) {
        const slots = await Promise.allSettled(
          pool
            .candidates()
            .map((upstream) => small<number>('getFirstAvailableBlock', [], signal, others(pool, upstream.label))),
        );
        const known = slots.flatMap((slot) => (slot.status === 'fulfilled' ? [slot.value] : []));
        if (known.length === 0)
          throw new CodedError('CHAIN_UNREACHABLE', 'no upstream tells its first available block', { retryable: true });
        first = { slot: Math.min(...known), until: now + FIRST_AVAILABLE_TTL_MS };
      }
      return first.slot;
    },
    distrust(label, reason) {
      const upstream = pool.candidates().find((candidate) => candidate.label === label);
      if (upstream !== undefined) pool.report(upstream, { kind: 'contradicted', reason });
    },
    onHint: hints.onHint,
    start: async () => hints.start(),
    stop: () => hints.stop(),
  };
}

const others = (pool: UpstreamPool, label: string) =>
  pool.states().flatMap((state) => (state.label === label ? [] : [state.label]));

function faultOfHeader(slot: number, value: unknown): string | null {
  try {
    decodeHeader(slot, value);
    return null;
  } catch (error) {
    return messageOf(error);
  }
}
