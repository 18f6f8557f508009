import { createHash, timingSafeEqual } from 'node:crypto';
import { createLru } from '../../src/lib/lru.ts';
import type { RightsWatch } from '../../src/lib/rights-watch.ts';
import type { Clock, Random } from '../../src/plugin/plugin.ts';
import { RequestError, type RouteRequest } from '../../src/plugin/request.ts';
import { networkOf } from '../../src/runtime/network-address.ts';

/** What a visitor of the portal may do: as the owner of the project, or look only. */
export const PORTAL_ROLES = ['owner', 'viewer'] as const;
export type PortalRole = (typeof PORTAL_ROLES)[number];

/** A logged-in user. */
export type Identity =
  /** `name` null: whoever has the operator token. */
  | { readonly role: 'operator'; readonly name: string | null }
  /** Sees what an operator sees, and changes nothing. */
  | { readonly role: 'viewer'; readonly name: string }
  /** May see and change only one project. `portal`: came by a link of the operator, without a log-in. */
  | { readonly role: 'project'; readonly projectId: string; readonly portal?: PortalRole };

export interface Session {
  readonly identity: Identity;
  /** CSRF token: every request with changes repeats it in a header; other sites cannot know it. */
  readonly csrfToken: string;
  /** Of its identity, when it was opened; see `Standings`. */
  readonly standing: string | null;
  /** Aborts when the session ends, for streamed answers. */
  readonly ended: AbortSignal;
}

export interface Sessions {
  /**
   * `token` is for the browser and is not stored. The session ends when the standing of its identity differs from `standing`, which must be
   * read before the secret is checked.
   */
  open(identity: Identity, standing: string | null): { readonly token: string; readonly session: Session };
  find(token: string): Session | null;
  close(token: string): void;
  /** Ends the sessions of one identity, or all. */
  closeAll(name: string | null): void;
  count(): number;
}

export interface SessionLimits {
  readonly sessionIdleMinutes: number;
  readonly sessionMaxHours: number;
  readonly maxSessions: number;
  readonly maxSessionsPerIdentity: number;
}

interface StoredSession extends Session {
  readonly key: string;
  readonly name: string;
  readonly endsMs: number;
  idleMs: number;
  end(): void;
}

const TOKEN_BYTES = 32;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Name of an identity in the audit log and in checks of rights. */
export function identityName(identity: Identity): string {
  if (identity.role === 'project')
    return `${identity.portal === undefined ? 'project' : 'portal'}:${identity.projectId}`;
  return identity.name === null ? 'operator' : `operator:${identity.name}`;
}

/** Sessions are in memory: a restart ends them all. */
export function createSessions(
  clock: Clock,
  random: Random,
  limits: SessionLimits,
  rights: RightsWatch<string>,
): Sessions {
  /** Least recently used first. */
  const kept = new Map<string, StoredSession>();
  const make = () => Buffer.from(random.bytes(TOKEN_BYTES)).toString('base64url');
  const idleUntil = () => clock.monotonic() + limits.sessionIdleMinutes * MINUTE_MS;
  const isOver = ({ endsMs, idleMs }: StoredSession): boolean => clock.monotonic() >= Math.min(endsMs, idleMs);
  const drop = (session: StoredSession): void => {
    kept.delete(session.key);
    session.end();
  };

  /** Frequent logins of an identity end its own sessions, not those of identities with fewer. */
  function makeRoom(name: string): void {
    const byName = new Map<string, StoredSession[]>();
    for (const one of kept.values()) byName.set(one.name, [...(byName.get(one.name) ?? []), one]);
    const own = byName.get(name) ?? [];
    const most = [...byName.values()].reduce((a, b) => (b.length > a.length ? b : a), own);
    if (own.length >= limits.maxSessionsPerIdentity) drop(own[0] as StoredSession);
    else if (kept.size >= limits.maxSessions) drop(most[0] as StoredSession);
  }

  function open(identity: Identity, standing: string | null) {
    const [token, name] = [make(), identityName(identity)];
    makeRoom(name);
    const ended = new AbortController();
    const unwatch = rights.add(name, (now) => {
      if (now !== standing || isOver(session)) drop(session);
    });
    const session: StoredSession = {
      identity,
      name,
      key: tokenHash(token),
      csrfToken: make(),
      standing,
      ended: ended.signal,
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
      const session = kept.get(tokenHash(token));
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
      const session = kept.get(tokenHash(token));
      if (session !== undefined) drop(session);
    },
    closeAll(name) {
      for (const session of [...kept.values()]) if (name === null || session.name === name) drop(session);
    },
    count: () => kept.size,
  };
}

/** Tokens are looked up by hash, so that timing reveals nothing about existing tokens. */
const tokenHash = (token: string): string => createHash('sha256').update(token).digest('base64');

export const COOKIE_NAME = 'parhelion_session';

/** The value of a cookie in a Cookie header; null if absent or not unique. */
export function readCookie(header: string | string[] | undefined, wanted = COOKIE_NAME): string | null {
  if (typeof header !== 'string') return null;
  const values = header.split(';').flatMap((part) => {
    const [name, value] = part.trim().split('=', 2);
    return name === wanted && value !== undefined ? [value] : [];
  });
  return values.length === 1 ? (values[0] as string) : null;
}

/** Value of Set-Cookie. Scripts cannot read the cookie, and requests from other sites do not include it. Empty `token`: deletes it. */
export function writeCookie(token: string, secure: boolean): string {
  const end = token === '' ? '; Max-Age=0' : '';
  return `${COOKIE_NAME}=${token}; Path=/dashboard; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}${end}`;
}

export type AnyRequest = Pick<RouteRequest, 'headers' | 'remoteAddress'>;

export interface Guard {
  /** The session of a request. Throws 401. */
  enter(request: AnyRequest): Session;
  /** The session of a request that may change nothing but what is its own; it must repeat the CSRF token. Throws 401, 403. */
  confirm(request: AnyRequest): Session;
  /** The session of a request with changes; it must repeat the CSRF token. Throws 401, 403, also for viewers. */
  change(request: AnyRequest): Session;
}

const CSRF_HEADER = 'x-csrf-token';
/**
 * The session of the portal. Browsers keep no cookie for a page in a frame of another site, or ask first; a header works everywhere, no other
 * site can send it, and the cookie of somebody who is also logged in plays no part in the frame.
 */
const PORTAL_HEADER = 'x-portal-session';

const isOfPortal = ({ identity }: Session): boolean => identity.role === 'project' && identity.portal !== undefined;

export function createGuard(sessions: Sessions): Guard {
  const enter = ({ headers }: AnyRequest): Session => {
    const given = headers[PORTAL_HEADER];
    const token = typeof given === 'string' ? given : readCookie(headers['cookie']);
    const session = token === null ? null : sessions.find(token);
    // Neither kind of session works in the place of the other.
    if (session === null || isOfPortal(session) !== (given !== undefined)) throw new RequestError(401, 'Log in first');
    return session;
  };
  const confirm = (request: AnyRequest): Session => {
    const session = enter(request);
    const given = request.headers[CSRF_HEADER];
    if (typeof given !== 'string' || !sameText(given, session.csrfToken))
      throw new RequestError(403, 'This request does not come from the dashboard');
    return session;
  };
  return {
    enter,
    confirm,
    change(request) {
      const session = confirm(request);
      if (!mayChange(session)) throw new RequestError(403, 'Viewers may change nothing');
      return session;
    },
  };
}

/** Whether the session may change something, and see secrets with which somebody could act for a project. */
export const mayChange = ({ identity }: Pick<Session, 'identity'>): boolean =>
  identity.role !== 'viewer' && !(identity.role === 'project' && identity.portal === 'viewer');

/** Throws 403 in the portal: whoever sent the visitor there ends the session. */
export function demandLogIn(session: Session): void {
  if (isOfPortal(session)) throw new RequestError(403, 'The portal has no log-in');
}

/** Throws 403 for project owners. Viewers pass: whatever changes something has refused them before. */
export function demandOperator({ identity }: Session): void {
  if (identity.role === 'project') throw new RequestError(403, 'For operators only');
}

/** Throws 404 for owners of other projects, so that they cannot find out whether a project exists. */
export function demandOwnProject({ identity }: Session, projectId: string): void {
  if (identity.role === 'project' && identity.projectId !== projectId)
    throw new RequestError(404, 'there is no project with this id');
}

/** Name of a user in the audit log. */
export const actorOf = ({ identity }: Session): string => identityName(identity);

/** Compares in constant time. */
export function sameText(a: string, b: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(a), hash(b));
}

/** Takes a token for what nobody pays for. Throws 429 for project owners without one; operators have no limit. */
export type OwnerPace = (identity: Identity) => void;

/** What one owner can do: `burst` at once, `perMinute` in the long run. */
export interface PaceLimits {
  readonly what: string;
  readonly burst: number;
  readonly perMinute: number;
}

/** Changes are written down. */
export const CHANGE_PACE: PaceLimits = { what: 'changes', burst: 100, perMinute: 30 };
/** Pictures are fetched from elsewhere. */
export const PICTURES: PaceLimits = { what: 'pictures', burst: 1_000, perMinute: 300 };

export function createOwnerPace(clock: Clock, { what, burst, perMinute }: PaceLimits): OwnerPace {
  const buckets = createLru<string, { tokens: number; at: number }>({ max: MAX_ADDRESSES });
  return (identity) => {
    if (identity.role !== 'project') return;
    const now = clock.monotonic();
    const bucket = buckets.get(identity.projectId) ?? { tokens: burst, at: now };
    const perMs = perMinute / MINUTE_MS;
    bucket.tokens = Math.min(burst, bucket.tokens + (now - bucket.at) * perMs);
    bucket.at = now;
    buckets.set(identity.projectId, bucket);
    if (bucket.tokens < 1)
      throw new RequestError(429, `Too many ${what}`, {
        retryAfterS: Math.max(1, Math.ceil((1 - bucket.tokens) / perMs / 1_000)),
      });
    bucket.tokens -= 1;
  };
}

/** Limits guessing. */
export interface LoginBrake {
  /** Seconds until a wrong login of this address (IPv6: /64) is answered again; 0: now. */
  waitS(address: string): number;
  failed(address: string): void;
  /**
   * Delays the answer to a wrong login if all addresses together send too many. Only wrong logins wait, or strangers could lock out the
   * operators. Throws 429 if too many answers are waiting.
   */
  pause(): Promise<void>;
}

interface Failures {
  count: number;
  readonly endsMs: number;
}
const PAUSE_MS = 1_000;
const MAX_WAITING = 10;
const MAX_ADDRESSES = 10_000;
/** Limits for all addresses together. */
const FACTOR = 10;

/** Counts wrong logins per minute, of each client address and in total. */
export function createLoginBrake(clock: Clock, perMinute: () => number): LoginBrake {
  const byAddress = createLru<string, Failures>({ max: MAX_ADDRESSES });
  let all: Failures = { count: 0, endsMs: 0 };
  let waiting = 0;
  /** Monotonic milliseconds of the earliest next answer. */
  let nextMs = 0;
  const fresh = (): Failures => ({ count: 0, endsMs: clock.monotonic() + MINUTE_MS });
  const isOver = ({ endsMs }: Failures): boolean => clock.monotonic() >= endsMs;
  const ofAll = (): Failures => {
    if (isOver(all)) all = fresh();
    return all;
  };
  const of = (address: string): Failures => {
    const name = networkOf(address);
    const known = byAddress.get(name);
    if (known !== undefined && !isOver(known)) return known;
    const made = fresh();
    byAddress.set(name, made);
    return made;
  };
  return {
    waitS(address) {
      const { count, endsMs } = of(address);
      return count < perMinute() ? 0 : Math.max(1, Math.ceil((endsMs - clock.monotonic()) / 1_000));
    },
    failed(address) {
      of(address).count += 1;
      ofAll().count += 1;
    },
    async pause() {
      if (ofAll().count <= perMinute() * FACTOR) return;
      if (waiting >= MAX_WAITING) throw new RequestError(429, 'Too many wrong logins', { retryAfterS: 1 });
      const nowMs = clock.monotonic();
      const startMs = Math.max(nowMs + PAUSE_MS, nextMs);
      nextMs = startMs + PAUSE_MS;
      waiting += 1;
      try {
        await clock.sleep(startMs - nowMs);
      } finally {
        waiting -= 1;
      }
    },
  };
}
