import { isPlainObject, withoutBlanks } from '../../../src/lib/json.ts';
import { type RpcReplyParts, readRpcReply, withId } from '../../../src/lib/json-rpc.ts';
import { createLru } from '../../../src/lib/lru.ts';
import { slotsIn } from '../../../src/lib/slot-length.ts';
import type { RpcForward, RpcQuestion } from '../../../src/plugin/host.ts';
import type { ChainReader, Clock, UpstreamPool } from '../../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import { createAbortableFlight } from '../../../src/runtime/single-flight.ts';
import { DEVNET_GENESIS, MAINNET_GENESIS, TESTNET_GENESIS } from '../../../src/solana/programs.ts';
import type { ServedAnswer } from '../attempt.ts';
import { type AnswerCache, answerFor, bodyFor, type CacheKey, cacheEntry } from './answer-cache.ts';
import type { Epochs } from './epochs.ts';

interface CachedAskParts {
  readonly cache: AnswerCache;
  readonly identity: ChainIdentity;
  readonly epochs: Epochs;
  readonly disk: 'public' | 'any' | 'off';
  readonly maxEntryBytes: number;
  /** Newest slot that cannot be rolled back; null when unknown. */
  readonly finalizedSlot: () => number | null;
}

/** A call to the upstreams; an answer of up to `wholeBytes` is read completely. */
type AskOnce = (wholeBytes: number, signal: AbortSignal) => Promise<ServedAnswer>;

interface CachedAnswer {
  readonly answer: ServedAnswer;
  readonly hit: boolean;
}

export interface CachedAsk {
  /** The answer in memory, with the caller's id; null when it is not in memory. `id` is raw JSON. */
  atHand(question: RpcQuestion): string | Buffer | null;
  /** Answers from the cache or through one shared upstream call; null when the call is not cacheable. */
  ask(call: RpcForward, ask: AskOnce): Promise<CachedAnswer> | null;
}

/** A longer answer has a value. */
const MAX_NULL_VALUE_LENGTH = 512;

export function createCachedAsk(parts: CachedAskParts): CachedAsk {
  const { cache } = parts;
  const callKeyOf = createCallKeys(parts);
  const flights = createAbortableFlight<ServedAnswer>();

  async function answer(call: RpcForward, idText: string, key: CallKey, ask: AskOnce): Promise<CachedAnswer> {
    const entry = cache.peek(key) ?? (await cache.load(key));
    if (entry !== null) return { answer: whole(answerFor(entry, idText)), hit: true };
    const flown = await flights.run(key.memory, call.signal, (signal) => ask(parts.maxEntryBytes, signal));
    const { value, first } = flown;
    if (first) {
      if (value.kind === 'whole' && isFinal(key.question) && hasValue(key.question, value)) keep(key, value);
      return { answer: value, hit: false };
    }
    if (value.kind === 'whole' && value.parts.id !== null) {
      const bytes = withId(value.bytes, value.parts.id, idText);
      // A result that is checked before it is passed on is checked for each caller.
      const { upstream, sentAt } = value;
      return { answer: { ...whole(bytes), parts: readRpcReply(bytes) ?? NO_PARTS, upstream, sentAt }, hit: false };
    }
    // A stream has only one consumer.
    return { answer: await ask(0, call.signal), hit: false };
  }

  function keep(key: CacheKey, value: ServedAnswer & { kind: 'whole' }): void {
    const entry = cacheEntry(value.bytes, value.parts);
    if (entry !== null) cache.put(key, entry);
  }

  function isFinal({ finalFrom }: CacheableCall): boolean {
    const finalized = parts.finalizedSlot();
    return finalFrom === null || finalized === null || finalFrom <= finalized;
  }

  /** Whether it tells what never changes: a node that does not hold an epoch has `value: null` for it. */
  function hasValue(
    { epochSlot }: CacheableCall,
    { bytes, parts: { result } }: ServedAnswer & { kind: 'whole' },
  ): boolean {
    if (epochSlot === null || result === null) return epochSlot === null;
    const text = bytes.toString('utf8', result.start, result.end);
    return text.length > MAX_NULL_VALUE_LENGTH || (JSON.parse(text) as { value?: unknown }).value != null;
  }

  return {
    atHand(question) {
      const key = callKeyOf(question);
      const entry = key === null ? null : cache.peek(key);
      return entry === null ? null : bodyFor(entry, question.id);
    },
    ask(call, ask) {
      const key = call.id === undefined ? null : callKeyOf(call);
      return key === null ? null : answer(call, call.id as string, key, ask);
    },
  };
}

const NO_PARTS: RpcReplyParts = { id: null, result: null, error: null };

/** The parts of what was kept are unused, and nobody was asked for it. */
const whole = (bytes: Buffer): ServedAnswer & { readonly kind: 'whole' } => ({
  kind: 'whole',
  bytes,
  parts: NO_PARTS,
  meaning: null,
  retryAfterMs: null,
  upstream: '',
  sentAt: Number.NEGATIVE_INFINITY,
});

/** A call whose answer never changes once it exists. */
export interface CacheableCall {
  /** Equal for equivalent calls. */
  readonly key: string;
  /** Slot that must be finalized before the answer is final; null when the node checks that. */
  readonly finalFrom: number | null;
  /** The answer is one of the epoch of this slot; null: of the call as it is written. */
  readonly epochSlot: number | null;
}

/** The question of a call; null when its answer may change or its parameters cannot be read safely. */
export function cacheableCallOf(method: string, paramsText: string | null): CacheableCall | null {
  if (method === 'getGenesisHash' || method === 'getAgGenesisCert') {
    const isBare = paramsText === null || withoutBlanks(paramsText) === '[]';
    return isBare ? { key: method, finalFrom: null, epochSlot: null } : null;
  }
  if (method === 'getRankMap') return rankMapQuestion(paramsText);
  if (method !== 'getTransaction' && method !== 'getBlock' && method !== 'getBlockTime') return null;
  const params = paramsText === null ? null : plainArray(paramsText);
  if (params === null || params.length === 0) return null;
  const [subject, options] = params;
  if (method === 'getTransaction' ? typeof subject !== 'string' : !isSlot(subject)) return null;
  if (method === 'getBlockTime') {
    if (params.length !== 1) return null;
    return { key: `${method} ${subject}`, finalFrom: subject as number, epochSlot: null };
  }
  const settled = params.length > 2 ? null : settledOptions(options);
  if (settled === null) return null;
  return { key: `${method} ${JSON.stringify(subject)} ${settled}`, finalFrom: null, epochSlot: null };
}

/** Ranks are those of the whole epoch; the context of the answer stays that of the first one. */
function rankMapQuestion(paramsText: string | null): CacheableCall | null {
  const params = paramsText === null ? null : plainArray(paramsText);
  if (params === null || params.length < 1 || params.length > 2) return null;
  const [slot, config = null] = params;
  if (!isSlot(slot) || !(config === null || isPlainObject(config))) return null;
  const { identity = null, ...rest } = config ?? {};
  if (Object.keys(rest).length > 0 || !(identity === null || typeof identity === 'string')) return null;
  return { key: `getRankMap ${identity ?? ''}`, finalFrom: null, epochSlot: slot };
}

/**
 * The array, if parsing and serializing it gives the same text: it then has no duplicate member and no number that parsers
 * read differently, so that every node reads the call like the key.
 */
function plainArray(text: string): unknown[] | null {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && JSON.stringify(value) === withoutBlanks(text) ? value : null;
  } catch {
    return null;
  }
}

const isSlot = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

const OPTIONS = ['commitment', 'encoding', 'transactionDetails', 'rewards', 'maxSupportedTransactionVersion'];
const FOLDED_OPTIONS = new Set(OPTIONS.map((name) => name.toUpperCase()));

/** Whether a case-insensitive reader would take it for an option that it is not. */
const isLoose = (name: string): boolean => !OPTIONS.includes(name) && FOLDED_OPTIONS.has(name.toUpperCase());

/** Canonical text of the options of a finalized read; null for another commitment. A bare string is an encoding. */
function settledOptions(options: unknown): string | null {
  if (options === undefined || options === null) return '{}';
  if (typeof options === 'string') return JSON.stringify({ encoding: options });
  if (!isPlainObject(options) || Object.keys(options).some(isLoose)) return null;
  const { commitment, ...rest } = options;
  if (commitment !== undefined && commitment !== null && commitment !== 'finalized') return null;
  return JSON.stringify(Object.fromEntries(Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1))));
}

/** The cache key of a call's answer. */
export interface CallKey extends CacheKey {
  readonly question: CacheableCall;
}

/** Finds the cache key; null when the call is not cacheable or the chain is unknown. */
type CallKeys = (call: Pick<RpcForward, 'method' | 'body' | 'params'>) => CallKey | null;

/** Calls recur verbatim: the keys of this many call texts are cached, up to a maximum length. */
const KNOWN_CALLS = 4_096;
const KNOWN_LENGTH = 512;

interface KnownCall {
  readonly question: CacheableCall;
  chain: Identity;
  key: CallKey;
}

function createCallKeys({ identity, epochs, disk }: Pick<CachedAskParts, 'identity' | 'epochs' | 'disk'>): CallKeys {
  const known = createLru<string, KnownCall>({ max: KNOWN_CALLS });

  return ({ method, body, params }) => {
    const text = params === null ? null : body.toString('utf8', params.start, params.end);
    const name = `${method} ${text ?? ''}`;
    const hit = known.get(name);
    const question = hit === undefined ? cacheableCallOf(method, text) : hit.question;
    // Only now: finding the identity costs a call.
    const chain = question === null ? null : identity.current();
    if (question === null || chain === null) return null;
    if (hit !== undefined && isSame(hit.chain, chain)) return hit.key;
    const { epochSlot } = question;
    const epoch = epochSlot === null ? null : epochs.of(`${chain.genesisHash} ${chain.life}`, epochSlot);
    if (epochSlot !== null && epoch === null) return null;
    const key = { ...cacheKey(question, epoch, chain, disk), question };
    if (name.length <= KNOWN_LENGTH) known.set(name, { question, chain, key });
    return key;
  };
}

function isSame(one: Identity, other: Identity): boolean {
  return one === other || (one.genesisHash === other.genesisHash && one.life === other.life);
}

function cacheKey(
  question: CacheableCall,
  epoch: number | null,
  { genesisHash, life, isPublic }: Identity,
  disk: string,
): CacheKey {
  const onDisk = disk === 'any' || (disk === 'public' && isPublic);
  const key = epoch === null ? question.key : `${question.key} ${epoch}`;
  return { memory: `${genesisHash} ${life} ${key}`, disk: onDisk ? `${genesisHash} ${key}` : null };
}

/** Which chain the upstreams answer for. */
interface ChainIdentity {
  /** Null until known; calling it starts the look-up. */
  current(): Identity | null;
}

interface Identity {
  readonly genesisHash: string;
  /** Number of observed restarts of a throw-away chain, whose genesis hash can stay the same. */
  readonly life: number;
  readonly isPublic: boolean;
}

const PUBLIC_CLUSTERS: ReadonlySet<string> = new Set([MAINNET_GENESIS, DEVNET_GENESIS, TESTNET_GENESIS]);
/** A node that only lags is excluded from the pool before it is this far behind. */
const RESTART_MS = 60_000;
/** No cluster has shorter slots; a chain that seals a block per transaction has no slot length. */
const SHORTEST_SLOT_MS = 100;
const ASK_AGAIN_MS = 5_000;
const KEEP_MS = 250;
const ASK_TIMEOUT_MS = 10_000;

export function createChainIdentity(pool: UpstreamPool, reader: ChainReader | null, clock: Clock): ChainIdentity {
  let askedAt = Number.NEGATIVE_INFINITY;
  let life = 0;
  let highestSlot = 0;

  /** A node behind a load balancer may jump back a little; a chain that restarts jumps back to its start. */
  function watchForRestart(): void {
    let best = -1;
    for (const { slot } of pool.states()) if (slot !== null && slot > best) best = slot;
    if (best < 0) return;
    const measured = reader?.status().slotMs ?? null;
    const slotMs = measured === null ? null : Math.max(measured, SHORTEST_SLOT_MS);
    if (best < highestSlot - slotsIn(RESTART_MS, slotMs)) {
      life++;
      highestSlot = best;
    } else if (best > highestSlot) highestSlot = best;
  }

  let kept: Identity | null = null;
  let keptUntil = Number.NEGATIVE_INFINITY;

  return {
    current() {
      // Read for each cacheable call; the slots it depends on change only with health checks.
      if (kept !== null && clock.monotonic() < keptUntil) return kept;
      const genesisHash = reader?.status().genesisHash ?? null;
      if (genesisHash !== null) {
        const isPublic = PUBLIC_CLUSTERS.has(genesisHash);
        if (!isPublic) watchForRestart();
        kept = { genesisHash, life, isPublic };
        keptUntil = clock.monotonic() + KEEP_MS;
        return kept;
      }
      if (clock.monotonic() - askedAt >= ASK_AGAIN_MS) {
        askedAt = clock.monotonic();
        // The status of the reader has the hash from then on.
        void reader?.call('getGenesisHash', [], { tenant: OWN_WORK, timeoutMs: ASK_TIMEOUT_MS }).catch(() => undefined);
      }
      return null;
    },
  };
}
