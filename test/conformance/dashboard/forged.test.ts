/** Requests that lie about where they come from, or carry more than they seem to. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { rawRequest } from '../../helpers/raw-http.ts';
import { type DashboardBed, OPERATOR_TOKEN, startDashboard } from './harness.ts';

const API = '/dashboard/api';

let bed: DashboardBed;
before(async () => {
  bed = await startDashboard();
});
after(() => bed.stop());

test('a forged X-Forwarded-For neither helps a key nor a guesser, and is not written down', async (t) => {
  const own = await startDashboard({ dashboard: { loginFailuresPerMinute: 3 } });
  t.after(() => own.stop());
  const operator = await own.operator();
  const keys = `${API}/projects/${own.daemon.projectId}/keys`;
  const { body: made } = await operator.ask('POST', keys, { name: 'inside', ips: ['10.0.0.0/8'] });
  for (const forged of ['10.1.1.1', '10.1.1.1, 127.0.0.1', '127.0.0.1, 10.1.1.1', '::ffff:10.1.1.1']) {
    const headers = { 'x-api-key': made.key, 'x-forwarded-for': forged, forwarded: `for=${forged}` };
    assert.equal((await fetch(`${own.daemon.apiUrl}/v0/webhooks`, { headers })).status, 403, forged);
  }
  const statuses: number[] = [];
  for (let n = 0; n < 5; n += 1) {
    const headers = { 'x-forwarded-for': `203.0.113.${n}`, 'x-real-ip': `203.0.113.${n}` };
    statuses.push((await own.stranger.ask('POST', `${API}/login`, { token: 'a wrong token' }, headers)).status);
  }
  assert.deepEqual(statuses, [401, 401, 401, 429, 429]);
  const { text } = await operator.ask('GET', `${API}/audit?limit=200`);
  assert.ok(text.includes('session.refused') && !text.includes('203.0.113.'));
});

test('no input becomes a header of an answer', async () => {
  const { cookie, csrfToken } = await bed.operator();
  const port = Number(new URL(bed.daemon.adminUrl).port);
  const inject = '%0d%0aX-Injected:%20yes%0d%0a%0d%0a<script>';
  const targets = [
    `/dashboard/${inject}`,
    `${API}/projects/${inject}/keys`,
    `${API}/projects/${bed.daemon.projectId}/usage.csv?from=2026-01-01${inject}&to=2026-01-02`,
    `${API}/audit?cursor=${inject}`,
  ];
  for (const target of targets) {
    const head = `GET ${target.replace('<script>', '')} HTTP/1.1\r\nHost: localhost\r\nCookie: ${cookie}`;
    const { status, headers } = await rawRequest(port, `${head}\r\nConnection: close\r\n\r\n`);
    assert.ok(status === 400 || status === 404, `${target}: ${status}`);
    assert.equal(headers['x-injected'], undefined, target);
  }
  // Ids that proxies hand on come back on no answer unless they are ours.
  const answer = await bed.stranger.ask('POST', `${API}/login`, { token: 'x\r\nX-Injected: yes' });
  assert.equal(answer.headers.get('x-injected'), null);
  assert.ok(csrfToken.length > 30 && /^[\w=-]+$/.test(cookie), 'cookies hold nothing that ends a header');
});

test('a cookie that stands twice, or in another case, logs nobody in', async () => {
  const { cookie } = await bed.operator();
  const ask = async (header: string) =>
    (await bed.stranger.ask('GET', `${API}/session`, undefined, { cookie: header })).status;
  assert.equal(await ask(cookie), 200);
  const other = cookie.replace('parhelion_session', 'Parhelion_Session');
  for (const header of [`${cookie}; ${cookie}`, `${cookie}x`, other, `x=${cookie}`])
    assert.equal(await ask(header), 401, header);
  assert.equal((await bed.logIn({ token: [OPERATOR_TOKEN] })).answer.status, 400);
});
