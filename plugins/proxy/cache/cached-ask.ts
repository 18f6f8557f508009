import type { RpcForward, RpcQuestion } from '../../../src/kernel/plugin.ts';
import { withId } from '../../../src/lib/rpc-reply.ts';
import type { Answer } from '../forward/attempt.ts';
import type { AnswerCache, CacheKey } from './answer-cache.ts';
import { type CallKey, createCallKeys } from './call-keys.ts';
import type { ChainIdentity } from './chain-identity.ts';
import { answerFor, bodyFor, cacheEntry } from './entry.ts';
import type { Question } from './question.ts';
import { createSingleFlight } from './single-flight.ts';

export interface CachedAskParts {
  readonly cache: AnswerCache;
  readonly identity: ChainIdentity;
  readonly disk: 'public' | 'any' | 'off';
  readonly maxEntryBytes: number;
  /** Newest slot that can not be rolled back, or null when that is not known. */
  readonly finalizedSlot: () => number | null;
}

/** A call to the upstreams; the answer is read as a whole up to `wholeBytes`. */
export type AskOnce = (wholeBytes: number, signal: AbortSignal) => Promise<Answer>;

export interface CachedAnswer {
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
