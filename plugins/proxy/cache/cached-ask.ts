import { withId } from '../../../src/lib/rpc-reply.ts';
import type { RpcForward, RpcQuestion } from '../../../src/plugin/host.ts';
import type { Answer } from '../forward/attempt.ts';
import type { AnswerCache, CacheKey } from './answer-cache.ts';
import type { ChainIdentity } from './chain-identity.ts';
import { answerFor, bodyFor, cacheEntry } from './disk-cache.ts';
import { type CallKey, createCallKeys, type Question } from './question.ts';

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
  /** Answers from the cache or through one shared upstream call; null when the call is none for the cache. */
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
