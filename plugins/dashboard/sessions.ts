import { createHash, timingSafeEqual } from 'node:crypto';
import { networkOf } from '../../src/lib/cidr.ts';
import { createLru } from '../../src/lib/lru.ts';
import type { RightsWatch } from '../../src/lib/rights-watch.ts';
import type { Clock, Random } from '../../src/plugin/plugin.ts';
import { RequestError, type RouteRequest } from '../../src/plugin/request.ts';

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

/** Looked up by its hash, so that its timing reveals nothing of existing tokens. */
const keyOf = (token: string): string => createHash('sha256').update(token).digest('base64');

const NAME = 'parhelion_session';

/** The token in a Cookie header; null when it is absent or not unique. */
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

export type AnyRequest = Pick<RouteRequest, 'headers' | 'remoteAddress'>;

export interface Guard {
  /** The session of a request. Throws 401. */
  enter(request: AnyRequest): Session;
  /** The same for a request that changes something: it must repeat the session's token. Throws 401, 403. */
  change(request: AnyRequest): Session;
}

const CSRF_HEADER = 'x-csrf-token';

export function createGuard(sessions: Sessions): Guard {
  const enter = (request: AnyRequest): Session => {
    const token = readCookie(request.headers['cookie']);
    const session = token === null ? null : sessions.find(token);
    if (session === null) throw new RequestError(401, 'Log in first');
    return session;
  };
  return {
    enter,
    change(request) {
      const session = enter(request);
      const given = request.headers[CSRF_HEADER];
      if (typeof given !== 'string' || !sameText(given, session.csrfToken))
        throw new RequestError(403, 'This request does not come from the dashboard');
      return session;
    },
  };
}

/** Throws 403 for whoever is logged in for one project only. */
export function demandOperator({ identity }: Session): void {
  if (identity.role !== 'operator') throw new RequestError(403, 'For operators only');
}

/** Throws 404 for somebody of another project: whether it exists is not theirs to know. */
export function demandProject({ identity }: Session, projectId: string): void {
  if (identity.role === 'project' && identity.projectId !== projectId)
    throw new RequestError(404, 'there is no project with this id');
}

/** How the audit log calls somebody. */
export const actorOf = ({ identity }: Session): string => nameOf(identity);

/** Constant time. */
export function sameText(a: string, b: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(a), hash(b));
}

/** Bounds guessing. */
export interface LoginBrake {
  /** Seconds until a wrong login of this address (IPv6: /64) is answered again; 0: it is. */
  waitS(address: string): number;
  failed(address: string): void;
  /**
   * Before a wrong login is answered: waits while there are too many of all addresses together. Only wrong ones wait, or strangers could
   * lock the operators out. Throws 429 when too many answers wait.
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
/** Of all addresses together. */
const FACTOR = 10;

/** Counts wrong logins of each client address, and of all together, by the minute. */
export function createLoginBrake(clock: Clock, perMinute: number): LoginBrake {
  const byAddress = createLru<string, Failures>({ max: MAX_ADDRESSES });
  let all: Failures = { count: 0, endsMs: 0 };
  let waiting = 0;
  /** Monotonic milliseconds from which the next answer may go. */
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
      return count < perMinute ? 0 : Math.max(1, Math.ceil((endsMs - clock.monotonic()) / 1_000));
    },
    failed(address) {
      of(address).count += 1;
      ofAll().count += 1;
    },
    async pause() {
      if (ofAll().count <= perMinute * FACTOR) return;
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
