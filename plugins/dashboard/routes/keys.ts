import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { json } from '../../../src/plugin/request.ts';
import { demandProject } from '../session/guard.ts';
import { API, audited, PAGE_ROUTE, type PageContext, projectParams, REFUSALS, told } from './common.ts';

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
  return [listRoute(context), createRoute(context), revokeRoute(context), limitRoute(context)];
}

function listRoute({ access, guard }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: KEYS,
    summary: 'Keys of a project, by their first characters',
    params: projectParams,
    replies: { 200: Type.Object({ keys: Type.Array(keyReply) }), ...REFUSALS },
    async handler(request) {
      const { project } = request.params;
      demandProject(guard.enter(request), project);
      return json({ keys: await told(access.keys(project)) });
    },
  });
}

function createRoute(context: PageContext): Route {
  const { access, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: KEYS,
    summary: 'Make a key; it is shown once',
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
    summary: 'End a key',
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
    summary: 'Say from where a key may be used; null: from everywhere',
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
