import { type Static, Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { json, RequestError, type RouteRequest } from '../../../src/plugin/request.ts';
import {
  type Identity,
  identityName,
  type LoginBrake,
  mayChange,
  PORTAL_ROLES,
  type PortalRole,
  type Sessions,
} from '../sessions.ts';
import { API, OPEN_ROUTE, type PageContext, REFUSALS, sessionCallerOf } from './common.ts';
import { operatorOf, refuseLogIn } from './login.ts';

interface PortalParts {
  /**
   * Links that nobody has opened: kept as sessions are, by the hash of their token, as many as there may be sessions, and until the rights of
   * their identity end.
   */
  readonly links: Sessions;
  readonly brake: LoginBrake;
}

export const PORTAL_PAGE = '/dashboard/portal';
const LINKS = '/v0/admin/projects/:project/portal';

/** The pages of one project without a log-in: an operator asks for a link, and whoever opens it has a session of that project. */
export function portalRoutes(context: PageContext, parts: PortalParts): readonly Route[] {
  return [linkRoute(context, parts), endRoute(context, parts), openRoute(context, parts)];
}

const refusal = Type.Object({ statusCode: Type.Integer(), message: Type.String(), error: Type.String() });
const OPERATOR_ROUTE = {
  path: LINKS,
  tag: OPEN_ROUTE.tag,
  auth: 'admin',
  operatorToken: true,
  errors: 'admin',
  params: Type.Object({
    project: Type.String({
      maxLength: 64,
      description: 'Id of the project',
      examples: ['b5a3e1c2-7d64-4c0a-9e39-2f1f5a0d8c11'],
    }),
  }),
} as const satisfies Partial<Route>;
const OPERATOR_REFUSALS = { 401: refusal, 403: refusal, 404: refusal, 429: refusal } as const;

type OperatorRequest = Pick<RouteRequest, 'headers' | 'remoteAddress'>;

/** The operator whose token the request has. Network access is not enough here: browsers of tenants reach this listener. Throws 401, 403, 429. */
async function demandToken(
  context: PageContext,
  { brake }: PortalParts,
  { headers, remoteAddress }: OperatorRequest,
): Promise<Identity> {
  const [, token] = /^Bearer (\S{1,512})$/i.exec(String(headers['authorization'] ?? '')) ?? [];
  if (token === undefined) throw new RequestError(401, 'Send the token of an operator as Authorization: Bearer');
  const identity = await operatorOf(context, token);
  if (identity === null)
    return await refuseLogIn(context, brake, { remoteAddress, target: 'operator', message: 'Wrong token' });
  if (!mayChange({ identity })) throw new RequestError(403, 'Forbidden', { details: 'Viewers may change nothing' });
  return identity;
}

const linkBody = Type.Object({
  role: Type.Optional(
    Type.Union(
      PORTAL_ROLES.map((one) => Type.Literal(one)),
      {
        description: 'owner: may do what the owner of the project may; viewer, the default: changes nothing',
        examples: ['owner'],
      },
    ),
  ),
  theme: Type.Optional(
    Type.Union([Type.Literal('light'), Type.Literal('dark')], {
      description: 'Default: as the browser has it',
      examples: ['dark'],
    }),
  ),
});

const portalOf = (projectId: string, portal: PortalRole): Identity => ({ role: 'project', projectId, portal });

function linkRoute(context: PageContext, parts: PortalParts): Route {
  const { audit, clock, config, isSecure, standings } = context;
  return defineRoute({
    ...OPERATOR_ROUTE,
    method: 'POST',
    summary: 'Make a link that opens the portal of a project once',
    description:
      'For the server of the operator, when it shows a tenant the page that embeds the portal. The browser that opens the link has a session of this project, which ends as sessions of the dashboard do. A link that nobody opens ends after `dashboard.portal.linkSeconds`, and with the daemon.',
    body: linkBody,
    bodyOptional: true,
    replies: {
      201: Type.Object(
        {
          url: Type.String({
            description: 'For the `src` of the frame. Whoever has it can open it: give it to this tenant alone',
            examples: ['https://portal.example.com/dashboard/portal?theme=dark#token=5w5aX0lGv3c'],
          }),
          expiresAt: Type.Integer({
            description: 'When it ends if nobody opens it; unix milliseconds',
            examples: [1_795_000_000_000],
          }),
        },
        { description: 'The link' },
      ),
      400: refusal,
      ...OPERATOR_REFUSALS,
    },
    async handler(request) {
      const actor = identityName(await demandToken(context, parts, request));
      const { headers, params, remoteAddress } = request;
      const { role = 'viewer', theme }: Static<typeof linkBody> = request.body ?? {};
      const identity = portalOf(params.project, role);
      const name = identityName(identity);
      // Read first: the standing of a project that is deleted meanwhile is another one.
      const standing = (await standings.read([name])).get(name) ?? null;
      await sessionCallerOf(context, params.project);
      const entry = { actor, address: remoteAddress, action: 'portal.link', target: `${params.project}: ${role}` };
      const { token } = await audit.record(entry, async () => parts.links.open(identity, standing));
      const base = config.portal.publicUrl ?? `${isSecure ? 'https' : 'http'}://${headers['host']}`;
      const { href } = new URL(PORTAL_PAGE + (theme === undefined ? '' : `?theme=${theme}`), base);
      // Behind the hash it is in no log of a proxy and in no Referer.
      return json({ url: `${href}#token=${token}`, expiresAt: clock.now() + config.portal.linkSeconds * 1_000 }, 201);
    },
  });
}

function endRoute(context: PageContext, parts: PortalParts): Route {
  const { audit, standings } = context;
  return defineRoute({
    ...OPERATOR_ROUTE,
    method: 'DELETE',
    summary: 'End the sessions of the portal of a project, and its links',
    replies: { 200: Type.Object({}, { description: 'They end within a second' }), ...OPERATOR_REFUSALS },
    async handler(request) {
      const actor = identityName(await demandToken(context, parts, request));
      const { project } = request.params;
      await sessionCallerOf(context, project);
      const name = identityName(portalOf(project, 'viewer'));
      const entry = { actor, address: request.remoteAddress, action: 'portal.end', target: project };
      await audit.record(entry, () => standings.endSessions(name));
      context.endSessions(name);
      return json({});
    },
  });
}

function openRoute(context: PageContext, { brake, links }: PortalParts): Route {
  const { audit, sessions, standings } = context;
  return defineRoute({
    ...OPEN_ROUTE,
    method: 'POST',
    path: `${API}/portal`,
    summary: 'Open a link to the portal; its session goes into the header X-Portal-Session',
    body: Type.Object({ token: Type.String({ minLength: 1, maxLength: 512, description: 'Of the link' }) }),
    replies: {
      200: Type.Object({ session: Type.String() }),
      ...REFUSALS,
      429: REFUSALS[400],
    },
    async handler({ body, remoteAddress }) {
      const link = links.find(body.token);
      // At once, so that of two who open it together one gets in.
      links.close(body.token);
      const name = link === null ? 'portal' : identityName(link.identity);
      const standing = link === null ? null : ((await standings.read([name])).get(name) ?? null);
      if (link === null || standing !== link.standing)
        return await refuseLogIn(context, brake, {
          remoteAddress,
          target: name,
          message: 'The link has expired or was opened before',
        });
      const { token } = sessions.open(link.identity, standing);
      const entry = { actor: name, address: remoteAddress, action: 'session.open', target: name };
      await audit.record(entry, () => Promise.resolve());
      return json({ session: token });
    },
  });
}
