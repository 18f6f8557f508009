import type { WebSocket } from 'ws';
import type { CoreConfig } from '../../../config/core.ts';
import { encode32 } from '../../../lib/base58.ts';
import { CodedError, codeOf, messageOf } from '../../../lib/coded-error.ts';
import { parseExact } from '../../../lib/json.ts';
import { rpcRequest } from '../../../lib/json-rpc.ts';
import { OWN_WORK } from '../../../ports/access.ts';
import type { BlockHeader, ChainBlock } from '../../../ports/block.ts';
import type {
  AddressEntry,
  AddressHistory,
  AskOptions,
  BlockAnswer,
  BlockStream,
  ChainId,
  ChainSource,
  FooterStream,
} from '../../../ports/chain.ts';
import type { Clock, Random } from '../../../ports/clock.ts';
import type { Log } from '../../../ports/telemetry.ts';
import type { Upstream, UpstreamPool } from '../../../ports/upstream.ts';
import { backoffMs, orAborted } from '../../../runtime/waiting.ts';
import { decodeBlock, decodeEntries, faultyTransactions } from '../../../solana/decode/decode-block.ts';
import { type DecodedAnswer, mergeJson } from '../../../solana/decode/merge.ts';
import { decodeHeader } from '../../../solana/decode/response.ts';
import { scanBlockAnswer } from '../../../solana/decode/scan-block.ts';
import { isFinalAnswer, meaningOfNodeError, type NodeErrorMeaning } from '../../../solana/node-errors.ts';
import { createFinalityChecks } from '../finality/index.ts';
import { type Answered, createRpcClient, type RpcClient, resultText } from './client.ts';
import { askConsensus, mergeConsensus } from './consensus.ts';
import { DISTRUSTED, RATE_LIMITED } from './member.ts';
import { createAgreedBlocks } from './quorum.ts';

export interface SourceOptions {
  readonly chain: ChainId;
  readonly pool: UpstreamPool;
  readonly core: CoreConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Pushes blocks, in addition to polling. */
  readonly stream?: BlockStream;
  /** Pushes the certificates that are checked. */
  readonly footers?: FooterStream;
}

/** Limits of one call, read anew for each call, because a reload may change them. */
type RequestLimits = Pick<CoreConfig['follow'], 'requestTimeoutMs' | 'maxBodyBytes'>;

const FIRST_AVAILABLE_TTL_MS = 60_000;
const SMALL_ANSWER_BYTES = 8 * 1024 * 1024;
/** Deadline of a question to every upstream: a dead one must not hold up the others. */
const TIP_TIMEOUT_MS = 4_000;

const unreachable = (message: string) => new CodedError('CHAIN_UNREACHABLE', message, { retryable: true });

/** Blocks by polling JSON-RPC; a websocket only hints when to poll. */
export function createRpcChainSource({
  chain,
  pool,
  core,
  clock,
  random,
  log,
  stream,
  footers,
}: SourceOptions): ChainSource {
  const client = createRpcClient(pool, clock, random);
  const limits = core.follow;
  const oneBlock = createBlockRequest({
    client,
    limits,
    maxVersion: core.follow.maxSupportedTransactionVersion,
    contradicted: (upstream, reason) => pool.report(upstream, { kind: 'contradicted', reason }),
  });
  const hints = createSlotHints({ pool, clock, log });
  const finality = createFinalityChecks({
    chain,
    clock,
    random,
    log,
    footers: footers ?? null,
    cores: core.follow.finality.checkCores,
    ask: (signal) => (method, params) => askExactly(method, params, signal),
  });
  let first: { readonly slot: number; readonly until: number } | null = null;

  /** Integers above 2^53 become bigints. Undefined: no upstream has an answer. */
  async function askExactly(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const answered = await client
      .ask({
        method,
        params,
        signal,
        tenant: OWN_WORK,
        timeoutMs: limits.requestTimeoutMs,
        maxBytes: SMALL_ANSWER_BYTES,
        isFinal: () => false,
        scan: resultText,
        check: (text) => (typeof text === 'string' && !isJson(text) ? `its answer to ${method} is no JSON` : null),
      })
      .catch(() => null);
    const result = answered?.result;
    return typeof result === 'string' ? parseExact(result) : result;
  }

  async function small<T>(
    method: string,
    params: readonly unknown[],
    form: Form<T>,
    options: RequestOptions,
  ): Promise<T> {
    const { result, error } = await client.ask({
      method,
      params,
      signal: options.signal,
      tenant: OWN_WORK,
      avoid: options.avoid ?? [],
      timeoutMs: Math.min(limits.requestTimeoutMs, options.timeoutMs ?? Number.POSITIVE_INFINITY),
      maxBytes: SMALL_ANSWER_BYTES,
      isFinal: () => false,
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

  /** Undefined: the upstream did not answer, or with an error. */
  async function askOne(label: string, method: string, params: readonly unknown[], signal: AbortSignal) {
    const answered = await client
      .ask({
        method,
        params,
        signal,
        tenant: OWN_WORK,
        avoid: others(pool, label),
        timeoutMs: Math.min(limits.requestTimeoutMs, TIP_TIMEOUT_MS),
        maxBytes: SMALL_ANSWER_BYTES,
      })
      .catch(() => null);
    return answered?.result;
  }

  async function oneHeader(slot: number, options: AskOptions): Promise<BlockHeader | null> {
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
      tenant: OWN_WORK,
      avoid: options.avoid ?? [],
      timeoutMs: limits.requestTimeoutMs,
      maxBytes: SMALL_ANSWER_BYTES,
      isFinal: () => false,
      check: (value) => (value === null ? null : faultOfHeader(slot, value)),
      isEmpty: (value) => value === null,
    });
    if (error !== undefined) {
      const meaning = meaningOfNodeError(error, 'getBlock');
      if (meaning !== 'version' && stateOfBlock(meaning) === null)
        throw new CodedError('CHAIN_RPC_ERROR', `getBlock ${slot}: ${error.message}`, {
          retryable: true,
          facts: { method: 'getBlock', rpcCode: error.code },
        });
      return null;
    }
    return result === null ? null : decodeHeader(slot, result);
  }

  const agreed =
    pool.quorum === undefined
      ? null
      : createAgreedBlocks({
          pool,
          quorum: pool.quorum,
          clock,
          log,
          block: oneBlock,
          headerOf: (label, slot, options) => oneHeader(slot, { ...options, avoid: others(pool, label) }),
        });
  const pushed = stream === undefined || agreed === null ? stream : agreed.stream(stream);

  return {
    chain,
    upstreamCount: () => pool.states().length,
    isLimited: () => pool.states().some(({ reason }) => reason === RATE_LIMITED),
    history: createAddressHistory({
      client,
      random,
      limits,
      upstreamCount: () => pool.states().length,
      maxVersion: core.follow.maxSupportedTransactionVersion,
    }),
    block: (slot, options) => (agreed?.isOn() === true ? agreed.block(slot, options) : oneBlock(slot, options)),
    header: (slot, options) => (agreed?.isOn() === true ? agreed.header(slot, options) : oneHeader(slot, options)),
    disagreement: (aboveSlot) => agreed?.trouble(aboveSlot) ?? null,
    distrusted: () =>
      pool.states().flatMap(({ label, reason }) => (reason?.startsWith(DISTRUSTED) ? [`${label} ${reason}`] : [])),
    async consensus(signal) {
      const facts = await Promise.all(
        pool.candidates().map(({ label }) => askConsensus((method, params) => askOne(label, method, params, signal))),
      );
      signal.throwIfAborted();
      return mergeConsensus(facts);
    },
    tip: (options) => small('getSlot', [{ commitment: options.commitment }], SLOT, options),
    async highestTip({ commitment, signal }) {
      const candidates = pool.candidates();
      // One is asked as always: that call takes its time when it fails, which its callers rely on.
      if (candidates.length < 2) return await small('getSlot', [{ commitment }], SLOT, { signal });
      const tips = await Promise.allSettled(
        candidates.map(({ label }) =>
          small('getSlot', [{ commitment }], SLOT, {
            signal,
            avoid: others(pool, label),
            timeoutMs: TIP_TIMEOUT_MS,
          }),
        ),
      );
      signal.throwIfAborted();
      const known = tips.flatMap((tip) => (tip.status === 'fulfilled' ? [tip.value] : []));
      if (known.length === 0) throw unreachable('no upstream reports its slot');
      return Math.max(...known);
    },
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
        if (known.length === 0) throw unreachable('no upstream reports its first available block');
        first = { slot: Math.min(...known), until: now + FIRST_AVAILABLE_TTL_MS };
      }
      return first.slot;
    },
    distrust(label, reason) {
      const upstream = pool.candidates().find((candidate) => candidate.label === label);
      if (upstream !== undefined) pool.report(upstream, { kind: 'contradicted', reason });
    },
    async recheck(label, served, signal) {
      const ask = { commitment: 'finalized', signal, avoid: others(pool, label) } as const;
      const now = await oneHeader(served.slot, ask).catch(() => null);
      if (now !== null && now.blockhash !== served.blockhash)
        this.distrust(label, `it served two final blocks of slot ${served.slot}`);
    },
    async confirmChain(signal) {
      // The remembered value may be of another chain.
      first = null;
      const before = outOfService(pool);
      const isProven = await orAborted(pool.identify(), signal);
      const now = outOfService(pool);
      return isProven && now.length < pool.states().length && now.every((label) => before.includes(label));
    },
    outOfService: () => outOfService(pool),
    onHint: hints.onHint,
    ...(pushed === undefined ? {} : { stream: pushed }),
    finality,
    async start() {
      await stream?.start();
      hints.start();
    },
    stop: () => hints.stop(),
  };
}

function isJson(text: string): boolean {
  try {
    parseExact(text);
    return true;
  } catch {
    return false;
  }
}

const outOfService = (pool: UpstreamPool): readonly string[] =>
  pool.states().flatMap(({ inService, label }) => (inService ? [] : [label]));

type RequestOptions = Pick<AskOptions, 'signal' | 'avoid'> & {
  /** Less than the deadline of all calls. */
  readonly timeoutMs?: number;
};

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

/** No block but the first has the hash of its parent: that of an empty one is its parent's, hashed. */
const isOwnParent = ({ slot, blockhash, previousBlockhash }: BlockHeader) =>
  slot !== 0 && blockhash === previousBlockhash;
const OWN_PARENT = 'a block has the hash of its parent';

function faultOfHeader(slot: number, value: unknown): string | null {
  try {
    return isOwnParent(decodeHeader(slot, value)) ? OWN_PARENT : null;
  } catch (error) {
    return messageOf(error);
  }
}

export interface BlockRequestOptions {
  readonly client: RpcClient;
  readonly limits: RequestLimits;
  /** Highest transaction version requested at first. */
  readonly maxVersion: number;
  /** Called for an upstream that sent a transaction which another one proved false. */
  readonly contradicted?: (upstream: Upstream, reason: string) => void;
}

const INVALID_PARAMS = -32_602;
/** The parameter is a byte; a node that asks for a higher version is faulty. */
const HIGHEST_VERSION = 255;

/** A decoded block and who sent it. */
interface SentBlock extends DecodedAnswer {
  readonly upstream: Upstream;
}

/**
 * Requests whole blocks in base64 and remembers the highest transaction version that was needed.
 *
 * A transaction that cannot be read never condemns its block: what is malformed, and what lacks a part, is asked of the other upstreams, and
 * what remains unreadable as JSON, which can show versions whose bytes are unknown here. What is unreadable there too is kept as it came.
 * A node that refuses base64 is asked for JSON at once.
 * An upstream is contradicted only by bytes that another one has for the same block.
 */
export function createBlockRequest(options: BlockRequestOptions) {
  const { client, limits, maxVersion } = options;
  let version = maxVersion;

  const question = (
    slot: number,
    encoding: 'base64' | 'json',
    asked: number,
    { commitment, signal, avoid = [] }: AskOptions,
  ) => ({
    method: 'getBlock',
    params: [
      slot,
      { encoding, transactionDetails: 'full', rewards: true, commitment, maxSupportedTransactionVersion: asked },
    ],
    timeoutMs: limits.requestTimeoutMs,
    maxBytes: limits.maxBodyBytes,
    signal,
    tenant: OWN_WORK,
    avoid,
    scan: scanBlockAnswer,
  });

  async function once(
    slot: number,
    encoding: 'base64' | 'json',
    asked: number,
    options_: AskOptions,
  ): Promise<BlockAnswer | Higher> {
    const sent: SentBlock[] = [];
    const answered = await client.ask({
      ...question(slot, encoding, asked, options_),
      // A claim that the slot was skipped goes to the follower: it asks the others itself, and distrusts who was wrong.
      isFinal: (meaning) => isFinalAnswer(meaning) || meaning === 'skipped-or-lost',
      isEmpty: (result) => result === null || isDoubtful(sent.at(-1)!.block),
      check: (result, upstream) => {
        if (result === null) return null;
        try {
          const block = decodeBlock(slot, result);
          if (isOwnParent(block)) return OWN_PARENT;
          sent.push({ result, upstream, block });
          return null;
        } catch (error) {
          return messageOf(error);
        }
      },
    });
    const best = bestOf(sent);
    if (best === null) return withoutBlock(answered, slot);
    for (const { upstream, block } of sent) {
      const reason = upstream === best.upstream ? null : contradictionOf(block, best.block);
      if (reason !== null) options.contradicted?.(upstream, reason);
    }
    const block =
      encoding === 'base64' && best.block.transactions.some(({ isOpaque }) => isOpaque)
        ? ((await asJson(slot, asked, best, options_)) ?? best.block)
        : best.block;
    return { kind: 'block', block, upstream: best.upstream.label };
  }

  /** The block with the transactions that can be read as JSON; null when that says nothing more, or no upstream has it so. */
  async function asJson(
    slot: number,
    asked: number,
    base: SentBlock,
    options_: AskOptions,
  ): Promise<ChainBlock | null> {
    let merged: ChainBlock | null = null;
    try {
      await client.ask({
        ...question(slot, 'json', asked, options_),
        isFinal: () => false,
        isEmpty: (result) => {
          if (result === null) return true;
          try {
            merged = mergeJson(base, { result, block: decodeBlock(slot, result) });
          } catch {
            // It is no answer of this block: as if there were none.
          }
          return merged === null;
        },
      });
    } catch (error) {
      options_.signal.throwIfAborted();
      if (codeOf(error) === undefined) throw error;
    }
    return merged;
  }

  /** A node that refuses base64 is asked for JSON. */
  async function inAnyEncoding(slot: number, asked: number, options_: AskOptions): Promise<BlockAnswer | Higher> {
    try {
      return await once(slot, 'base64', asked, options_);
    } catch (error) {
      const refused = error instanceof CodedError && error.facts['rpcCode'] === INVALID_PARAMS;
      if (!refused) throw error;
      return await once(slot, 'json', asked, options_).catch(() => {
        throw error;
      });
    }
  }

  return async function askBlock(slot: number, options_: AskOptions): Promise<BlockAnswer> {
    for (;;) {
      const asked = version;
      const answer = await inAnyEncoding(slot, asked, options_);
      if (answer.kind !== 'higher') return answer;
      if (asked >= HIGHEST_VERSION)
        throw new CodedError('CHAIN_BAD_BLOCK', `no upstream serves block ${slot} at any transaction version`);
      // Blocks are requested concurrently: a version raised by one need not be raised again.
      version = Math.max(version, Math.min(HIGHEST_VERSION, answer.version ?? asked + 1), asked + 1);
    }
  };
}

/** Another upstream may have what this answer lacks. */
const isDoubtful = (block: ChainBlock): boolean =>
  faultyTransactions(block).some(({ fault }) => fault!.kind === 'message' || fault!.kind === 'meta');

/** The answer with the fewest transactions that could not be read; the first of equal ones. */
function bestOf(sent: readonly SentBlock[]): SentBlock | null {
  const faultCount = ({ block }: SentBlock) => faultyTransactions(block).length;
  return sent.reduce<SentBlock | null>(
    (best, one) => (best === null || faultCount(one) < faultCount(best) ? one : best),
    null,
  );
}

/** Which bytes of a block another upstream proves false: malformed here, readable there. */
function contradictionOf(block: ChainBlock, best: ChainBlock): string | null {
  if (block.blockhash !== best.blockhash) return null;
  for (const { index, fault, wire } of faultyTransactions(block)) {
    const other = best.transactions[index];
    if (fault!.kind !== 'message' || other === undefined || other.fault !== null) continue;
    if (wire === null || other.wire === null || Buffer.compare(wire, other.wire) !== 0)
      return `block ${block.slot}, transaction ${index}: ${fault!.reason}; another upstream has other bytes`;
  }
  return null;
}

/** The node shows the block only to those who accept this version; null when it does not say which. */
interface Higher {
  readonly kind: 'higher';
  readonly version: number | null;
}

function higherOf(message: string): Higher {
  const named = /"maxSupportedTransactionVersion": ?(\d{1,3})\b/.exec(message)?.[1];
  return { kind: 'higher', version: named === undefined ? null : Number(named) };
}

/** What a refusal says about the block; null: nothing. */
function stateOfBlock(meaning: NodeErrorMeaning): 'skipped' | 'not-yet' | 'pruned' | null {
  if (meaning === 'skipped' || meaning === 'skipped-or-lost') return 'skipped';
  if (meaning === 'no-history') return 'pruned';
  return meaning === 'not-yet' ? 'not-yet' : null;
}

function withoutBlock({ upstream, error }: Answered, slot: number): BlockAnswer | Higher {
  if (error === undefined) return { kind: 'not-yet', upstream: upstream.label };
  const meaning = meaningOfNodeError(error, 'getBlock');
  if (meaning === 'version') return higherOf(error.message);
  const state = stateOfBlock(meaning);
  if (state !== null) return { kind: state, upstream: upstream.label };
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
