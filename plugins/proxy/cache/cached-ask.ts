import { isPlainObject } from '../../../src/lib/json.ts';
import { withoutBlanks } from '../../../src/lib/json-members.ts';
import { createLru } from '../../../src/lib/lru.ts';
import { withId } from '../../../src/lib/rpc-reply.ts';
import type { RpcForward, RpcQuestion } from '../../../src/plugin/host.ts';

import type { Answer } from '../ask.ts';
import { type AnswerCache, answerFor, bodyFor, type CacheKey, cacheEntry } from './answer-cache.ts';
import type { ChainIdentity, Identity } from './chain-identity.ts';

interface CachedAskParts {
  readonly cache: AnswerCache;
  readonly identity: ChainIdentity;
  readonly disk: 'public' | 'any' | 'off';
  readonly maxEntryBytes: number;
  /** Newest slot that can not be rolled back, or null when that is not known. */
  readonly finalizedSlot: () => number | null;
}

/** A call to the upstreams; the answer is read as a whole up to `wholeBytes`. */
type AskOnce = (wholeBytes: number, signal: AbortSignal) => Promise<Answer>;

interface CachedAnswer {
  readonly answer: Answer;
  readonly hit: boolean;
}

export interface CachedAsk {
  /** The answer as it is in memory, with the caller's id; null when it is not there. `id` is raw JSON. */
  atHand(question: RpcQuestion): string | Buffer | null;
  /** Answers from the cache or through one shared upstream call; null when the call is not cacheable. */
  ask(call: RpcForward, ask: AskOnce): Promise<CachedAnswer> | null;
}

export function createCachedAsk(parts: CachedAskParts): CachedAsk {
  const { cache } = parts;
  const keyOf = createCallKeys(parts.identity, parts.disk);
  const flights = createSingleFlight<Answer>();

  async function answer(call: RpcForward, idText: string, key: CallKey, ask: AskOnce): Promise<CachedAnswer> {
    const entry = cache.peek(key) ?? (await cache.load(key));
    if (entry !== null) return { answer: whole(answerFor(entry, idText)), hit: true };
    const flown = await flights.run(key.memory, call.signal, (signal) => ask(parts.maxEntryBytes, signal));
    const { value, first } = flown;
    if (first) {
      if (value.kind === 'whole' && isFinal(key.question)) keep(key, value);
      return { answer: value, hit: false };
    }
    if (value.kind === 'whole' && value.parts.id !== null) {
      return { answer: whole(withId(value.bytes, value.parts.id, idText)), hit: false };
    }
    // Only one caller can read a stream.
    return { answer: await ask(0, call.signal), hit: false };
  }

  function keep(key: CacheKey, value: Answer & { kind: 'whole' }): void {
    const entry = cacheEntry(value.bytes, value.parts);
    if (entry !== null) cache.put(key, entry);
  }

  function isFinal({ finalFrom }: Question): boolean {
    const finalized = parts.finalizedSlot();
    return finalFrom === null || finalized === null || finalFrom <= finalized;
  }

  return {
    atHand(question) {
      const key = keyOf(question);
      const entry = key === null ? null : cache.peek(key);
      return entry === null ? null : bodyFor(entry, question.id);
    },
    ask(call, ask) {
      const key = call.id === undefined ? null : keyOf(call);
      return key === null ? null : answer(call, call.id as string, key, ask);
    },
  };
}

/** The parts are not needed any more once the id is exchanged. */
const whole = (bytes: Buffer): Answer => ({ kind: 'whole', bytes, parts: { id: null, result: null, error: null } });

/** Runs work once for all who ask for it at the same time. */
interface SingleFlight<T> {
  /**
   * The first caller of a key starts `work`, the others wait for the same outcome. A caller whose signal aborts leaves with the
   * signal's reason; the work is aborted when all of them have left.
   */
  run(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<Flown<T>>;
  readonly size: () => number;
}

interface Flown<T> {
  readonly value: T;
  /** Whether this caller started the work: of a value that only one can consume it is the one. */
  readonly first: boolean;
}

interface Flight<T> {
  readonly promise: Promise<T>;
  readonly controller: AbortController;
  waiting: number;
}

export function createSingleFlight<T>(): SingleFlight<T> {
  const flights = new Map<string, Flight<T>>();

  function start(key: string, work: (signal: AbortSignal) => Promise<T>): Flight<T> {
    const controller = new AbortController();
    const promise = work(controller.signal).finally(() => {
      if (flights.get(key) === flight) flights.delete(key);
    });
    // Everybody may have left; the rejection is then nobody's.
    promise.catch(() => {});
    const flight: Flight<T> = { promise, controller, waiting: 0 };
    flights.set(key, flight);
    return flight;
  }

  async function run(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<Flown<T>> {
    signal.throwIfAborted();
    const running = flights.get(key);
    const flight = running ?? start(key, work);
    flight.waiting++;
    let onAbort = () => {};
    const left = new Promise<never>((_, reject) => {
      onAbort = () => {
        reject(signal.reason as Error);
        if (flight.waiting > 1) return;
        if (flights.get(key) === flight) flights.delete(key);
        flight.controller.abort(signal.reason);
      };
    });
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return { value: await Promise.race([flight.promise, left]), first: running === undefined };
    } finally {
      flight.waiting--;
      signal.removeEventListener('abort', onAbort);
    }
  }

  return { run, size: () => flights.size };
}

/** A call whose answer, once it is there, can never change. */
export interface Question {
  /** Equal for calls that mean the same. */
  readonly key: string;
  /** The slot whose answer is only final once the chain has finalized it; null where the node checks that itself. */
  readonly finalFrom: number | null;
}

/** The question behind a call, or null when its answer may change or when its parameters are not plainly readable. */
export function questionOf(method: string, paramsText: string | null): Question | null {
  if (method === 'getGenesisHash') {
    return paramsText === null || withoutBlanks(paramsText) === '[]' ? { key: method, finalFrom: null } : null;
  }
  if (method !== 'getTransaction' && method !== 'getBlock' && method !== 'getBlockTime') return null;
  const params = paramsText === null ? null : plainArray(paramsText);
  if (params === null || params.length === 0) return null;
  const [subject, options] = params;
  if (method === 'getTransaction' ? typeof subject !== 'string' : !isSlot(subject)) return null;
  if (method === 'getBlockTime') {
    return params.length === 1 ? { key: `${method} ${subject}`, finalFrom: subject as number } : null;
  }
  const settled = params.length > 2 ? null : settledOptions(options);
  return settled === null ? null : { key: `${method} ${JSON.stringify(subject)} ${settled}`, finalFrom: null };
}

/**
 * The array, if reading and writing it again gives the same text: then it has no member twice and no number that a parser could
 * take differently, so that every node understands what the key says.
 */
function plainArray(text: string): unknown[] | null {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && JSON.stringify(value) === withoutBlanks(text) ? value : null;
  } catch {
    return null;
  }
}

const isSlot = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;

const OPTIONS = ['commitment', 'encoding', 'transactionDetails', 'rewards', 'maxSupportedTransactionVersion'];
const FOLDED_OPTIONS = new Set(OPTIONS.map((name) => name.toUpperCase()));

/** Whether a reader that ignores case would take it for an option that it is not. */
const isLoose = (name: string): boolean => !OPTIONS.includes(name) && FOLDED_OPTIONS.has(name.toUpperCase());

/** Canonical text of the options of a finalized read, or null for another commitment. A bare string is an encoding. */
function settledOptions(options: unknown): string | null {
  if (options === undefined || options === null) return '{}';
  if (typeof options === 'string') return JSON.stringify({ encoding: options });
  if (!isPlainObject(options) || Object.keys(options).some(isLoose)) return null;
  const { commitment, ...rest } = options;
  if (commitment !== undefined && commitment !== null && commitment !== 'finalized') return null;
  return JSON.stringify(Object.fromEntries(Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1))));
}

/** The place of a call's answer in the cache. */
export interface CallKey extends CacheKey {
  readonly question: Question;
}

/** Finds the cache key; null when the call is not cacheable or the chain is not known yet. */
type CallKeys = (call: Pick<RpcForward, 'method' | 'body' | 'params'>) => CallKey | null;

/** Calls come again as they came before: what their text means is kept for so many, if they are no longer than this. */
const KNOWN_CALLS = 4_096;
const KNOWN_LENGTH = 512;

interface KnownCall {
  readonly question: Question;
  chain: Identity;
  key: CallKey;
}

function createCallKeys(identity: ChainIdentity, disk: 'public' | 'any' | 'off'): CallKeys {
  const known = createLru<string, KnownCall>({ max: KNOWN_CALLS });

  return ({ method, body, params }) => {
    const text = params === null ? null : body.toString('utf8', params.start, params.end);
    const name = `${method} ${text ?? ''}`;
    const hit = known.get(name);
    const question = hit === undefined ? questionOf(method, text) : hit.question;
    // The identity is asked for only then: finding it out is a call of its own.
    const chain = question === null ? null : identity.current();
    if (question === null || chain === null) return null;
    if (hit !== undefined && isSame(hit.chain, chain)) return hit.key;
    const key = { ...cacheKey(question, chain, disk), question };
    if (name.length <= KNOWN_LENGTH) known.set(name, { question, chain, key });
    return key;
  };
}

function isSame(one: Identity, other: Identity): boolean {
  return one === other || (one.genesisHash === other.genesisHash && one.life === other.life);
}

function cacheKey({ key }: Question, { genesisHash, life, isPublic }: Identity, disk: string): CacheKey {
  const onDisk = disk === 'any' || (disk === 'public' && isPublic);
  return { memory: `${genesisHash} ${life} ${key}`, disk: onDisk ? `${genesisHash} ${key}` : null };
}
