/** Operators with a token of their own: what a viewer may not do, and that the token ends with its operator. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCommand } from '../../helpers/daemon.ts';
import { type DashboardBed, startDashboard, type Visitor } from './harness.ts';

const API = '/dashboard/api';

let bed: DashboardBed;
let operator: Visitor;
before(async () => {
  bed = await startDashboard({ webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } });
  operator = await bed.operator();
});
after(() => bed.stop());

const cli = (...args: string[]) => runCommand([...args, '--config', bed.daemon.configFile]);

async function create(name: string, role: string): Promise<Visitor> {
  const made = await operator.ask('POST', `${API}/operators`, { name, role });
  assert.equal(made.status, 201, made.text);
  const visitor = await bed.logIn({ token: made.body.token });
  assert.deepEqual([visitor.answer.status, visitor.answer.body.role, visitor.answer.body.name], [200, role, name]);
  return visitor;
}

async function ends(visitor: Visitor): Promise<void> {
  for (let tries = 0; tries < 200; tries += 1) {
    if ((await visitor.ask('GET', `${API}/session`)).status === 401) return;
    await sleep(50);
  }
  assert.fail('the session goes on');
}

/** What a viewer may ask for with another method than GET: sessions of its own, and what only reads. */
const OPEN = ['login', 'logout', 'portal', 'sessions/end', 'projects/:project/look-up'].map(
  (path) => `POST ${API}/${path}`,
);
/** A body that every route takes, as far as it gets. */
const BODY = {
  name: 'x',
  address: 'So11111111111111111111111111111111111111112',
  role: 'operator',
  plan: 'free',
  isDisabled: true,
  ips: null,
  lamports: 1,
  depth: 1,
  keepsTransactions: true,
  method: 'POST',
};
/** Endpoints of the API that a page calls. */
const PATHS: Readonly<Record<string, string>> = { webhooks: '/v0/webhooks', interfaces: '/v1/parsed-events/idls' };

test('a viewer can change nothing on any route of the pages, and reads what an operator reads', async () => {
  const viewer = await create('looker', 'viewer');
  const { body } = await operator.ask('GET', `${API}/plugins`);
  const { routes } = body.plugins.find(({ id }: { id: string }) => id === 'dashboard') as { routes: string[] };
  const keys = (await operator.ask('GET', `${API}/projects/${bed.daemon.projectId}/keys`)).body.keys;
  const fill = (path: string) =>
    path.replace(':project', bed.daemon.projectId).replace(':key', keys[0].id).replace(/:\w+/g, 'looker');
  const state = async () => JSON.stringify((await operator.ask('GET', `${API}/projects`)).body.projects);
  const earlier = await state();
  const [changing, reading]: string[][] = [[], []];
  for (const route of routes.filter((one) => one.includes(API) && !OPEN.includes(one))) {
    const [method = '', path = ''] = route.split(' ');
    if (method === 'GET') {
      if (path.endsWith('/live')) continue;
      const query = path.includes('usage')
        ? '?from=2026-01-01&to=2026-01-02'
        : path.endsWith('series')
          ? '?range=1h'
          : '';
      const [own, theirs] = [
        await viewer.ask('GET', fill(path) + query),
        await operator.ask('GET', fill(path) + query),
      ];
      assert.equal(own.status, theirs.status, `${route}: ${own.text}`);
      reading!.push(route);
      continue;
    }
    const name = path.split('/').at(-1) ?? '';
    const answer = await viewer.ask(method, fill(path), { ...BODY, ...(name in PATHS ? { path: PATHS[name] } : {}) });
    assert.deepEqual(
      [answer.status, answer.body?.error],
      [403, 'Viewers may change nothing'],
      `${route}: ${answer.text}`,
    );
    changing!.push(route);
  }
  assert.ok(changing!.length >= 12 && reading!.length >= 12, `${changing!.length} and ${reading!.length} routes`);
  assert.equal(await state(), earlier);
});

test('a viewer sees a webhook without the secrets with which somebody could act for it', async () => {
  const viewer = await create('auditor', 'viewer');
  const endpoint = `${API}/projects/${bed.daemon.projectId}/webhooks`;
  const hook = {
    webhookURL: 'http://127.0.0.1:9/',
    webhookType: 'raw',
    accountAddresses: ['So11111111111111111111111111111111111111112'],
    authHeader: 'Bearer of the receiver',
  };
  const made = await operator.ask('POST', endpoint, { method: 'POST', path: '/v0/webhooks', body: hook });
  assert.equal(made.status, 200, made.text);
  const read = async (who: Visitor, path: string) => await who.ask('POST', endpoint, { method: 'GET', path });
  for (const path of ['/v0/webhooks', `/v0/webhooks/${made.body.webhookID}`]) {
    assert.ok((await read(operator, path)).text.includes(hook.authHeader), path);
    const seen = await read(viewer, path);
    assert.equal(seen.status, 200, seen.text);
    assert.ok(!seen.text.includes('of the receiver') && seen.text.includes('"authHeader":"(hidden)"'), seen.text);
    assert.ok(seen.text.includes(made.body.webhookID), 'the rest is there');
  }
});

test('the audit log names who changed something; an operator that is deleted is out within a second', async () => {
  const ann = await create('ann', 'operator');
  const project = await ann.ask('POST', `${API}/projects`, { name: 'by ann', plan: 'free' });
  assert.equal(project.status, 201, project.text);
  const { entries } = (await operator.ask('GET', `${API}/audit?limit=200`)).body;
  const found = entries.find(({ action }: Record<string, string>) => action === 'projects.create');
  assert.equal(found.actor, 'operator:ann');
  assert.equal((await operator.ask('DELETE', `${API}/operators/ann`)).status, 200);
  await ends(ann);
  assert.equal((await operator.ask('DELETE', `${API}/operators/ann`)).status, 404);
});

test('the commands create, list and delete operators, also beside a running daemon', async () => {
  const made = await cli('operators', 'create', '--name', 'bob', '--role', 'operator', '--json');
  assert.equal(made.code, 0, made.err);
  const { token } = JSON.parse(made.out) as { token: string };
  const bob = await bed.logIn({ token });
  assert.deepEqual([bob.answer.status, bob.answer.body.role], [200, 'operator']);
  const listed = await cli('operators', 'list');
  assert.match(listed.out, /^NAME +ROLE +CREATED \(UTC\)$/m);
  assert.match(listed.out, /^bob +operator +\d{4}-/m);
  assert.ok(!listed.out.includes(token));
  assert.equal((await cli('operators', 'delete', '--name', 'bob')).code, 0);
  await ends(bob);
  assert.equal((await bed.logIn({ token })).answer.status, 401);
  for (const [args, code] of [
    [['create', '--name', 'Not A Name'], /DASHBOARD_BAD_OPERATOR/],
    [['create', '--name', 'cy', '--role', 'root'], /DASHBOARD_BAD_OPERATOR/],
    [['create', '--name', 'looker'], /DASHBOARD_OPERATOR_EXISTS/],
    [['delete', '--name', 'bob'], /DASHBOARD_UNKNOWN_OPERATOR/],
  ] as const) {
    const refused = await cli('operators', ...args);
    assert.equal(refused.code, 64, args.join(' '));
    assert.match(refused.err, code);
  }
});

test('ending all sessions ends only those of its own token for a viewer', async () => {
  const viewer = await create('guest', 'viewer');
  assert.equal((await viewer.ask('POST', `${API}/sessions/end`)).status, 200);
  await ends(viewer);
  assert.equal((await operator.ask('GET', `${API}/session`)).status, 200);
});
