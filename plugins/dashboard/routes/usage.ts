import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { json } from '../../../src/plugin/request.ts';
import type { UsageDay } from '../../../src/ports/access.ts';
import { demandProject } from '../session/guard.ts';
import { API, PAGE_ROUTE, type PageContext, projectParams, REFUSALS, told } from './common.ts';

const day = Type.String({ pattern: '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])$', description: 'YYYY-MM-DD, UTC' });
const daysQuery = Type.Object({ from: day, to: day });
const usageDay = Type.Object({
  day: Type.String(),
  product: Type.String(),
  credits: Type.Number(),
  requests: Type.Integer(),
  bytes: Type.Integer(),
});

/** What a project used: the cycle's record, and days as JSON and CSV. */
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
      const [cycle, days] = await told(
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
      const days = await told(access.usageDays(project, from, to));
      return {
        status: 200,
        bytes: Buffer.from(csvOf(days)),
        contentType: 'text/csv; charset=utf-8',
        headers: { 'Content-Disposition': `attachment; filename="usage-${from}-${to}.csv"` },
      };
    },
  });
}

/** Products and days hold no character that CSV would have to quote. */
function csvOf(days: readonly UsageDay[]): string {
  const lines = days.map(({ day, product, credits, requests, bytes }) =>
    [day, product, credits, requests, bytes].join(','),
  );
  return ['day,product,credits,requests,bytes', ...lines, ''].join('\r\n');
}
