import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { gzipSync } from 'node:zlib';
import { type DashboardBed, OPERATOR_TOKEN, startDashboard, type Visitor } from './harness.ts';

const API = '/dashboard/api';
/** Of the upstream of tests. */
const GENESIS = '11111111111111111111111111111112';
/** What shows the whole daemon. */
const OPERATOR_READS = [
  'plugins',
  'config',
  'audit',
  'trees',
  'wallets',
  'shadow',
  'gaps',
  'health',
  'series?range=1h',
];
const SOURCES = fileURLToPath(new URL('../../../plugins/dashboard/app/', import.meta.url));

let bed: DashboardBed;
let operator: Visitor;
let project: string;

before(async () => {
  bed = await startDashboard({ webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } });
  operator = await bed.operator();
  project = bed.daemon.projectId;
});
after(() => bed.stop());

const actions = async () => {
  const { body } = await operator.ask('GET', `${API}/audit?limit=200`);
  return body.entries as {
    readonly action: string;
    readonly actor: string;
    readonly outcome: string;
    readonly target: string;
  }[];
};

test('the pages are told which chains the daemon serves', async () => {
  await until(async () => {
    const { body } = await operator.ask('GET', `${API}/projects`);
    return isDeepStrictEqual(body.genesisHashes, { main: GENESIS });
  });
});

test('the pages: nothing inline, nothing from elsewhere', async () => {
  const { status, headers, text } = await bed.stranger.ask('GET', '/dashboard');
  assert.equal(status, 200);
  assert.match(headers.get('content-type') ?? '', /^text\/html/);
  const policy = headers.get('content-security-policy') ?? '';
  assert.match(policy, /default-src 'none'/);
  assert.ok(!/unsafe|https?:|\*/.test(policy), policy);
  assert.ok(!/<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=/.test(text), 'inline code or style');
  assert.ok(!/https?:\/\//.test(text), 'an address elsewhere');
  const named = (source: string, pattern: RegExp) => [...source.matchAll(pattern)].map(([, name]) => name as string);
  const first = named(text, /(?:src|href)="\/dashboard\/([^"]+)"/g);
  assert.deepEqual(first.toSorted(), ['app.js', 'icon.svg', 'style.css']);
  const app = await bed.stranger.ask('GET', '/dashboard/app.js');
  const parts = named(app.text, /import\("\.\/([^"]+)"\)/g);
  assert.ok(parts.length > 0, 'the plots are loaded with the first plot');
  let bytes = 0;
  for (const name of [...first, ...parts, 'licenses.txt']) {
    const file = await bed.stranger.ask('GET', `/dashboard/${name}`);
    assert.equal(file.status, 200, name);
    assert.equal(file.headers.get('x-content-type-options'), 'nosniff');
    assert.ok(!/document\.write|eval\(|new Function|sourceMappingURL/.test(file.text), name);
    bytes += gzipSync(file.text).length;
    const again = await bed.stranger.ask('GET', `/dashboard/${name}`, undefined, {
      'if-none-match': file.headers.get('etag') ?? '',
    });
    assert.deepEqual([again.status, again.text], [304, '']);
  }
  assert.ok(bytes < 150_000, `${bytes} bytes`);
  for (const name of readdirSync(SOURCES).filter((file) => /\.tsx?$/.test(file)))
    assert.ok(
      !/innerHTML|insertAdjacentHTML|dangerously|\/metrics/i.test(readFileSync(`${SOURCES}${name}`, 'utf8')),
      `${name} reads text as markup, or asks for all metrics`,
    );
  for (const name of ['nothing.js', '..%2findex.ts', '%2e%2e', 'index.ts'])
    assert.ok((await bed.stranger.ask('GET', `/dashboard/${name}`)).status >= 400, name);
  // Not on the listener that the world reaches.
  assert.equal((await fetch(`${bed.daemon.apiUrl}/dashboard`)).status, 404);
});

test('all pages need a login', async () => {
  const reads = ['session', 'projects', 'choices', 'live', ...OPERATOR_READS];
  for (const path of reads) assert.equal((await bed.stranger.ask('GET', `${API}/${path}`)).status, 401, path);
  for (const path of [
    `projects/${project}/keys`,
    `projects/${project}/budgets`,
    `projects/${project}/requests`,
    `projects/${project}/usage?from=2026-01-01&to=2026-01-02`,
  ])
    assert.equal((await bed.stranger.ask('GET', `${API}/${path}`)).status, 401, path);
  const forged = await bed.stranger.ask('GET', `${API}/session`, undefined, { cookie: 'parhelion_session=forged' });
  assert.equal(forged.status, 401);
});

test('the reference names the cookie of the routes that need a session, and of no others', async () => {
  const { body } = await bed.stranger.ask('GET', '/openapi.json');
  const cookie = body.components.securitySchemes['session-parhelion_session'];
  assert.deepEqual([cookie.in, cookie.name], ['cookie', operator.cookie.split('=')[0]]);
  const isOpen = ({ security }: { readonly security: readonly object[] }) => security.length === 0;
  const open: string[] = [];
  for (const [path, methods] of Object.entries<Record<string, never>>(body.paths)) {
    if (!path.startsWith('/dashboard')) continue;
    for (const [method, operation] of Object.entries(methods)) {
      if (isOpen(operation)) open.push(`${method} ${path}`);
      else assert.deepEqual(operation['security'], [{ 'session-parhelion_session': [] }], path);
    }
  }
  // Those with which one logs in, and the files of the pages.
  const logIn = [`get ${API}/login`, `get ${API}/oidc`, `get ${API}/oidc/callback`, `post ${API}/login`];
  const portal = ['get /dashboard/portal', `post ${API}/portal`];
  assert.deepEqual(open.toSorted(), ['get /dashboard', 'get /dashboard/{file}', ...portal, ...logIn].toSorted());
  const tag = body.tags.find(({ name }: { readonly name: string }) => name === 'Dashboard');
  assert.match(tag.description, /operators and owners of projects/);
});

test('the cookie cannot be read by scripts or sent by other sites', async () => {
  const { answer } = await bed.logIn({ token: OPERATOR_TOKEN });
  const cookie = answer.headers.get('set-cookie') ?? '';
  assert.match(cookie, /; HttpOnly/);
  assert.match(cookie, /; SameSite=Strict/);
  assert.match(cookie, /; Path=\/dashboard/);
  assert.ok(!answer.text.includes(cookie.split(/[=;]/)[1] as string), 'the token is in the cookie alone');
});

test('changes need the token of the session and the same origin', async () => {
  const body = { name: 'k' };
  const path = `${API}/projects/${project}/keys`;
  for (const headers of [{ 'x-csrf-token': 'wrong' }, { 'x-csrf-token': '' }])
    assert.equal((await operator.ask('POST', path, body, headers)).status, 403);
  const other = await bed.operator();
  assert.equal((await operator.ask('POST', path, body, { 'x-csrf-token': other.csrfToken })).status, 403);
  const elsewhere = await operator.ask('POST', path, body, { origin: 'https://evil.example' });
  assert.equal(elsewhere.status, 403);
  assert.equal((await operator.ask('GET', path)).body.keys.length, 1, 'nothing was made');
});

test('wrong logins are refused after a few, and the right one never is', async () => {
  const own = await startDashboard({ dashboard: { loginFailuresPerMinute: 3 } });
  try {
    const statuses: number[] = [];
    for (let at = 0; at < 5; at += 1) statuses.push((await own.logIn({ token: 'wrong' })).answer.status);
    assert.deepEqual(statuses, [401, 401, 401, 429, 429]);
    const refused = await own.logIn({ token: 'wrong' });
    assert.ok(Number(refused.answer.headers.get('retry-after')) >= 1);
    const { answer } = await own.logIn({ token: OPERATOR_TOKEN });
    assert.equal(answer.status, 200, 'from the same address');
  } finally {
    await own.stop();
  }
});

test('a key is made, works, is limited and revoked, and all of it is written down', async () => {
  const keys = `${API}/projects/${project}/keys`;
  const made = await operator.ask('POST', keys, { name: 'from the page', ips: ['127.0.0.1'] });
  assert.equal(made.status, 201);
  const usage = (key: string) =>
    fetch(`${bed.daemon.apiUrl}/v0/webhooks`, { headers: { 'X-Api-Key': key } }).then(({ status }) => status);
  assert.equal(await usage(made.body.key), 200);
  const { body } = await operator.ask('GET', keys);
  const shown = body.keys.find((one: { id: string }) => one.id === made.body.id);
  assert.deepEqual([shown.name, shown.state, shown.ips], ['from the page', 'active', ['127.0.0.1']]);
  assert.ok(!JSON.stringify(body).includes(made.body.key), 'the key is shown once');
  const limited = await operator.ask('PUT', `${keys}/${made.body.id}/limits`, { ips: ['10.0.0.0/8'] });
  assert.equal(limited.status, 200);
  await until(async () => (await usage(made.body.key)) === 403);
  assert.equal((await operator.ask('PUT', `${keys}/${made.body.id}/limits`, { ips: ['nonsense'] })).status, 400);
  const revoked = await operator.ask('POST', `${keys}/${made.body.id}/revoke`);
  assert.deepEqual(revoked.body, { revoked: true });
  await until(async () => (await usage(made.body.key)) === 401);
  assert.deepEqual((await operator.ask('POST', `${keys}/${made.body.id}/revoke`)).body, { revoked: false });
  assert.equal((await operator.ask('POST', `${keys}/unknown/revoke`)).status, 404);
  const log = await actions();
  for (const action of ['keys.create', 'keys.limit', 'keys.revoke'])
    assert.ok(
      log.some((entry) => entry.action === action && entry.outcome === 'done' && entry.actor === 'operator'),
      action,
    );
  // The name is what people know a key by.
  const targets = (wanted: string) => log.filter(({ action }) => action === wanted).map(({ target }) => target);
  assert.ok(targets('keys.revoke').includes(`${project}: from the page (${made.body.id})`));
  assert.ok(targets('keys.limit').includes(`${project}: from the page (${made.body.id}): ips 10.0.0.0/8`));
  assert.ok(log.some(({ action, outcome }) => action === 'keys.revoke' && outcome === 'failed'));
  assert.ok(targets('keys.revoke').includes(`${project}: unknown`));
  const { body: nameless } = await operator.ask('POST', keys, {});
  await operator.ask('POST', `${keys}/${nameless.id}/revoke`);
  assert.ok((await actions()).some(({ target }) => target === `${project}: ${nameless.id}`));
  assert.ok(!JSON.stringify(log).includes(made.body.key), 'no secret in the log');
});

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (const startedMs = performance.now(); !(await isSo()); await sleep(50))
    if (performance.now() - startedMs > 60_000) throw new Error('it never became so');
}

test('the owner of a project sees and changes that project alone', async () => {
  const made = await operator.ask('POST', `${API}/projects`, { name: 'Owned', plan: 'free' });
  assert.equal(made.status, 201);
  const own = made.body.id as string;
  const { body } = await operator.ask('POST', `${API}/projects/${own}/secret`);
  const owner = await bed.logIn({ project: own, secret: body.secret });
  assert.equal(owner.answer.status, 200);
  assert.deepEqual([owner.answer.body.role, owner.answer.body.projectId], ['project', own]);
  const list = await owner.ask('GET', `${API}/projects`);
  assert.deepEqual(
    list.body.projects.map(({ id }: { id: string }) => id),
    [own],
  );
  assert.equal((await owner.ask('POST', `${API}/projects/${own}/keys`, { name: 'mine' })).status, 201);
  const others = ['keys', 'budgets', 'requests', 'usage?from=2026-01-01&to=2026-01-02'];
  for (const path of others.map((one) => `projects/${project}/${one}`))
    assert.equal((await owner.ask('GET', `${API}/${path}`)).status, 404, path);
  for (const path of ['live', ...OPERATOR_READS])
    assert.equal((await owner.ask('GET', `${API}/${path}`)).status, 403, path);
  const writes: [string, unknown][] = [
    [`projects/${project}/keys`, { name: 'x' }],
    [`projects/${project}/webhooks`, { method: 'GET', path: '/v0/webhooks' }],
    ['projects', { name: 'x', plan: 'free' }],
    [`projects/${own}/secret`, undefined],
  ];
  for (const [path, given] of writes) assert.ok((await owner.ask('POST', `${API}/${path}`, given)).status >= 403, path);
  const { body: renewed } = await operator.ask('POST', `${API}/projects/${own}/secret`);
  assert.equal((await bed.logIn({ project: own, secret: body.secret })).answer.status, 401, 'the old one has ended');
  assert.equal((await bed.logIn({ project: own, secret: renewed.secret })).answer.status, 200);
  assert.equal((await bed.logIn({ project, secret: renewed.secret })).answer.status, 401, 'of another project');
});

test('logging out ends the session', async () => {
  const visitor = await bed.operator();
  assert.equal((await visitor.ask('GET', `${API}/session`)).status, 200);
  assert.equal((await visitor.ask('POST', `${API}/logout`)).status, 200);
  assert.equal((await visitor.ask('GET', `${API}/session`)).status, 401);
});

test('webhooks are made, switched and deleted by the endpoints that keys use', async () => {
  const api = (method: string, path: string, body?: unknown) =>
    operator.ask('POST', `${API}/projects/${project}/webhooks`, {
      method,
      path,
      ...(body === undefined ? {} : { body }),
    });
  const made = await api('POST', '/v0/webhooks', {
    webhookURL: 'http://127.0.0.1:9/hook',
    webhookType: 'raw',
    transactionTypes: ['ANY'],
    accountAddresses: ['So11111111111111111111111111111111111111112'],
  });
  assert.equal(made.status, 200, made.text);
  const id = made.body.webhookID as string;
  assert.equal((await api('GET', '/v0/webhooks')).body.length, 1);
  assert.equal((await api('PATCH', `/v0/webhooks/${id}`, { active: false })).body.active, false);
  const overHttp = await fetch(`${bed.daemon.apiUrl}/v0/webhooks/${id}`, { headers: { 'X-Api-Key': bed.daemon.key } });
  assert.equal(((await overHttp.json()) as { active: boolean }).active, false);
  const { body } = await api('GET', `/v0/webhooks/${id}/deliveries?limit=5`);
  assert.deepEqual(body.data, []);
  for (const query of ['limit=500', 'signature=short', 'status=unknown'])
    assert.equal((await api('GET', `/v0/webhooks/${id}/deliveries?${query}`)).status, 400, query);
  const unknown = await api('GET', `/v0/webhooks/${id}/deliveries?signature=${'1'.repeat(64)}`);
  assert.deepEqual(unknown.body.data, []);
  assert.equal((await api('PATCH', `/v0/webhooks/${id}`, { active: 'no' })).status, 400);
  assert.equal((await api('DELETE', `/v0/webhooks/${id}`)).status, 200);
  assert.equal((await api('GET', `/v0/webhooks/${id}`)).status, 404);
  // No other endpoint is reached this way.
  for (const path of [
    '/v0/admin/projects/x/usage',
    '/dashboard/api/audit',
    '/v0/webhooks/../admin',
    '/v0/webhooks/%2e%2e',
  ])
    assert.equal((await api('GET', path)).status, 400, path);
  const log = (await actions()).map(({ action }) => action);
  for (const action of ['webhooks.post', 'webhooks.patch', 'webhooks.delete']) assert.ok(log.includes(action), action);
});

test('usage by day, as JSON and as CSV', async () => {
  const response = await fetch(`${bed.daemon.apiUrl}/v0/webhooks`, { headers: { 'X-Api-Key': bed.daemon.key } });
  assert.equal(response.status, 200);
  const today = new Date().toISOString().slice(0, 10);
  const path = `${API}/projects/${project}/usage`;
  const { body } = await operator.ask('GET', `${path}?from=2026-01-01&to=${today}`);
  assert.ok(
    body.days.some(({ product, requests }: Record<string, unknown>) => product === 'webhooks' && Number(requests) > 0),
  );
  assert.equal(body.cycle.subscriptionDetails.plan, 'unlimited');
  const csv = await operator.ask('GET', `${path}.csv?from=2026-01-01&to=${today}`);
  assert.match(csv.headers.get('content-type') ?? '', /^text\/csv/);
  const lines = csv.text.trim().split('\r\n');
  assert.deepEqual([lines[0], lines.length], ['day,product,credits,requests,bytes', body.days.length + 1]);
  assert.equal((await operator.ask('GET', `${path}?from=yesterday&to=${today}`)).status, 400);
});

test("the operators' view of the daemon contains no secret", async () => {
  const { body, text } = await operator.ask('GET', `${API}/config`);
  assert.ok(!text.includes(OPERATOR_TOKEN));
  assert.equal(body.config.follow.enabled, false);
  const { body: found } = await operator.ask('GET', `${API}/plugins`);
  const ids = found.plugins.map(({ id }: { id: string }) => id).sort();
  assert.deepEqual(ids, ['access', 'compression', 'dashboard', 'webhooks']);
  assert.ok((await operator.ask('GET', `${API}/trees`)).body.trees.length > 0);
  // Without the plugin there are none.
  assert.deepEqual((await operator.ask('GET', `${API}/wallets`)).body, { wallets: [], nextCursor: null });
});

test('the configuration shows what differs from the defaults, and hides secrets', async () => {
  const { body } = await operator.ask('GET', `${API}/config`);
  type Setting = Readonly<Record<'key' | 'description', string>> & {
    readonly value: unknown;
    readonly default: unknown;
    readonly isChanged: boolean;
  };
  const settings = new Map((body.settings as Setting[]).map((one) => [one.key, one]));
  const read = (key: string) => settings.get(key)!;
  assert.deepEqual([read('follow.enabled').value, read('follow.enabled').default], [false, true]);
  assert.deepEqual([read('follow.enabled').isChanged, read('follow.pollMs').description.length > 0], [true, true]);
  const { value, isChanged } = read('dashboard.operatorToken');
  assert.deepEqual([value, isChanged], ['***', true]);
  assert.equal(read('dashboard.auditDays').isChanged, false);
});

test('a request is shown with what it contained and why it failed, and without keys', async () => {
  const own = await startDashboard({ plugins: ['access', 'compression', 'dashboard', 'proxy', 'webhooks'] });
  try {
    const visitor = await own.operator();
    const { apiUrl, key, projectId } = own.daemon;
    const path = `${API}/projects/${projectId}/requests`;
    const list = async () => (await visitor.ask('GET', path)).body.requests as { requestId: string; route: string }[];
    const post = async (to: string, body: string, headers = {}) =>
      await (await fetch(`${apiUrl}${to}`, { method: 'POST', body, headers })).text();
    const newest = async (count: number) => {
      await until(async () => (await list()).length === count);
      const { requestId } = (await list())[0]!;
      const { status, body, text } = await visitor.ask('GET', `${path}/${requestId}`);
      assert.equal(status, 200);
      assert.ok(!text.includes(key), 'the key is masked');
      return body.request;
    };
    const made = {
      webhookURL: 'https://hook.example/',
      webhookType: 'raw',
      accountAddresses: [MINT],
      authHeader: 'Bearer "hush hush',
    };
    const { webhookID } = JSON.parse(await post(`/v0/webhooks?api-key=${key}`, JSON.stringify(made)));
    const created = await newest(1);
    assert.deepEqual(
      [created.route, created.status, created.content.path, created.content.query, created.content.failure],
      ['/v0/webhooks', 200, '/v0/webhooks', 'api-key=***', null],
    );
    assert.equal(created.content.host, new URL(apiUrl).host);
    assert.deepEqual(JSON.parse(created.content.body), { ...made, authHeader: '***' });
    assert.equal(created.content.isWhole, false);

    await (await fetch(`${apiUrl}/v0/webhooks/${webhookID}?api-key=${key}`)).text();
    const read = await newest(2);
    assert.deepEqual(
      [read.content.path, read.content.body, read.content.isWhole],
      [`/v0/webhooks/${webhookID}`, null, true],
    );

    const wrong = { jsonrpc: '2.0', id: 'é', method: 'getBalance', params: ['no address'] };
    const answer = await post('/', JSON.stringify(wrong), { 'x-api-key': key });
    const call = await newest(3);
    assert.deepEqual([call.rpc, call.rpcFailed, JSON.parse(call.content.body)], ['getBalance', 1, wrong]);
    assert.equal(call.content.failure, answer);
    assert.equal(call.content.isWhole, true);

    const refused = await post(`/v0/webhooks?api-key=${key}`, JSON.stringify({ ...made, webhookType: 'odd' }));
    assert.equal((await newest(4)).content.failure, refused);

    // What is too long is cut, and says so.
    const long = { ...wrong, id: 1, params: ['x'.repeat(10_000)] };
    await post(`/?api-key=${key}`, JSON.stringify(long));
    const { content } = await newest(5);
    assert.deepEqual(
      [content.body.length, content.bodyBytes, content.isCut, content.isWhole],
      [4_096, JSON.stringify(long).length, true, false],
    );

    for (const id of ['nothing', created.requestId.replace(/.$/, 'z')])
      assert.equal((await visitor.ask('GET', `${path}/${id}`)).status, 404);
  } finally {
    await own.stop();
  }
});

test('with dashboard.requestBodies off nothing of a request is kept', async () => {
  const own = await startDashboard({ dashboard: { requestBodies: false } });
  try {
    const visitor = await own.operator();
    const { apiUrl, key, projectId } = own.daemon;
    const path = `${API}/projects/${projectId}/requests`;
    await (await fetch(`${apiUrl}/v0/webhooks?api-key=${key}`, { method: 'POST', body: '{"a":1}' })).text();
    await until(async () => (await visitor.ask('GET', path)).body.requests.length === 1);
    const [{ requestId }] = (await visitor.ask('GET', path)).body.requests;
    const { request } = (await visitor.ask('GET', `${path}/${requestId}`)).body;
    assert.deepEqual([request.status, request.content], [400, null]);
  } finally {
    await own.stop();
  }
});

test('the last requests of a project have status, latency and credits, and neither key nor body', async () => {
  const own = await startDashboard({ plugins: ['access', 'compression', 'dashboard', 'proxy', 'webhooks'] });
  try {
    const visitor = await own.operator();
    const { apiUrl, key, projectId } = own.daemon;
    const list = async () => (await visitor.ask('GET', `${API}/projects/${projectId}/requests`)).body.requests;
    assert.deepEqual(await list(), []);
    const made = { webhookURL: 'https://hook.example/secret-path', webhookType: 'raw', accountAddresses: [MINT] };
    const answer = await fetch(`${apiUrl}/v0/webhooks?api-key=${key}`, { method: 'POST', body: JSON.stringify(made) });
    const { webhookID } = (await answer.json()) as { webhookID: string };
    await (await fetch(`${apiUrl}/v0/webhooks/${webhookID}?api-key=${key}`)).text();
    await (await fetch(`${apiUrl}/v0/webhooks/no-uuid?api-key=${key}`)).text();
    await until(async () => (await list()).length === 3);
    const found = (await list()) as Record<string, unknown>[];
    assert.deepEqual(
      found.map(({ method, route, status, credits }) => [method, route, status, credits]),
      [
        ['GET', '/v0/webhooks/:webhookID', 400, 0],
        ['GET', '/v0/webhooks/:webhookID', 200, 0],
        ['POST', '/v0/webhooks', 200, 100],
      ],
    );
    const call = async (body: unknown) =>
      (await fetch(`${apiUrl}/?api-key=${key}`, { method: 'POST', body: JSON.stringify(body) })).text();
    const health = { jsonrpc: '2.0', id: 1, method: 'getHealth' };
    const wrong = { jsonrpc: '2.0', id: 2, method: 'getBalance', params: ['no address'] };
    for (const body of [health, wrong, { ...health, method: 'noSuchMethod' }, [health, wrong]]) await call(body);
    await until(async () => (await list()).length === 7);
    assert.deepEqual(
      ((await list()) as Record<string, unknown>[])
        .slice(0, 4)
        .map(({ rpc, status, rpcFailed }) => [rpc, status, rpcFailed]),
      [
        ['batch(2)', 200, 1],
        ['noSuchMethod', 200, 1],
        ['getBalance', 200, 1],
        ['getHealth', 200, 0],
      ],
    );
    // What the list shows as an error is one in the plot of the overview, which is made of this metric.
    const metrics = await (await fetch(`${own.daemon.adminUrl}/metrics`)).text();
    const failed = [...metrics.matchAll(/^parhelion_rpc_calls_total\{.*outcome="error".*\} (\d+)$/gm)];
    assert.equal(
      failed.reduce((sum, [, count]) => sum + Number(count), 0),
      3,
    );
    assert.ok(found.every(({ durationMs }) => Number(durationMs) > 0));
    const text = JSON.stringify(found);
    assert.ok(!text.includes(key) && !text.includes('secret-path') && !text.includes('api-key'), text);
    const { body } = await visitor.ask('GET', `${API}/projects/${projectId}/keys`);
    assert.ok(body.keys[0].usedAt >= Number(found.at(-1)?.['at']), 'the key was used');
  } finally {
    await own.stop();
  }
});

test('a key is limited to permissions and origins, and an expiry must lie ahead', async () => {
  const keys = `${API}/projects/${project}/keys`;
  const limits = { permissions: ['rpc'], origins: ['https://app.example'] };
  const made = await operator.ask('POST', keys, { name: 'narrow', ...limits });
  assert.equal(made.status, 201, made.text);
  const read = async () => {
    const { body } = await operator.ask('GET', keys);
    const { permissions, origins, ips } = body.keys.find(({ id }: { id: string }) => id === made.body.id);
    return { permissions, origins, ips };
  };
  assert.deepEqual(await read(), { ...limits, ips: null });
  const headers = { 'X-Api-Key': made.body.key, origin: 'https://app.example' };
  assert.equal((await fetch(`${bed.daemon.apiUrl}/v0/webhooks`, { headers })).status, 403, 'no permission');
  const change = (body: unknown) => operator.ask('PUT', `${keys}/${made.body.id}/limits`, body);
  assert.equal((await change({ permissions: null })).status, 200);
  assert.deepEqual(await read(), { permissions: null, origins: limits.origins, ips: null }, 'the others are unchanged');
  for (const wrong of [{ permissions: ['everything'] }, { origins: ['no origin'] }, { ips: ['nowhere'] }])
    assert.equal((await change(wrong)).status, 400, JSON.stringify(wrong));
  assert.equal((await operator.ask('POST', keys, { name: 'late', expiresAt: 1 })).status, 400);
  const { body: choices } = await operator.ask('GET', `${API}/choices`);
  assert.ok(choices.permissions.includes('rpc') && choices.transactionTypes.includes('NFT_SALE'));
});

test('the time series count requests and errors, and are there after a restart', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-series-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const config = { dashboard: { sampleIntervalMs: 250 } };
  const first = await startDashboard(config, undefined, { dataDir, key: 'key-of-the-series' });
  const sumsOf = async (from: DashboardBed) => {
    const { body } = await (await from.operator()).ask('GET', `${API}/series?range=1h`);
    const sums: Record<string, number> = {};
    for (const point of body.points)
      for (const [key, value] of Object.entries(point.sums as Record<string, number>))
        sums[key] = (sums[key] ?? 0) + value;
    const latency = body.points.some((point: { latency: unknown }) => point.latency !== null);
    return { sums, latency, size: body.points.at(-1)?.peaks.storeBytes as number };
  };
  const { apiUrl, key } = first.daemon;
  const ask = async (path: string) => (await fetch(`${apiUrl}${path}?api-key=${key}`)).text();
  for (let n = 0; n < 5; n += 1) await ask('/v0/webhooks');
  for (let n = 0; n < 2; n += 1) await ask('/v0/webhooks/no-uuid');
  await until(async () => (await sumsOf(first)).sums['requests.webhooks'] === 7);
  const before = await sumsOf(first);
  assert.deepEqual([before.sums['errors.webhooks'], before.latency], [2, true]);
  assert.ok(before.size > 10_000, `${before.size} bytes`);
  assert.ok((before.sums['seen.main main-0'] ?? 0) > 0, Object.keys(before.sums).join());
  for (const range of ['2h', '', '1h&range=7d'])
    assert.equal((await operator.ask('GET', `${API}/series?range=${range}`)).status, 400, range);
  await first.stop();
  const again = await startDashboard(config, undefined, { dataDir, key: 'key-of-the-series' });
  await until(async () => (await sumsOf(again)).sums['requests.webhooks'] === 7);
  await again.stop();
});

const MINT = 'So11111111111111111111111111111111111111112';

type LiveChain = Readonly<Record<'lagSlots' | 'slotMs' | 'lagSeconds', number | null>> & { readonly isLate: boolean };

test('live values come by themselves, and end with the session', async () => {
  const visitor = await bed.operator();
  const response = await fetch(`${bed.daemon.adminUrl}${API}/live`, { headers: { cookie: visitor.cookie } });
  assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/);
  let events = 0;
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    const text = Buffer.from(chunk).toString();
    const data = /^data: (.*)$/m.exec(text)?.[1];
    if (data === undefined) continue;
    const status = JSON.parse(data) as { chains: LiveChain[]; upstreams: { healthy: boolean }[] };
    assert.deepEqual([status.chains.length, status.upstreams.length], [1, 1]);
    // The lag is judged in time, by the limit of readiness.
    const { lagSlots, slotMs, lagSeconds, isLate } = status.chains[0]!;
    assert.equal(lagSeconds, lagSlots === null ? null : (lagSlots * (slotMs ?? 400)) / 1_000);
    assert.equal(isLate, (lagSeconds ?? 0) > 60);
    events += 1;
    if (events === 2) await visitor.ask('POST', `${API}/logout`);
  }
  assert.ok(events >= 2, 'the stream ended with the session');
});

test('an open page does not hold up the end of the daemon', async () => {
  const own = await startDashboard();
  const { cookie } = await own.operator();
  const response = await fetch(`${own.daemon.adminUrl}${API}/live`, { headers: { cookie } });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  assert.equal((await reader.read()).done, false);
  let isOver = false;
  const ended = (async () => {
    while (!(await reader.read().catch(() => ({ done: true }))).done);
    isOver = true;
  })();
  // The drain waits for accepted requests; this one has no end of its own.
  const stopped = own.stop().then(() => isOver);
  await ended;
  await stopped;
});

test('the log has pages that neither lose nor repeat an entry', async () => {
  const all = await actions();
  const seen: unknown[] = [];
  for (let cursor = ''; ; ) {
    const { body } = await operator.ask('GET', `${API}/audit?limit=3${cursor}`);
    seen.push(...body.entries);
    if (body.nextCursor === null) break;
    cursor = `&cursor=${body.nextCursor}`;
  }
  assert.deepEqual(seen, all);
});
