/** What the pages do for a project has its credits and rates; what they show costs nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCommand } from '../../helpers/daemon.ts';
import { startDashboard, type Visitor } from './harness.ts';

const API = '/dashboard/api';
const HOOK = {
  webhookURL: 'https://hook.example/',
  webhookType: 'raw',
  accountAddresses: ['So11111111111111111111111111111111111111112'],
};

test('a page gets no further than a key of the project', async (t) => {
  const bed = await startDashboard();
  t.after(() => bed.stop());
  const { daemon } = bed;
  const cli = async (...args: string[]) => {
    const { code, out, err } = await runCommand([...args, '--json', '--config', daemon.configFile]);
    assert.equal(code, 0, err);
    return JSON.parse(out) as Record<string, unknown>;
  };
  const project = (await cli('projects', 'create', '--name', 'p', '--plan', 'free'))['id'] as string;
  const operator = await bed.operator();
  const { secret } = (await operator.ask('POST', `${API}/projects/${project}/secret`)).body;
  const owner = await bed.logIn({ project, secret });
  const hooks = (method: string, path: string, body?: unknown) =>
    owner.ask('POST', `${API}/projects/${project}/webhooks`, { method, path, ...(body === undefined ? {} : { body }) });
  // Commands of this process leave no room for what the daemon writes meanwhile.
  const used = async () => {
    await sleep(100);
    return (await cli('projects', 'usage', '--id', project))['creditsUsed'] as number;
  };

  const made = await hooks('POST', '/v0/webhooks', HOOK);
  assert.equal(made.status, 200, made.text);
  // Usage is written a little later.
  let paid = 0;
  for (let tries = 0; tries < 100 && paid === 0; tries += 1) paid = await used();
  assert.ok(paid > 0, 'making a webhook costs what it costs by a key');
  for (let n = 0; n < 30; n += 1) assert.equal((await hooks('GET', '/v0/webhooks')).status, 200);
  await sleep(1_200);
  assert.equal(await used(), paid);
  const listed = async (who: Visitor) => {
    const { body } = await who.ask('GET', `${API}/projects`);
    return body.projects.map((row: Record<string, unknown>) => [row['id'], row['recentRequests'], row['lastUse']]);
  };
  // Only the call that has a price counts as a request.
  const own = await listed(owner);
  assert.deepEqual([own.length, ...own[0].slice(0, 2)], [1, project, 1], 'an owner sees his own project');
  assert.match(own[0][2], /^\d{4}-\d\d-\d\d$/);
  assert.ok((await listed(operator)).some(([id, requests]: unknown[]) => id === project && requests === 1));
  const one = `/v0/webhooks/${made.body.webhookID}`;
  const tests = await Promise.all(Array.from({ length: 40 }, () => hooks('POST', `${one}/test`)));
  assert.ok(
    tests.some(({ status }) => status === 429),
    'the rate of the plan',
  );

  await cli('projects', 'set-plan', '--id', project, '--override', '{"creditsLimit":0,"ratePerSecond":{}}');
  let refused = await hooks('POST', '/v0/webhooks', HOOK);
  // Each try is a change, of which an owner has a hundred.
  for (let tries = 0; tries < 40 && refused.body?.error !== 'max usage reached'; tries += 1) {
    await sleep(100 * (tries + 1));
    refused = await hooks('POST', '/v0/webhooks', HOOK);
  }
  assert.deepEqual([refused.status, refused.body.error], [429, 'max usage reached']);
  assert.equal((await hooks('GET', '/v0/webhooks')).status, 200);
  assert.equal((await hooks('DELETE', one)).status, 200, 'what ends a cost stays possible');

  // What costs nothing is written down all the same: an owner is slowed, others are not.
  const { id: key } = (await operator.ask('POST', `${API}/projects/${project}/keys`, { name: 'k' })).body;
  const limit = (who: Visitor) =>
    who.ask('PUT', `${API}/projects/${project}/keys/${key}/limits`, { ips: ['10.0.0.0/8'] });
  const limits = await Promise.all(Array.from({ length: 120 }, () => limit(owner)));
  const slowed = limits.filter(({ status }) => status === 429);
  assert.ok(slowed.length >= 20 && limits.some(({ status }) => status === 200), `${slowed.length} refused`);
  assert.ok(slowed.every(({ headers }) => Number(headers.get('retry-after')) >= 1));
  assert.equal((await owner.ask('GET', `${API}/projects/${project}/keys`)).status, 200);
  for (let n = 0; n < 30; n += 1) assert.equal((await limit(operator)).status, 200);
});
