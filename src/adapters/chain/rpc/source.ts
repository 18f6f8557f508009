import type { CoreConfig } from '../../../config/core.ts';
import { CodedError, messageOf } from '../../../lib/coded-error.ts';
import type { BlockHeader } from '../../../ports/block.ts';
import type { AskOptions, BlockStream, ChainId, ChainSource } from '../../../ports/chain.ts';
import type { Clock, Random } from '../../../ports/clock.ts';
import type { Log } from '../../../ports/log.ts';
import type { UpstreamPool } from '../../../ports/upstream.ts';
import { orAborted } from '../../../runtime/deadline.ts';
import { decodeHeader } from '../../../solana/decode/response.ts';
import { createSlotHints } from '../websocket/slot-hints.ts';
import { createAddressHistory } from './address-history.ts';
import { createBlockRequest } from './block-request.ts';
import { createRpcClient, meaningOf } from './client.ts';
import { RATE_LIMITED } from './health.ts';

export interface SourceOptions {
  readonly chain: ChainId;
  readonly pool: UpstreamPool;
  readonly core: CoreConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Pushes blocks beside the polling. */
  readonly stream?: BlockStream;
}

const FIRST_AVAILABLE_TTL_MS = 60_000;
const SMALL_ANSWER_BYTES = 8 * 1024 * 1024;

/** Blocks by polling JSON-RPC; a websocket only tells when to look. */
export function createRpcChainSource({ chain, pool, core, clock, random, log, stream }: SourceOptions): ChainSource {
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

  async function small<T>(method: string, params: readonly unknown[], form: Form<T>, options: Asked): Promise<T> {
    const { result, error } = await client.ask({
      ...{ method, params, signal: options.signal, avoid: options.avoid ?? [] },
      timeoutMs,
      maxBytes: SMALL_ANSWER_BYTES,
      onNodeError: () => 'next',
      check: (value) => (form.fits(value) ? null : `its answer to ${method} is no ${form.name}`),
      isEmpty: (value) => form.isEmpty?.(value as T) ?? false,
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
      isEmpty: (value) => value === null,
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
    isLimited: () => pool.states().some(({ reason }) => reason === RATE_LIMITED),
    history: createAddressHistory({
      ...{ client, random, timeoutMs, upstreamCount: pool.size, maxBytes: core.follow.maxBodyBytes },
      maxVersion: core.follow.maxSupportedTransactionVersion,
    }),
    block,
    header,
    tip: (options) => small('getSlot', [{ commitment: options.commitment }], SLOT, options),
    produced: (from, to, options) =>
      small('getBlocks', [from, to, { commitment: options.commitment }], slotsIn(from, to), options),
    async firstAvailable(signal) {
      const now = clock.monotonic();
      if (first === null || first.until <= now) {
        const slots = await Promise.allSettled(
          pool
            .candidates()
            .map(({ label }) => small('getFirstAvailableBlock', [], SLOT, { signal, avoid: others(pool, label) })),
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
    async confirmChain(signal) {
      // What was remembered may be of another chain.
      first = null;
      const before = outOfService(pool);
      await orAborted(pool.identify(), signal);
      const now = outOfService(pool);
      return now.length < pool.size && now.every((label) => before.includes(label));
    },
    outOfService: () => outOfService(pool),
    onHint: hints.onHint,
    ...(stream === undefined ? {} : { stream }),
    async start() {
      await stream?.start();
      hints.start();
    },
    stop: () => hints.stop(),
  };
}

const outOfService = (pool: UpstreamPool): readonly string[] =>
  pool.states().flatMap(({ inService, label }) => (inService ? [] : [label]));

type Asked = Pick<AskOptions, 'signal' | 'avoid'>;

/** What a small result has to look like. */
interface Form<T> {
  readonly name: string;
  fits(value: unknown): boolean;
  isEmpty?(value: T): boolean;
}

const isSlot = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const SLOT: Form<number> = { name: 'slot', fits: isSlot };

/** A node that lost a stretch lists nothing there: an empty list is believed only when nobody has more. */
const slotsIn = (from: number, to: number): Form<number[]> => ({
  name: 'list of slots in the range',
  fits: (value) => Array.isArray(value) && value.every((slot) => isSlot(slot) && slot >= from && slot <= to),
  isEmpty: (slots) => slots.length === 0,
});

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
