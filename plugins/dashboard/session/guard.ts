import { createHash, timingSafeEqual } from 'node:crypto';
import { RequestError, type RouteRequest } from '../../../src/plugin/request.ts';
import { nameOf, readCookie, type Session, type Sessions } from './sessions.ts';

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

/** In a time that tells nothing of either text. */
export function sameText(a: string, b: string): boolean {
  const hash = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(a), hash(b));
}
