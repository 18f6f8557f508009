import type { RpcForward } from '../../../src/kernel/plugin.ts';
import { withId } from '../../../src/lib/rpc-reply.ts';
import type { Answer } from '../forward/attempt.ts';
import type { AnswerCache, CacheKey } from './answer-cache.ts';
import type { ChainIdentity, Identity } from './chain-identity.ts';
import { answerFor, cacheEntry } from './entry.ts';
import { type Question, questionOf } from './question.ts';
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

/** Answers a call from the cache or through one shared upstream call; null when the call is none for the cache. */
export type CachedAsk = (call: RpcForward, ask: AskOnce) => Promise<CachedAnswer> | null;

export function createCachedAsk(parts: CachedAskParts): CachedAsk {
  const { cache, identity } = parts;
  const flights = createSingleFlight<Answer>();

  return (call, ask) => {
    if (call.id === undefined) return null;
    const text = call.params === null ? null : call.body.toString('utf8', call.params.start, call.params.end);
    const question = questionOf(call.method, text);
    // The identity is asked for only then: finding it out is a call of its own.
    const chain = question === null ? null : identity.current();
    if (question === null || chain === null) return null;
    return answer(call, call.id, question, cacheKey(question, chain, parts.disk), ask);
  };

  async function answer(
    call: RpcForward,
    idText: string,
    question: Question,
    key: CacheKey,
    ask: AskOnce,
  ): Promise<CachedAnswer> {
    const entry = cache.peek(key) ?? (await cache.load(key));
    if (entry !== null) return { answer: whole(answerFor(entry, idText)), hit: true };
    const flown = await flights.run(key.memory, call.signal, (signal) => ask(parts.maxEntryBytes, signal));
    const { value, first } = flown;
    if (first) {
      if (value.kind === 'whole' && isFinal(question)) keep(key, value);
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
}

function cacheKey(
  { key }: Question,
  { genesisHash, life, isPublic }: Identity,
  disk: CachedAskParts['disk'],
): CacheKey {
  const onDisk = disk === 'any' || (disk === 'public' && isPublic);
  return { memory: `${genesisHash} ${life} ${key}`, disk: onDisk ? `${genesisHash} ${key}` : null };
}

/** The parts are not needed any more once the id is exchanged. */
const whole = (bytes: Buffer): Answer => ({ kind: 'whole', bytes, parts: { id: null, result: null, error: null } });
