import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSystemRandom } from '../../../src/adapters/clock.ts';
import type { RouteRequest } from '../../../src/plugin/request.ts';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { createLoginBrake, createSessions, type Identity } from '../sessions.ts';
import type { PageContext } from './common.ts';
import { portalRoutes } from './portal.ts';

const VISITOR: Identity = { role: 'project', projectId: 'p', portal: 'owner' };
const limits = { sessionIdleMinutes: 60, sessionMaxHours: 12, maxSessions: 3, maxSessionsPerIdentity: 3 };
/** Nobody looks meanwhile whether rights have ended. */
const unwatched = { add: () => () => undefined, lookNow: () => undefined, stop: () => undefined };

test('a link whose rights ended a moment ago, by another process, opens nothing', async () => {
  const clock = createManualClock();
  const [links, sessions] = [1, 2].map(() => createSessions(clock, createSystemRandom(), limits, unwatched));
  let standing = 'before';
  const context = {
    sessions,
    standings: { read: async (names: readonly string[]) => new Map(names.map((name) => [name, standing])) },
    audit: { record: async (_entry: unknown, work: () => Promise<unknown>) => await work() },
  } as unknown as PageContext;
  const routes = portalRoutes(context, { links: links!, brake: createLoginBrake(clock, () => 10) });
  const { handler } = routes.find(({ path }) => path === '/dashboard/api/portal')!;
  const open = async (token: string) =>
    await handler({ body: { token }, remoteAddress: '127.0.0.1' } as unknown as RouteRequest);
  const [one, other] = [links!.open(VISITOR, standing), links!.open(VISITOR, standing)];
  assert.equal((await open(one.token)).status, 200);
  standing = 'after';
  await assert.rejects(open(other.token), { status: 401 });
  assert.equal(sessions!.count(), 1);
});
