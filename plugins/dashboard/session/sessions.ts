import { createHash } from 'node:crypto';
import type { Clock, Random } from '../../../src/kernel/plugin.ts';
import { createLru } from '../../../src/lib/lru.ts';

/** Who is logged in. */
export type Identity =
  | { readonly role: 'operator' }
  /** Sees and changes one project only. */
  | { readonly role: 'project'; readonly projectId: string };

export interface Session {
  readonly identity: Identity;
  /** Repeated in a header by every request that changes something: another page cannot know it. */
  readonly csrfToken: string;
}

export interface Sessions {
  /** `token` goes into the cookie and is kept nowhere. */
  open(identity: Identity): { readonly token: string; readonly session: Session };
  find(token: string): Session | null;
  close(token: string): void;
  count(): number;
}

export interface SessionLimits {
  readonly sessionIdleMinutes: number;
  readonly sessionMaxHours: number;
  readonly maxSessions: number;
}

const TOKEN_BYTES = 32;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** In memory: a restart logs everybody out. */
export function createSessions(clock: Clock, random: Random, limits: SessionLimits): Sessions {
  interface Kept extends Session {
    readonly endsMs: number;
    idleMs: number;
  }
  const kept = createLru<string, Kept>({ max: limits.maxSessions });
  const make = () => Buffer.from(random.bytes(TOKEN_BYTES)).toString('base64url');
  const idleUntil = () => clock.monotonic() + limits.sessionIdleMinutes * MINUTE_MS;
  return {
    open(identity) {
      const token = make();
      const endsMs = clock.monotonic() + limits.sessionMaxHours * HOUR_MS;
      const session = { identity, csrfToken: make(), endsMs, idleMs: idleUntil() };
      kept.set(keyOf(token), session);
      return { token, session };
    },
    find(token) {
      const session = kept.get(keyOf(token));
      if (session === undefined) return null;
      const now = clock.monotonic();
      if (now >= session.endsMs || now >= session.idleMs) {
        kept.delete(keyOf(token));
        return null;
      }
      session.idleMs = idleUntil();
      return session;
    },
    close: (token) => void kept.delete(keyOf(token)),
    count: () => kept.size,
  };
}

/** Looked up by its hash, so that the time it takes tells nothing of the tokens that exist. */
const keyOf = (token: string): string => createHash('sha256').update(token).digest('base64');
