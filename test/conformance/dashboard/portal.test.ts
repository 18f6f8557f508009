/** The portal: a link for one project that works once, the session that it opens, and who may embed it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCommand } from '../../helpers/daemon.ts';
import { until } from '../../helpers/until.ts';
import { type Answer, type DashboardBed, OPERATOR_TOKEN, startDashboard, type Visitor } from './harness.ts';

const API = '/dashboard/api';
const ORIGINS = ['https://app.example.com', 'http://127.0.0.1:9'];
const BY_OPERATOR = { authorization: `Bearer ${OPERATOR_TOKEN}` };
const UNKNOWN = 'b5a3e1c2-7d64-4c0a-9e39-2f1f5a0d8c11';

/** Embedded by others, at an address of its own. */
let bed: DashboardBed;
/** As it is without a configuration, but for limits. */
let plain: DashboardBed;
let operator: Visitor;
let project: string;

before(async () => {
  bed = await startDashboard({
    webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] },
    dashboard: {
      portal: { origins: ORIGINS, publicUrl: 'https://portal.example.com/' },
      loginFailuresPerMinute: 100,
    },
  });
  plain = await startDashboard({ dashboard: { portal: { linkSeconds: 1 }, maxSessionsPerIdentity: 2 } });
  operator = await bed.operator();
  project = bed.daemon.projectId;
});
after(async () => {
  await bed?.stop();
  await plain?.stop();
});

const linksOf = (id: string) => `/v0/admin/projects/${id}/portal`;
const ask = async (body: unknown, id = project, from = bed): Promise<Answer> =>
  await from.stranger.ask('POST', linksOf(id), body, BY_OPERATOR);

async function makeLink(body: unknown = { role: 'owner' }, id = project, from = bed): Promise<string> {
  const made = await ask(body, id, from);
  assert.equal(made.status, 201, made.text);
  return new URL(made.body.url).hash.replace('#token=', '');
}

const open = async (token: string, from = bed): Promise<Answer> =>
  await from.stranger.ask('POST', `${API}/portal`, { token });

type Ask = Visitor['ask'];
interface Guest {
  readonly ask: Ask;
  readonly session: string;
  readonly csrfToken: string;
}

/** Whoever has opened a link. */
async function enter(token: string, from = bed): Promise<Guest> {
  const opened = await open(token, from);
  assert.equal(opened.status, 200, opened.text);
  const { session } = opened.body as { session: string };
  const header = { 'x-portal-session': session };
  const who = await from.stranger.ask('GET', `${API}/session`, undefined, header);
  assert.equal(who.status, 200, who.text);
  const { csrfToken } = who.body as { csrfToken: string };
  return {
    session,
    csrfToken,
    ask: (method, path, body, headers) =>
      from.stranger.ask(method, path, body, { ...header, 'x-csrf-token': csrfToken, ...headers }),
  };
}

const isIn = async (guest: Guest) => (await guest.ask('GET', `${API}/session`)).status === 200;
const PROJECT = { name: 'another', plan: 'free' };
const GONE = 'The link has expired or was opened before';

test('a link is made with the token of an operator, and refused in the shape of operator routes', async () => {
  const made = await ask({ role: 'owner', theme: 'dark' });
  assert.equal(made.status, 201, made.text);
  const { url, expiresAt } = made.body as { url: string; expiresAt: number };
  assert.match(url, /^https:\/\/portal\.example\.com\/dashboard\/portal\?theme=dark#token=[\w-]{43}$/);
  assert.ok(expiresAt > Date.now() && expiresAt <= Date.now() + 300_000, String(expiresAt));

  const viewer = (await operator.ask('POST', `${API}/operators`, { name: 'looker', role: 'viewer' })).body.token;
  const named = (await operator.ask('POST', `${API}/operators`, { name: 'backend', role: 'operator' })).body.token;
  const by = (token: string) => ({ authorization: `Bearer ${token}` });
  assert.equal((await bed.stranger.ask('POST', linksOf(project), undefined, by(named))).status, 201, 'without a body');
  const refused = async (status: number, message: RegExp, answer: Answer) => {
    assert.deepEqual([answer.status, Object.keys(answer.body)], [status, ['statusCode', 'message', 'error']]);
    assert.equal(answer.body.statusCode, status);
    assert.match(answer.body.message, message, answer.text);
  };
  for (const [method, headers, status, message] of [
    ['POST', {}, 401, /token of an operator/],
    ['DELETE', {}, 401, /token of an operator/],
    ['POST', { authorization: `Basic ${OPERATOR_TOKEN}` }, 401, /token of an operator/],
    ['POST', by('a wrong token'.replaceAll(' ', '-')), 401, /^Wrong token$/],
    ['POST', by(bed.daemon.key), 401, /^Wrong token$/],
    ['POST', by(viewer), 403, /^Viewers may change nothing$/],
    ['DELETE', by(viewer), 403, /^Viewers may change nothing$/],
  ] as const)
    await refused(status, message, await bed.stranger.ask(method, linksOf(project), undefined, headers));
  // A session of the pages is no token: a page of elsewhere could make the browser send its cookie.
  await refused(401, /token of an operator/, await operator.ask('POST', linksOf(project)));
  for (const id of [UNKNOWN, '__proto__', 'x'.repeat(64)]) {
    await refused(404, /^there is no project with this id$/, await ask({}, id));
    await refused(404, /./, await bed.stranger.ask('DELETE', linksOf(id), undefined, BY_OPERATOR));
  }
  for (const [body, message] of [
    [{ role: 'operator' }, /role/],
    [{ role: null }, /role/],
    [{ theme: 'blue' }, /theme/],
  ] as const)
    await refused(400, message, await ask(body));
});

test('a link works once, also for two who open it together, and its session is of one project', async () => {
  const token = await makeLink();
  const answers = await Promise.all([open(token), open(token)]);
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 401]);
  const again = await open(token);
  assert.deepEqual([again.status, again.body.error], [401, GONE]);
  assert.ok(answers.every(({ headers }) => headers.get('set-cookie') === null));
  assert.equal((await open('x'.repeat(43))).body.error, GONE, 'as one that never was');

  const guest = await enter(await makeLink());
  const { body: who } = await guest.ask('GET', `${API}/session`);
  assert.deepEqual([who.role, who.portal, who.projectId, who.name], ['project', 'owner', project, null]);
  const { body: other } = await operator.ask('POST', `${API}/projects`, { name: 'other', plan: 'free' });
  const { body: list } = await guest.ask('GET', `${API}/projects`);
  assert.deepEqual(
    list.projects.map(({ id }: { id: string }) => id),
    [project],
  );
  for (const path of ['keys', 'budgets', 'requests', 'usage?from=2026-01-01&to=2026-01-02']) {
    assert.equal((await guest.ask('GET', `${API}/projects/${project}/${path}`)).status, 200, path);
    assert.equal((await guest.ask('GET', `${API}/projects/${other.id}/${path}`)).status, 404, path);
  }
  const call = { method: 'GET', path: '/v0/webhooks' };
  assert.equal((await guest.ask('POST', `${API}/projects/${project}/webhooks`, call)).status, 200);
  assert.equal((await guest.ask('POST', `${API}/projects/${other.id}/webhooks`, call)).status, 404);
  for (const path of ['config', 'audit', 'health', 'plugins', 'operators', 'live'])
    assert.equal((await guest.ask('GET', `${API}/${path}`)).status, 403, path);
  for (const path of ['projects', `projects/${project}/secret`])
    assert.equal((await guest.ask('POST', `${API}/${path}`, { name: 'x', plan: 'free' })).status, 403, path);
});

test('an owner in the portal changes the project, a viewer nothing, and neither ends sessions of others', async () => {
  const [owner, viewer] = [await enter(await makeLink()), await enter(await makeLink({}))];
  const keys = `${API}/projects/${project}/keys`;
  assert.equal((await owner.ask('POST', keys, { name: 'from the portal' })).status, 201);
  const forged = await owner.ask('POST', keys, { name: 'forged' }, { 'x-csrf-token': viewer.csrfToken });
  assert.equal(forged.status, 403);
  const elsewhere = await owner.ask('POST', keys, { name: 'forged' }, { origin: 'https://app.example.com' });
  assert.equal(elsewhere.status, 403, 'of the page around it');
  const refused = await viewer.ask('POST', keys, { name: 'x' });
  assert.deepEqual([refused.status, refused.body.error], [403, 'Viewers may change nothing']);

  const hook = { webhookURL: 'http://127.0.0.1:9/', webhookType: 'raw', authHeader: 'Bearer of the receiver' };
  const addresses = ['So11111111111111111111111111111111111111112'];
  const endpoint = `${API}/projects/${project}/webhooks`;
  const body = { ...hook, accountAddresses: addresses };
  const made = await owner.ask('POST', endpoint, { method: 'POST', path: '/v0/webhooks', body });
  assert.equal(made.status, 200, made.text);
  const path = `/v0/webhooks/${made.body.webhookID}`;
  assert.equal((await viewer.ask('POST', endpoint, { method: 'DELETE', path })).status, 403);
  assert.ok((await owner.ask('POST', endpoint, { method: 'GET', path })).text.includes('of the receiver'));
  const seen = await viewer.ask('POST', endpoint, { method: 'GET', path });
  assert.deepEqual([seen.status, seen.body.authHeader], [200, '(hidden)']);

  for (const guest of [owner, viewer]) {
    for (const path of ['logout', 'sessions/end'])
      assert.equal((await guest.ask('POST', `${API}/${path}`)).status, 403, path);
    assert.ok(await isIn(guest));
  }
  assert.equal((await operator.ask('GET', `${API}/session`)).status, 200);
});

test('a session of the portal is in its header and nowhere else, and a cookie counts for nothing beside it', async () => {
  const guest = await enter(await makeLink());
  const status = async (headers: Readonly<Record<string, string>>) =>
    (await bed.stranger.ask('GET', `${API}/session`, undefined, headers)).status;
  assert.equal(await status({ cookie: `parhelion_session=${guest.session}` }), 401, 'as a cookie');
  const ofOperator = operator.cookie.split('=')[1] as string;
  assert.equal(await status({ 'x-portal-session': ofOperator }), 401, 'a cookie as the header');
  for (const wrong of ['', 'wrong', `${guest.session}x`])
    assert.equal(await status({ 'x-portal-session': wrong, cookie: operator.cookie }), 401, `"${wrong}"`);
  // Both, as in the browser of an operator who looks at the page of a tenant.
  const both = await guest.ask('GET', `${API}/session`, undefined, { cookie: operator.cookie });
  assert.deepEqual([both.status, both.body.role], [200, 'project']);
  const log = await guest.ask('GET', `${API}/audit`, undefined, { cookie: operator.cookie });
  assert.equal(log.status, 403);
});

test('sessions and links of the portal end when the operator says so, with all sessions, and with the project', async () => {
  const ended = async (what: string, guest: Guest, link: string) => {
    await until(async () => !(await isIn(guest)), what);
    assert.deepEqual((await open(link)).body.error, GONE, what);
  };
  const [stays, other] = [await makeLink(), (await operator.ask('POST', `${API}/projects`, PROJECT)).body.id];
  const first = [await enter(await makeLink({}, other)), await makeLink({}, other)] as const;
  const removed = await bed.stranger.ask('DELETE', linksOf(other), undefined, BY_OPERATOR);
  assert.equal(removed.status, 200, removed.text);
  await ended('by DELETE', ...first);
  assert.ok(await isIn(await enter(stays)), 'of another project');

  const { secret } = (await operator.ask('POST', `${API}/projects/${other}/secret`)).body;
  const owner = await bed.logIn({ project: other, secret });
  const second = [await enter(await makeLink({}, other)), await makeLink({}, other)] as const;
  assert.equal((await owner.ask('POST', `${API}/sessions/end`)).status, 200);
  await ended('by the owner', ...second);

  // By another process, which cannot say so.
  const third = [await enter(await makeLink({}, other)), await makeLink({}, other)] as const;
  for (const verb of ['disable', 'delete']) {
    const { code, err } = await runCommand(['projects', verb, '--id', other, '--config', bed.daemon.configFile]);
    assert.equal(code, 0, err);
  }
  await ended('with its project', ...third);
  assert.equal((await ask({}, other)).status, 404);

  const fourth = [await enter(await makeLink()), await makeLink()] as const;
  const someone = await bed.operator();
  assert.equal((await someone.ask('POST', `${API}/sessions/end`)).status, 200);
  await ended('with all sessions', ...fourth);
  operator = await bed.operator();
});

test('who made a link and who opened it is in the audit log, without the token', async () => {
  const token = await makeLink({ role: 'viewer' });
  const { session } = await enter(token);
  const { body, text } = await operator.ask('GET', `${API}/audit?limit=200`);
  const entries = body.entries as Readonly<Record<'action' | 'actor' | 'target' | 'outcome', string>>[];
  const find = (action: string) => entries.find((entry) => entry.action === action);
  assert.deepEqual([find('portal.link')?.actor, find('portal.link')?.target], ['operator', `${project}: viewer`]);
  assert.deepEqual([find('session.open')?.actor, find('session.open')?.outcome], [`portal:${project}`, 'done']);
  assert.equal(find('portal.end')?.actor, 'operator');
  assert.ok(!text.includes(token) && !text.includes(session));
});

test('only the page of the portal can be in a frame, of the origins that are named', async () => {
  const framing = async (from: DashboardBed, path: string) => {
    const { status, headers } = await from.stranger.ask('GET', path);
    assert.equal(status, 200, path);
    const policy = headers.get('content-security-policy') ?? '';
    assert.match(policy, /^default-src 'none'; script-src 'self'; /, path);
    return [/frame-ancestors ([^;]*)/.exec(policy)?.[1], headers.get('x-frame-options')];
  };
  const none = ["'none'", 'DENY'];
  assert.deepEqual(await framing(bed, '/dashboard/portal'), [ORIGINS.join(' '), null]);
  assert.deepEqual(await framing(bed, '/dashboard/portal?theme=dark'), [ORIGINS.join(' '), null]);
  assert.deepEqual(await framing(plain, '/dashboard/portal'), none);
  for (const path of ['/dashboard', '/dashboard/', '/dashboard/app.js', '/dashboard/index.html'])
    for (const from of [bed, plain]) assert.deepEqual(await framing(from, path), none, path);
  const { headers, text } = await bed.stranger.ask('GET', '/dashboard/portal', undefined, { 'if-none-match': '*' });
  assert.equal(headers.get('cache-control'), 'no-store');
  assert.equal(text, (await bed.stranger.ask('GET', '/dashboard')).text);
});

test('origins are whole ones, and nothing else gets into the header', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-portal-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'parhelion.yaml');
  const check = async (origins: readonly string[]) => {
    const config = { upstream: { urls: ['https://node.example'] }, dashboard: { portal: { origins } } };
    writeFileSync(file, JSON.stringify(config));
    return await runCommand(['check-config', '--config', file]);
  };
  const right = ['https://app.example.com:8443', 'https://*.example.com', 'https://intranet', 'http://localhost:3000'];
  const { code, err } = await check(right);
  assert.equal(code, 0, err);
  const wrong = ['*', 'https:', "'self'", 'https://*', 'https://*.com', 'http://app.example.com', 'app.example.com'];
  for (const origin of [...wrong, 'https://a.example/x', "https://a.example; script-src 'unsafe-inline'"]) {
    const refused = await check([origin]);
    assert.notEqual(refused.code, 0, origin);
    assert.match(refused.err, /dashboard\.portal\.origins/, origin);
  }
});

test('a link ends unopened, and a project has no more of them than sessions', async () => {
  const made = await ask({}, plain.daemon.projectId, plain);
  const { host } = new URL(plain.daemon.adminUrl);
  assert.ok(made.body.url.startsWith(`http://${host}/dashboard/portal#token=`), made.body.url);
  await sleep(Math.max(0, made.body.expiresAt - Date.now()) + 100);
  assert.deepEqual((await open(new URL(made.body.url).hash.replace('#token=', ''), plain)).body.error, GONE);

  const other = (await (await plain.operator()).ask('POST', `${API}/projects`, PROJECT)).body.id as string;
  const id = plain.daemon.projectId;
  for (let tries = 0; ; tries += 1) {
    const startedMs = performance.now();
    const kept = await makeLink({}, other, plain);
    const links = [await makeLink({}, id, plain), await makeLink({}, id, plain), await makeLink({}, id, plain)];
    const statuses: number[] = [];
    for (const link of [...links, kept]) statuses.push((await open(link, plain)).status);
    // They live for a second: a slow machine tries again.
    if (performance.now() - startedMs > 1_000 && tries < 20) continue;
    assert.deepEqual(statuses, [401, 200, 200, 200]);
    return;
  }
});

test('guesses of tokens and links are slowed as wrong log-ins are, and the right ones never', async () => {
  const id = plain.daemon.projectId;
  const guess = { authorization: 'Bearer a-wrong-token-of-somebody' };
  const byToken = () => plain.stranger.ask('POST', linksOf(id), {}, guess);
  for (const refused of [() => open('a-guess', plain), byToken]) {
    const statuses = new Set<number>();
    // Twice as many as a minute takes: one may end meanwhile.
    for (let n = 0; n < 24; n += 1) {
      const { status, headers } = await refused();
      statuses.add(status);
      if (status === 429) assert.ok(Number(headers.get('retry-after')) >= 1);
    }
    assert.ok(statuses.delete(429), 'it is refused in the end');
    assert.ok(statuses.size === 0 || (statuses.size === 1 && statuses.has(401)), [...statuses].join());
  }
  assert.equal((await ask({}, id, plain)).status, 201, 'from the same address');
});
