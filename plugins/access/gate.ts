import { timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type Admission, type Credentials, type Gate, GateRefusal } from '../../src/kernel/plugin.ts';
import type { Caller } from '../../src/ports/access.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { Store } from '../../src/ports/store.ts';
import type { AccessConfig } from './config.ts';
import { hashKey, isKeyForm, keyName } from './keys.ts';
import { tables } from './tables.ts';

interface KnownKey {
  readonly caller: Caller;
  readonly expiresAt: number | null;
}

/** Unknown keys that are remembered, apart from the known ones, so that guessing cannot push those out. */
const UNKNOWN_KEYS = 1_000;

const NO_LIMITS: Admission = { headers: {}, settle: () => undefined };

export interface GateParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly config: AccessConfig;
}

/**
 * Decides who calls. The first place that holds a key decides (query, then `X-Api-Key`, then Bearer); whether a wrong key is unknown,
 * revoked or expired is not told.
 */
export function createGate({ store, clock, config }: GateParts): Gate {
  // One more, because the cache takes a start at 0 for none, and a clock may begin there.
  const now = () => clock.monotonic() + 1;
  const cacheOptions = { ttl: config.keyCacheMs, ttlResolution: 0, perf: { now } };
  const known = new LRUCache<string, KnownKey>({ ...cacheOptions, max: config.keyCacheSize });
  const unknown = new LRUCache<string, true>({ ...cacheOptions, max: UNKNOWN_KEYS });
  const asking = new Map<string, Promise<Caller>>();

  async function ask(hash: Buffer, name: string): Promise<Caller> {
    const found = await lookUp(store, hash);
    if (found === null) {
      if (config.keyCacheMs > 0) unknown.set(name, true);
      throw new GateRefusal('bad-key');
    }
    if (config.keyCacheMs > 0) known.set(name, found);
    return unexpired(found, clock);
  }

  return {
    authenticate(credentials) {
      const key = presentedKey(credentials);
      if (!isKeyForm(key)) throw new GateRefusal('bad-key');
      const name = keyName(key);
      const hit = known.get(name);
      if (hit !== undefined) return unexpired(hit, clock);
      if (unknown.has(name)) throw new GateRefusal('bad-key');
      const running = asking.get(name);
      if (running !== undefined) return running;
      const answer = ask(hashKey(key), name).finally(() => asking.delete(name));
      asking.set(name, answer);
      return answer;
    },
    admit: () => NO_LIMITS,
  };
}

/** The key that decides. Throws `no-key` when all places are empty, `bad-key` when the query names several keys. */
function presentedKey({ query, header, bearer }: Credentials): string {
  const fromQuery = new Set(query.filter((value) => value !== ''));
  if (fromQuery.size > 1) throw new GateRefusal('bad-key');
  const [key] = fromQuery;
  const decisive = key ?? (header || bearer || '');
  if (decisive === '') throw new GateRefusal('no-key');
  return decisive;
}

function unexpired({ caller, expiresAt }: KnownKey, clock: Clock): Caller {
  if (expiresAt !== null && expiresAt <= clock.now()) throw new GateRefusal('bad-key');
  return caller;
}

async function lookUp(store: Store, hash: Buffer): Promise<KnownKey | null> {
  const row = await tables(store.read)
    .selectFrom('api_keys')
    .innerJoin('projects', 'projects.id', 'api_keys.project_id')
    .select([
      'api_keys.id',
      'api_keys.hash',
      'api_keys.expires_at',
      'projects.id as project_id',
      'projects.plan',
      'projects.wallet',
    ])
    .where('api_keys.hash', '=', hash)
    .where('api_keys.revoked_at', 'is', null)
    .executeTakeFirst();
  if (row === undefined || !timingSafeEqual(row.hash, hash)) return null;
  return {
    caller: { projectId: row.project_id, keyId: row.id, plan: row.plan, wallet: row.wallet },
    expiresAt: row.expires_at,
  };
}
