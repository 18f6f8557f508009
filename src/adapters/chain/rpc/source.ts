import type { WebSocket } from 'ws';
import type { CoreConfig } from '../../../config/core.ts';
import { encode32 } from '../../../lib/base58.ts';
import { CodedError, messageOf } from '../../../lib/coded-error.ts';
import { rpcRequest } from '../../../lib/json-rpc.ts';
import type { BlockHeader, ChainBlock } from '../../../ports/block.ts';
import type {
  AddressEntry,
  AddressHistory,
  AskOptions,
  BlockAnswer,
  BlockStream,
  ChainId,
  ChainSource,
} from '../../../ports/chain.ts';
import type { Clock, Random } from '../../../ports/clock.ts';
import type { Log } from '../../../ports/telemetry.ts';
import type { UpstreamPool } from '../../../ports/upstream.ts';
import { backoffMs, orAborted } from '../../../runtime/waiting.ts';
import { decodeBlock, decodeEntries } from '../../../solana/decode/decode-block.ts';
import { decodeHeader } from '../../../solana/decode/response.ts';
import { scanBlockAnswer } from '../../../solana/decode/scan-block.ts';
import { HIGHEST_WIRE_VERSION } from '../../../solana/decode/walk-wire.ts';
import { type Answered, createRpcClient, meaningOf, type RpcClient } from './client.ts';
import { RATE_LIMITED } from './member.ts';

export interface SourceOptions {
  readonly chain: ChainId;
  readonly pool: UpstreamPool;
  readonly core: CoreConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Pushes blocks, in addition to polling. */
  readonly stream?: BlockStream;
}

/** Of one call; read at each. */
type RequestLimits = Pick<CoreConfig['follow'], 'requestTimeoutMs' | 'maxBodyBytes'>;

const FIRST_AVAILABLE_TTL_MS = 60_000;
const SMALL_ANSWER_BYTES = 8 * 1024 * 1024;

/** Blocks by polling JSON-RPC; a websocket only hints when to poll. */
export function createRpcChainSource({ chain, pool, core, clock, random, log, stream }: SourceOptions): ChainSource {
  const client = createRpcClient(pool, clock, random);
  const limits = core.follow;
  const block = createBlockRequest({
    client,
    limits,
    maxVersion: core.follow.maxSupportedTransactionVersion,
    rewards: core.ledger.retain.hours > 0,
  });
  const hints = createSlotHints({ pool, clock, log });
  let first: { readonly slot: number; readonly until: number } | null = null;

  async function small<T>(method: string, params: readonly unknown[], form: Form<T>, options: Asked): Promise<T> {
    const { result, error } = await client.ask({
      ...{ method, params, signal: options.signal, avoid: options.avoid ?? [] },
      timeoutMs: limits.requestTimeoutMs,
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
      timeoutMs: limits.requestTimeoutMs,
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
    upstreamCount: () => pool.states().length,
    isLimited: () => pool.states().some(({ reason }) => reason === RATE_LIMITED),
    history: createAddressHistory({
      ...{ client, random, limits },
      upstreamCount: () => pool.states().length,
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
          throw new CodedError('CHAIN_UNREACHABLE', 'no upstream reports its first available block', {
            retryable: true,
          });
        first = { slot: Math.min(...known), until: now + FIRST_AVAILABLE_TTL_MS };
      }
      return first.slot;
    },
    distrust(label, reason) {
      const upstream = pool.candidates().find((candidate) => candidate.label === label);
      if (upstream !== undefined) pool.report(upstream, { kind: 'contradicted', reason });
    },
    async confirmChain(signal) {
      // The remembered value may be of another chain.
      first = null;
      const before = outOfService(pool);
      await orAborted(pool.identify(), signal);
      const now = outOfService(pool);
      return now.length < pool.states().length && now.every((label) => before.includes(label));
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

/** Expected shape of a small result. */
interface Form<T> {
  readonly name: string;
  fits(value: unknown): boolean;
  isEmpty?(value: T): boolean;
}

const isSlot = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const SLOT: Form<number> = { name: 'slot', fits: isSlot };

/** A node that lost a range lists no slots there: an empty list is accepted only when no upstream returns more. */
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

export interface BlockRequestOptions {
  readonly client: RpcClient;
  readonly limits: RequestLimits;
  /** Highest transaction version requested at first. */
  readonly maxVersion: number;
  /** Whether blocks are requested with their rewards, which only the ledger needs; default false. */
  readonly rewards?: boolean;
}

/** Transaction versions are seven bits; a node that asks for a higher one is faulty. */
const HIGHEST_VERSION = 127;

/**
 * Requests whole blocks and remembers the highest transaction version that was needed. As soon as a version occurs that the byte decoder
 * does not know, blocks are requested as JSON, which shows every version.
 */
export function createBlockRequest({ client, limits, maxVersion, rewards = false }: BlockRequestOptions) {
  let version = maxVersion;

  async function once(slot: number, asked: number, options: AskOptions): Promise<BlockAnswer | 'higher'> {
    const encoding = asked <= HIGHEST_WIRE_VERSION ? 'base64' : 'json';
    let block: ChainBlock | null = null;
    const answered = await client.ask({
      method: 'getBlock',
      params: [
        slot,
        {
          encoding,
          transactionDetails: 'full',
          rewards,
          commitment: options.commitment,
          maxSupportedTransactionVersion: asked,
        },
      ],
      timeoutMs: limits.requestTimeoutMs,
      maxBytes: limits.maxBodyBytes,
      signal: options.signal,
      avoid: options.avoid ?? [],
      ...(encoding === 'base64' ? { scan: scanBlockAnswer } : {}),
      onNodeError: ({ code }) => (['skipped', 'version', 'fatal'].includes(meaningOf(code)) ? 'take' : 'next'),
      isEmpty: (result) => result === null,
      check: (result) => {
        if (result === null) return null;
        try {
          block = decodeBlock(slot, result);
          return null;
        } catch (error) {
          return messageOf(error);
        }
      },
    });
    if (block !== null) return { kind: 'block', block, upstream: answered.upstream.label };
    return withoutBlock(answered, slot);
  }

  return async function askBlock(slot: number, options: AskOptions): Promise<BlockAnswer> {
    for (;;) {
      const asked = version;
      const answer = await once(slot, asked, options);
      if (answer !== 'higher') return answer;
      if (asked >= HIGHEST_VERSION)
        throw new CodedError('CHAIN_BAD_BLOCK', `no upstream serves block ${slot} at any transaction version`);
      // Blocks are requested concurrently: a version raised by one need not be raised again.
      version = Math.max(version, asked + 1);
    }
  };
}

function withoutBlock({ upstream, error }: Answered, slot: number): BlockAnswer | 'higher' {
  if (error === undefined) return { kind: 'not-yet', upstream: upstream.label };
  const meaning = meaningOf(error.code);
  if (meaning === 'version') return 'higher';
  if (meaning === 'skipped' || meaning === 'not-yet' || meaning === 'pruned')
    return { kind: meaning, upstream: upstream.label };
  throw new CodedError('CHAIN_RPC_ERROR', `getBlock ${slot}: ${error.message}`, {
    retryable: true,
    facts: { method: 'getBlock', rpcCode: error.code, slot },
  });
}

export interface AddressHistoryOptions {
  readonly client: RpcClient;
  readonly random: Random;
  readonly upstreamCount: () => number;
  readonly limits: RequestLimits;
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
function createAddressHistory(options: AddressHistoryOptions): AddressHistory {
  const { client, random, limits, maxVersion } = options;

  async function ask(method: string, params: readonly unknown[], { signal, avoid = [] }: AskOptions) {
    const answered = await client.ask({
      ...{ method, params, signal, avoid, timeoutMs: limits.requestTimeoutMs, maxBytes: limits.maxBodyBytes },
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
        ...{ slot, parentSlot: slot - 1, blockhash: NO_HASH, previousBlockhash: NO_HASH, blockHeight: null },
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

const SUBSCRIBE = rpcRequest('slotSubscribe');
/** Slots arrive several times a second; a socket that is silent for this long is dead even if it looks open. */
const SILENCE_MS = 10_000;
const RECONNECT_BACKOFF = { firstMs: 500, longestMs: 30_000 };

interface SlotHints {
  onHint(wake: () => void): () => void;
  start(): void;
  stop(): Promise<void>;
}

/** Listens for slot notifications of one upstream. They only shorten waits: nothing depends on their arrival. */
export function createSlotHints({ pool, clock, log }: { pool: UpstreamPool; clock: Clock; log: Log }): SlotHints {
  const listeners = new Set<() => void>();
  let socket: WebSocket | null = null;
  let cancelTimer = (): void => {};
  /** Consecutive pauses without a notification between them. */
  let pauses = 0;
  /** Consecutive sockets without a notification: the next one is opened to the next upstream. */
  let useless = 0;
  let stopped = true;

  function connect(): void {
    const candidates = pool.candidates();
    const upstream = candidates[useless % Math.max(1, candidates.length)];
    if (stopped) return;
    if (upstream === undefined) {
      again();
      return;
    }
    const opened = pool.openSocket(upstream);
    socket = opened;
    let ended = false;
    const end = (): void => {
      if (ended) return;
      ended = true;
      opened.terminate();
      again();
    };
    const watch = (): void => {
      cancelTimer();
      cancelTimer = clock.timeout(SILENCE_MS, end);
    };
    useless += 1;
    watch();
    opened.on('open', () => opened.send(SUBSCRIBE));
    opened.on('message', (data) => {
      if (ended) return;
      const kind = kindOf(String(data));
      // A busy node refuses subscriptions, at once or later: treated as if it had closed the socket.
      if (kind === 'refused') return end();
      if (kind === 'accepted') return;
      useless = 0;
      pauses = 0;
      watch();
      for (const wake of listeners) wake();
    });
    opened.on('error', () => log.debug({ upstream: upstream.label }, 'no slot notifications from this upstream'));
    opened.on('close', end);
  }

  function again(): void {
    cancelTimer();
    if (stopped) return;
    pauses += 1;
    cancelTimer = clock.timeout(backoffMs(pauses, null, RECONNECT_BACKOFF), connect);
  }

  return {
    onHint(wake) {
      listeners.add(wake);
      return () => listeners.delete(wake);
    },
    start() {
      stopped = false;
      connect();
    },
    async stop() {
      stopped = true;
      cancelTimer();
      socket?.terminate();
      socket = null;
    },
  };
}

function kindOf(text: string): 'notice' | 'accepted' | 'refused' {
  if (text.includes('"slotNotification"')) return 'notice';
  return text.includes('"error"') ? 'refused' : 'accepted';
}
