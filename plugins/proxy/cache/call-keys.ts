import type { RpcForward } from '../../../src/kernel/plugin.ts';
import { createLru } from '../../../src/lib/lru.ts';
import type { CacheKey } from './answer-cache.ts';
import type { ChainIdentity, Identity } from './chain-identity.ts';
import { type Question, questionOf } from './question.ts';

/** The place of a call's answer in the cache. */
export interface CallKey extends CacheKey {
  readonly question: Question;
}

/** Finds the place; null when the call is none for the cache or the chain is not known yet. */
export type CallKeys = (call: Pick<RpcForward, 'method' | 'body' | 'params'>) => CallKey | null;

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
