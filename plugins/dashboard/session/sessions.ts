import { createHash } from 'node:crypto';
import type { RightsWatch } from '../../../src/lib/rights-watch.ts';
import type { Clock, Random } from '../../../src/plugin/plugin.ts';

/** Who is logged in. */
export type Identity =
  | { readonly role: 'operator' }
  /** Sees and changes one project only. */
  | { readonly role: 'project'; readonly projectId: string };

export interface Session {
  readonly identity: Identity;
  /** Repeated in a header by every request that changes something: another page cannot know it. */
  readonly csrfToken: string;
  /** Aborts when the session ends, for answers that go on. */
  readonly ended: AbortSignal;
}

export interface Sessions {
  /**
   * `token` goes into the cookie and is kept nowhere. The session ends when the standing of its identity is no longer `standing`: what it
   * was before the secret was checked.
   */
  open(identity: Identity, standing: string | null): { readonly token: string; readonly session: Session };
  find(token: string): Session | null;
  close(token: string): void;
  /** Those of one identity, or of everybody. */
  closeAll(name: string | null): void;
  count(): number;
}

interface SessionLimits {
  readonly sessionIdleMinutes: number;
  readonly sessionMaxHours: number;
  readonly maxSessions: number;
  readonly maxSessionsPerIdentity: number;
}

interface Kept extends Session {
  readonly key: string;
  readonly name: string;
  readonly endsMs: number;
  idleMs: number;
  end(): void;
}

const TOKEN_BYTES = 32;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** What an identity is called in the audit log and where its rights are looked at. */
export const nameOf = (identity: Identity): string =>
  identity.role === 'operator' ? 'operator' : `project:${identity.projectId}`;

/** In memory: a restart logs everybody out. */
export function createSessions(
  clock: Clock,
  random: Random,
  limits: SessionLimits,
  rights: RightsWatch<string>,
): Sessions {
  /** The one that was used longest ago comes first. */
  const kept = new Map<string, Kept>();
  const make = () => Buffer.from(random.bytes(TOKEN_BYTES)).toString('base64url');
  const idleUntil = () => clock.monotonic() + limits.sessionIdleMinutes * MINUTE_MS;
  const isOver = ({ endsMs, idleMs }: Kept): boolean => clock.monotonic() >= Math.min(endsMs, idleMs);
  const drop = (session: Kept): void => {
    kept.delete(session.key);
    session.end();
  };

  /** Whoever logs in often ends sessions of their own, and of nobody else while others have fewer. */
  function makeRoom(name: string): void {
    const byName = new Map<string, Kept[]>();
    for (const one of kept.values()) byName.set(one.name, [...(byName.get(one.name) ?? []), one]);
    const own = byName.get(name) ?? [];
    const most = [...byName.values()].reduce((a, b) => (b.length > a.length ? b : a), own);
    if (own.length >= limits.maxSessionsPerIdentity) drop(own[0] as Kept);
    else if (kept.size >= limits.maxSessions) drop(most[0] as Kept);
  }

  function open(identity: Identity, standing: string | null) {
    const [token, name] = [make(), nameOf(identity)];
    makeRoom(name);
    const ended = new AbortController();
    const unwatch = rights.add(name, (now) => {
      if (now !== standing || isOver(session)) drop(session);
    });
    const session: Kept = {
      ...{ identity, name, key: keyOf(token), csrfToken: make(), ended: ended.signal },
      endsMs: clock.monotonic() + limits.sessionMaxHours * HOUR_MS,
      idleMs: idleUntil(),
      end() {
        unwatch();
        ended.abort();
      },
    };
    kept.set(session.key, session);
    return { token, session };
  }

  return {
    open,
    find(token) {
      const session = kept.get(keyOf(token));
      if (session === undefined) return null;
      if (isOver(session)) {
        drop(session);
        return null;
      }
      session.idleMs = idleUntil();
      kept.delete(session.key);
      kept.set(session.key, session);
      return session;
    },
    close(token) {
      const session = kept.get(keyOf(token));
      if (session !== undefined) drop(session);
    },
    closeAll(name) {
      for (const session of [...kept.values()]) if (name === null || session.name === name) drop(session);
    },
    count: () => kept.size,
  };
}

/** Looked up by its hash, so that the time it takes tells nothing of the tokens that exist. */
const keyOf = (token: string): string => createHash('sha256').update(token).digest('base64');

const NAME = 'parhelion_session';

/** The token in a Cookie header; null when there is none, or more than one. */
export function readCookie(header: string | string[] | undefined): string | null {
  if (typeof header !== 'string') return null;
  const values = header.split(';').flatMap((part) => {
    const [name, value] = part.trim().split('=', 2);
    return name === NAME && value !== undefined ? [value] : [];
  });
  return values.length === 1 ? (values[0] as string) : null;
}

/** Value of Set-Cookie. No script can read it, and no other site's page sends it along. `token` empty: takes it back. */
export function writeCookie(token: string, secure: boolean): string {
  const end = token === '' ? '; Max-Age=0' : '';
  return `${NAME}=${token}; Path=/dashboard; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}${end}`;
}
