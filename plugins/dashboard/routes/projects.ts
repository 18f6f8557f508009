import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { JsonText, json, RequestError } from '../../../src/plugin/request.ts';
import type { UsageDay } from '../../../src/ports/access.ts';
import { demandOperator, demandProject, nameOf } from '../sessions.ts';
import { API, audited, PAGE_ROUTE, type PageContext, projectParams, REFUSALS, withHttpErrors } from './common.ts';

const projectReply = Type.Object({
  id: Type.String(),
  name: Type.String(),
  plan: Type.String(),
  wallet: Type.Union([Type.String(), Type.Null()]),
  createdAt: Type.Integer({ description: 'unix milliseconds' }),
});

/** Projects, and the login secrets of their owners. */
export function projectRoutes(context: PageContext): readonly Route[] {
  return [listRoute(context), createRoute(context), secretRoute(context), budgetsRoute(context)];
}

function listRoute({ access, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/projects`,
    summary: 'Projects that the session may see',
    replies: {
      200: Type.Object({ projects: Type.Array(projectReply), plans: Type.Array(Type.String()) }),
      ...REFUSALS,
    },
    async handler(request) {
      const { identity } = guard.enter(request);
      const projects = await access.projects();
      if (identity.role === 'operator') return json({ projects, plans: access.planNames() });
      return json({ projects: projects.filter(({ id }) => id === identity.projectId), plans: [] });
    },
  });
}

function budgetsRoute({ daemon, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/projects/:project/budgets`,
    summary: 'Budgets that a project holds now',
    params: projectParams,
    replies: { 200: Type.Object({ budgets: Type.Array(Type.Unknown()) }), ...REFUSALS },
    async handler(request) {
      const { project } = request.params;
      demandProject(guard.enter(request), project);
      return json({ budgets: await daemon.budgets(project) });
    },
  });
}

function createRoute(context: PageContext): Route {
  const { access, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${API}/projects`,
    summary: 'Create a project',
    body: Type.Object({ name: Type.String({ minLength: 1, maxLength: 128 }), plan: Type.String({ maxLength: 64 }) }),
    replies: { 201: projectReply, ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      demandOperator(session);
      const { name, plan } = request.body;
      const action = { action: 'projects.create', target: `${name} (${plan})` };
      return json(await audited(context, request, session, action, () => access.createProject({ name, plan })), 201);
    },
  });
}

function secretRoute(context: PageContext): Route {
  const { access, guard, secrets } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${API}/projects/:project/secret`,
    summary:
      'Create the login secret of a project owner; it is shown only once, replaces the old secret and ends all sessions',
    params: projectParams,
    body: Type.Unknown(),
    bodyOptional: true,
    replies: { 201: Type.Object({ secret: Type.String() }), ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      const { project } = request.params;
      demandProject(session, project);
      demandOperator(session);
      const action = { action: 'projects.renew-secret', target: project };
      const secret = await audited(context, request, session, action, async () => {
        // Throws for an unknown project.
        await access.keys(project);
        return secrets.renew(project);
      });
      context.endSessions(nameOf({ role: 'project', projectId: project }));
      return json({ secret }, 201);
    },
  });
}

const listOrNull = Type.Union([Type.Array(Type.String({ maxLength: 64 }), { maxItems: 100 }), Type.Null()]);
const keyReply = Type.Object({
  id: Type.String(),
  prefix: Type.String(),
  name: Type.String(),
  state: Type.String({ description: 'active, revoked or expired' }),
  createdAt: Type.Integer(),
  expiresAt: Type.Union([Type.Integer(), Type.Null()]),
  permissions: Type.Union([Type.Array(Type.String()), Type.Null()]),
  ips: Type.Union([Type.Array(Type.String()), Type.Null()]),
});
const KEYS = `${API}/projects/:project/keys`;
const keyParams = Type.Object({ ...projectParams.properties, key: Type.String({ maxLength: 64 }) });

/** Keys of a project. */
export function keyRoutes(context: PageContext): readonly Route[] {
  return [listKeysRoute(context), createKeyRoute(context), revokeRoute(context), limitRoute(context)];
}

function listKeysRoute({ access, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: KEYS,
    summary: 'Keys of a project, with their first characters',
    params: projectParams,
    replies: { 200: Type.Object({ keys: Type.Array(keyReply) }), ...REFUSALS },
    async handler(request) {
      const { project } = request.params;
      demandProject(guard.enter(request), project);
      return json({ keys: await withHttpErrors(access.keys(project)) });
    },
  });
}

function createKeyRoute(context: PageContext): Route {
  const { access, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: KEYS,
    summary: 'Create a key; it is shown only once',
    params: projectParams,
    body: Type.Object({
      name: Type.String({ maxLength: 128, default: '' }),
      ips: Type.Optional(listOrNull),
      expiresAt: Type.Optional(Type.Union([Type.Integer({ minimum: 0 }), Type.Null()])),
    }),
    replies: { 201: Type.Object({ id: Type.String(), key: Type.String() }), ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      const { project } = request.params;
      demandProject(session, project);
      const { name, ips = null, expiresAt = null } = request.body;
      const action = { action: 'keys.create', target: `${project}: ${name}` };
      const key = { projectId: project, name, ips, expiresAt };
      return json(await audited(context, request, session, action, () => access.createKey(key)), 201);
    },
  });
}

function revokeRoute(context: PageContext): Route {
  const { access, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${KEYS}/:key/revoke`,
    summary: 'Revoke a key',
    params: keyParams,
    body: Type.Unknown(),
    bodyOptional: true,
    replies: { 200: Type.Object({ revoked: Type.Boolean() }), ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      const { project, key } = request.params;
      demandProject(session, project);
      const action = { action: 'keys.revoke', target: `${project}: ${key}` };
      return json({
        revoked: await audited(context, request, session, action, () => access.revokeKey(project, key)),
      });
    },
  });
}

function limitRoute(context: PageContext): Route {
  const { access, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'PUT',
    path: `${KEYS}/:key/ips`,
    summary: 'Limit the addresses that may use a key; null: no limit',
    params: keyParams,
    body: Type.Object({ ips: listOrNull }),
    replies: { 200: Type.Object({}), ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      const { project, key } = request.params;
      demandProject(session, project);
      const { ips } = request.body;
      const action = { action: 'keys.limit', target: `${project}: ${key}: ${ips?.join(' ') ?? 'everywhere'}` };
      await audited(context, request, session, action, () => access.limitKey(project, key, ips));
      return json({});
    },
  });
}

const day = Type.String({ pattern: '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])$', description: 'YYYY-MM-DD, UTC' });
const daysQuery = Type.Object({ from: day, to: day });
const usageDay = Type.Object({
  day: Type.String(),
  product: Type.String(),
  credits: Type.Number(),
  requests: Type.Integer(),
  bytes: Type.Integer(),
});

/** Usage of a project: the record of the cycle, and days as JSON and CSV. */
export function usageRoutes(context: PageContext): readonly Route[] {
  return [usageRoute(context), csvRoute(context)];
}

function usageRoute({ access, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/projects/:project/usage`,
    summary: 'Usage of a project: its cycle, and each day by product',
    params: projectParams,
    query: daysQuery,
    replies: { 200: Type.Object({ cycle: Type.Unknown(), days: Type.Array(usageDay) }), ...REFUSALS },
    async handler(request) {
      const { project } = request.params;
      demandProject(guard.enter(request), project);
      const { from, to } = request.query;
      const [cycle, days] = await withHttpErrors(
        Promise.all([access.usage(project), access.usageDays(project, from, to)] as const),
      );
      return json({ cycle, days });
    },
  });
}

function csvRoute({ access, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/projects/:project/usage.csv`,
    summary: 'The days as CSV',
    params: projectParams,
    query: daysQuery,
    replies: { 200: Type.String({ contentMediaType: 'text/csv' }), ...REFUSALS },
    async handler(request) {
      const { project } = request.params;
      demandProject(guard.enter(request), project);
      const { from, to } = request.query;
      const days = await withHttpErrors(access.usageDays(project, from, to));
      return {
        status: 200,
        bytes: Buffer.from(csvOf(days)),
        contentType: 'text/csv; charset=utf-8',
        headers: { 'Content-Disposition': `attachment; filename="usage-${from}-${to}.csv"` },
      };
    },
  });
}

/** Products and days contain no characters that CSV must quote. */
function csvOf(days: readonly UsageDay[]): string {
  const lines = days.map(({ day, product, credits, requests, bytes }) =>
    [day, product, credits, requests, bytes].join(','),
  );
  return ['day,product,credits,requests,bytes', ...lines, ''].join('\r\n');
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
/** Allowed paths: only these, followed only by characters of ids and queries. */
const PATH = '^/v0/webhooks(/[A-Za-z0-9-]{1,64}){0,4}(\\?[A-Za-z0-9=&_-]{0,200})?$';

/** The webhook endpoints on behalf of a project, with the rights of one of its keys. */
export function webhookRoute(context: PageContext): Route {
  const { access, daemon, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${API}/projects/:project/webhooks`,
    summary: 'Call a webhook endpoint on behalf of a project',
    params: projectParams,
    body: Type.Object({
      method: Type.Union(METHODS.map((method) => Type.Literal(method))),
      path: Type.String({ pattern: PATH }),
      body: Type.Optional(Type.Unknown()),
    }),
    replies: { 200: Type.Unknown(), ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      const { project: projectId } = request.params;
      demandProject(session, projectId);
      const project = (await withHttpErrors(access.projects())).find(({ id }) => id === projectId);
      if (project === undefined) throw new RequestError(404, 'there is no project with this id');
      const { method, path, body } = request.body;
      const { requestId, log, signal, remoteAddress } = request;
      const caller = { projectId, keyId: null, plan: project.plan, wallet: project.wallet };
      const call = () => daemon.call({ method, path, body, caller, requestId, log, signal, remoteAddress });
      const action = { action: `webhooks.${method.toLowerCase()}`, target: `${projectId}: ${path}` };
      const { status, text } = method === 'GET' ? await call() : await audited(context, request, session, action, call);
      return { status, json: new JsonText(text === '' ? 'null' : text) };
    },
  });
}
