import { Type } from '@sinclair/typebox';
import { type Clock, defineRoute, json, RequestError, type Route, type Store } from '../../../src/plugin/plugin.ts';
import type { Meter } from '../metering/meter.ts';
import type { Plans } from '../plans/plans.ts';
import { tables } from '../tables.ts';
import { readUsage, usageRecord, usageReply } from './record.ts';

export interface UsageRouteParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly plans: () => Plans;
  readonly meter: Pick<Meter, 'flush'>;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const errorReply = Type.Object({ statusCode: Type.Integer(), message: Type.String(), error: Type.String() });

/** `GET /v0/admin/projects/{id}/usage`: of the key's own project only. */
export function usageRoute({ store, clock, plans, meter }: UsageRouteParts): Route {
  return defineRoute({
    method: 'GET',
    path: '/v0/admin/projects/:id/usage',
    summary: "Credits, requests and bytes of the key's project in its credit cycle",
    tag: 'Admin',
    auth: 'key',
    errors: 'admin',
    permission: 'admin',
    price: { product: 'other', credits: 0, groups: ['admin'] },
    params: Type.Object({ id: Type.String() }),
    documented: { params: { id: Type.String({ format: 'uuid', description: "id of the key's own project" }) } },
    replies: { 200: usageReply, 400: errorReply, 401: errorReply, 403: errorReply, 429: errorReply },
    async handler({ params, caller }) {
      const id = params.id.toLowerCase();
      if (!UUID.test(id) || id !== caller?.projectId.toLowerCase()) throw new RequestError(400, 'Invalid project id');
      // What was answered before this call is in the answer.
      await meter.flush();
      const project = await tables(store.read)
        .selectFrom('projects')
        .selectAll()
        .where('id', '=', caller.projectId)
        .executeTakeFirst();
      if (project === undefined) throw new RequestError(400, 'Invalid project id');
      if (project.admin_api === 0) throw new RequestError(403, 'Admin API not enabled for this project');
      const usage = await readUsage(store.read, project, plans(), clock.now());
      if (usage === null) throw new Error(`the plan ${project.plan} does not exist`);
      return json(usageRecord(usage));
    },
  });
}
