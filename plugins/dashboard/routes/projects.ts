import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { json } from '../../../src/plugin/request.ts';
import { demandOperator, demandProject } from '../session/guard.ts';
import { nameOf } from '../session/sessions.ts';
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
    summary: 'What a project holds at this moment of what all projects share',
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
    summary:
      'Make the secret that the owner of a project logs in with; it is shown once, and ends any before and all sessions',
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
      context.endSessions(nameOf({ role: 'project', projectId: project }));
      return json({ secret }, 201);
    },
  });
}
