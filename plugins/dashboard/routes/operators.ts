import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { json } from '../../../src/plugin/request.ts';
import { OPERATOR_NAME } from '../operators.ts';
import { demandOperator } from '../sessions.ts';
import { OPERATOR_ROLES } from '../store.ts';
import { API, audited, PAGE_ROUTE, type PageContext, REFUSALS } from './common.ts';

const name = Type.String({ pattern: OPERATOR_NAME, description: 'Name that the audit log shows' });
const role = Type.Union(
  OPERATOR_ROLES.map((one) => Type.Literal(one)),
  { description: 'a viewer sees everything and changes nothing' },
);

/** Operators that have a token of their own. */
export function operatorRoutes(context: PageContext): readonly Route[] {
  return [listRoute(context), createRoute(context), deleteRoute(context)];
}

function listRoute({ guard, operators }: PageContext): Route {
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/operators`,
    summary: 'Operators that have a token of their own',
    replies: {
      200: Type.Object({
        operators: Type.Array(
          Type.Object({ name: Type.String(), role, createdAt: Type.Integer({ description: 'unix milliseconds' }) }),
        ),
      }),
      ...REFUSALS,
    },
    async handler(request) {
      demandOperator(guard.enter(request));
      return json({ operators: await operators.list() });
    },
  });
}

function createRoute(context: PageContext): Route {
  const { guard, operators } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'POST',
    path: `${API}/operators`,
    summary: 'Create an operator; its token is returned only here',
    body: Type.Object({ name, role }),
    replies: { 201: Type.Object({ name, role, token: Type.String() }), ...REFUSALS, 409: REFUSALS[400] },
    async handler(request) {
      const session = guard.change(request);
      demandOperator(session);
      const { body } = request;
      const action = { action: 'operators.create', target: `${body.name} (${body.role})` };
      const token = await audited(context, request, session, action, () => operators.create(body));
      return json({ ...body, token }, 201);
    },
  });
}

function deleteRoute(context: PageContext): Route {
  const { guard, operators } = context;
  return defineRoute({
    ...PAGE_ROUTE,
    method: 'DELETE',
    path: `${API}/operators/:operator`,
    summary: 'Delete an operator and end its sessions',
    params: Type.Object({ operator: Type.String({ maxLength: 64 }) }),
    replies: { 200: Type.Object({}), ...REFUSALS },
    async handler(request) {
      const session = guard.change(request);
      demandOperator(session);
      const { operator } = request.params;
      const action = { action: 'operators.delete', target: operator };
      await audited(context, request, session, action, () => operators.delete(operator));
      context.endSessions(`operator:${operator}`);
      return json({});
    },
  });
}
