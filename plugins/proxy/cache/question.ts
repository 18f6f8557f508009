import { isPlainObject } from '../../../src/lib/json.ts';
import { withoutBlanks } from '../../../src/lib/json-members.ts';
import { createLru } from '../../../src/lib/lru.ts';
import type { RpcForward } from '../../../src/plugin/host.ts';
import type { CacheKey } from './answer-cache.ts';
import type { ChainIdentity, Identity } from './chain-identity.ts';

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

/** Finds the place; null when the call is none for the cache or the chain is not known yet. */
type CallKeys = (call: Pick<RpcForward, 'method' | 'body' | 'params'>) => CallKey | null;

/** Calls come again as they came before: what their text means is kept for so many, if they are no longer than this. */
const KNOWN_CALLS = 4_096;
const KNOWN_LENGTH = 512;

interface KnownCall {
  readonly question: Question;
  chain: Identity;
  key: CallKey;
}

export function createCallKeys(identity: ChainIdentity, disk: 'public' | 'any' | 'off'): CallKeys {
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
