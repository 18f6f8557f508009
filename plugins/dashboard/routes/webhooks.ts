import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { JsonText, RequestError } from '../../../src/plugin/request.ts';
import { demandProject } from '../session/guard.ts';
import { API, audited, PAGE_ROUTE, type PageContext, projectParams, REFUSALS, told } from './common.ts';

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
/** Only these, and below them only letters that ids and queries have. */
const PATH = '^/v0/webhooks(/[A-Za-z0-9-]{1,64}){0,4}(\\?[A-Za-z0-9=&_-]{0,200})?$';

/** The webhook endpoints on behalf of a project: what a page can do is what a key of the project can do. */
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
      const project = (await told(access.projects())).find(({ id }) => id === projectId);
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
