import { type Static, Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { json, RequestError } from '../../../src/plugin/request.ts';
import {
  actorOf,
  demandLogIn,
  type Identity,
  identityName,
  type LoginBrake,
  readCookie,
  type Session,
  sameText,
  writeCookie,
} from '../sessions.ts';
import { EVERYBODY } from '../store.ts';
import { API, audited, OPEN_ROUTE, PAGE_ROUTE, type PageContext, REFUSALS } from './common.ts';

const sessionReply = Type.Object({
  role: Type.Union([Type.Literal('operator'), Type.Literal('viewer'), Type.Literal('project')]),
  name: Type.Union([Type.String(), Type.Null()], { description: 'of an operator with a token of its own' }),
  projectId: Type.Union([Type.String(), Type.Null()]),
  portal: Type.Union([Type.Literal('owner'), Type.Literal('viewer'), Type.Null()], {
    description: 'what a visitor of the portal may do; null: logged in',
  }),
  csrfToken: Type.String(),
  version: Type.String(),
});
export type Who = Static<typeof sessionReply>;
const text = (description: string) => Type.String({ minLength: 1, maxLength: 512, description });
/** Either the token of an operator, or a project and its secret. */
const loginBody = Type.Union([
  Type.Object({ token: text('Token of an operator') }, { additionalProperties: false }),
  Type.Object(
    { project: text('Id of a project'), secret: text('Its dashboard secret') },
    { additionalProperties: false },
  ),
]);
export type Login = Static<typeof loginBody>;

/** Login, logout, and the current user. */
export function loginRoutes(context: PageContext, brake: LoginBrake): readonly Route[] {
  return [loginRoute(context, brake), logoutRoute(context), endRoute(context), sessionRoute(context)];
}

function viewOf({ daemon }: PageContext, { identity, csrfToken }: Session): Who {
  const projectId = identity.role === 'project' ? identity.projectId : null;
  const portal = identity.role === 'project' ? (identity.portal ?? null) : null;
  const name = identity.role === 'project' ? null : identity.name;
  return { role: identity.role, name, projectId, portal, csrfToken, version: daemon.version };
}

/** Whose token it is; null: nobody's. */
export async function operatorOf(
  { config, operators, operatorToken }: PageContext,
  token: string,
): Promise<Identity | null> {
  const { operatorToken: configured } = config;
  const isRight = configured === null ? await operatorToken.isRight(token) : sameText(token, configured);
  if (isRight) return { role: 'operator', name: null };
  const named = await operators.find(token);
  return named === null ? null : { role: named.role, name: named.name };
}

/**
 * Answers a wrong token, secret or link. A valid one always succeeds, whatever others send from the same address: only wrong ones are counted,
 * delayed and refused. Throws 401, 429.
 */
export async function refuseLogIn(
  { audit }: PageContext,
  brake: LoginBrake,
  { remoteAddress, target, message }: Readonly<Record<'remoteAddress' | 'target' | 'message', string>>,
): Promise<never> {
  const waitS = brake.waitS(remoteAddress);
  brake.failed(remoteAddress);
  if (waitS > 0) throw new RequestError(429, 'Too many wrong logins', { retryAfterS: waitS });
  await brake.pause();
  const entry = { actor: 'nobody', address: remoteAddress, action: 'session.refused', target };
  await audit.record(entry, () => Promise.resolve());
  throw new RequestError(401, message);
}

function loginRoute(context: PageContext, brake: LoginBrake): Route {
  const { audit, isSecure, operators, pace, secrets, sessions, standings } = context;

  async function identify(body: Login): Promise<Identity | null> {
    if ('token' in body) return await operatorOf(context, body.token);
    const isRight = await secrets.isRight(body.project, body.secret);
    return isRight ? { role: 'project', projectId: body.project } : null;
  }

  /** Whose log-in it is, before anything is checked. */
  async function targetOf(body: Login): Promise<string> {
    if (!('token' in body)) return `project:${body.project}`;
    const named = await operators.find(body.token);
    return named === null ? 'operator' : `operator:${named.name}`;
  }

  return defineRoute({
    ...OPEN_ROUTE,
    method: 'POST',
    path: `${API}/login`,
    summary: 'Log in as operator or for one project',
    body: loginBody,
    replies: { 200: sessionReply, ...REFUSALS },
    async handler({ body, headers, remoteAddress }) {
      const target = await targetOf(body);
      const standing = (await standings.read([target])).get(target) ?? null;
      const identity = await identify(body);
      if (identity === null)
        return await refuseLogIn(context, brake, { remoteAddress, target, message: 'Wrong token or secret' });
      pace(identity);
      // Ends the previous session of this browser.
      sessions.close(readCookie(headers['cookie']) ?? '');
      const { token, session } = sessions.open(identity, standing);
      const entry = { actor: actorOf(session), address: remoteAddress, action: 'session.open', target };
      await audit.record(entry, () => Promise.resolve());
      return json(viewOf(context, session), 200, { 'Set-Cookie': writeCookie(token, isSecure) });
    },
  });
}

function logoutRoute(context: PageContext): Route {
  const { audit, guard, isSecure, sessions } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${API}/logout`,
    summary: 'Log out',
    body: Type.Unknown(),
    bodyOptional: true,
    replies: { 200: Type.Object({}), ...REFUSALS },
    async handler(request) {
      const session = guard.confirm(request);
      demandLogIn(session);
      sessions.close(readCookie(request.headers['cookie']) ?? '');
      const actor = actorOf(session);
      const entry = { actor, address: request.remoteAddress, action: 'session.close', target: actor };
      await audit.record(entry, () => Promise.resolve());
      return json({}, 200, { 'Set-Cookie': writeCookie('', isSecure) });
    },
  });
}

function endRoute(context: PageContext): Route {
  const { guard, isSecure, standings } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${API}/sessions/end`,
    summary: 'End all sessions: as operator those of all users, as viewer the own ones, as owner those of the project',
    body: Type.Unknown(),
    bodyOptional: true,
    replies: { 200: Type.Object({}), ...REFUSALS },
    async handler(request) {
      const session = guard.confirm(request);
      demandLogIn(session);
      const { identity } = session;
      const name = identity.role === 'operator' ? EVERYBODY : identityName(identity);
      const action = { action: 'sessions.end', target: name };
      await audited(context, request, session, action, () => standings.endSessions(name));
      context.endSessions(name === EVERYBODY ? null : name);
      return json({}, 200, { 'Set-Cookie': writeCookie('', isSecure) });
    },
  });
}

function sessionRoute(context: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/session`,
    summary: 'Who is logged in',
    replies: { 200: sessionReply, ...REFUSALS },
    handler: (request) => json(viewOf(context, context.guard.enter(request))),
  });
}
