import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/kernel/plugin.ts';
import { json } from '../../../src/kernel/request.ts';
import { demandOperator, demandProject } from '../session/guard.ts';
import { API, audited, PAGE_ROUTE, type PageContext, projectParams, REFUSALS } from './common.ts';

const projectReply = Type.Object({
  id: Type.String(),
  name: Type.String(),
  plan: Type.String(),
  wallet: Type.Union([Type.String(), Type.Null()]),
  createdAt: Type.Integer({ description: 'unix milliseconds' }),
});

/** Projects, and the secrets their owners log in with. */
export function projectRoutes(context: PageContext): readonly Route[] {
  return [listRoute(context), createRoute(context), secretRoute(context)];
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

function createRoute(context: PageContext): Route {
  const { access, guard } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${API}/projects`,
    summary: 'Make a project',
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
    summary: 'Make the secret that the owner of a project logs in with; it is shown once, and ends any before',
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
        // An unknown project is an error, and gets no secret.
        await access.keys(project);
        return secrets.renew(project);
      });
      return json({ secret }, 201);
    },
  });
}
