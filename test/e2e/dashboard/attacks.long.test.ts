/** A page of somebody else in the browser of an operator who is logged in. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, afterEach, before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { type DashboardBed, OPERATOR_TOKEN, startDashboard } from '../../conformance/dashboard/harness.ts';
import { chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { closePages, logIn, openPage } from './visit.ts';

const skip = chromiumMissing() ?? false;
const API = '/dashboard/api';

let bed: DashboardBed;
let browser: Browser | undefined;
let elsewhere: Server;
let html = '';

before(async () => {
  if (skip !== false) return;
  bed = await startDashboard();
  browser = await startChromium();
  elsewhere = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html');
    response.end(html);
  }).listen(0, '127.0.0.1');
  await once(elsewhere, 'listening');
});
afterEach(() => closePages(browser));
after(async () => {
  await browser?.close();
  elsewhere?.close();
  await bed?.stop();
});

test('forms, calls and frames of another site get nothing and change nothing', { skip }, async () => {
  const { page } = await openPage(browser!, bed);
  await logIn(page);
  const { adminUrl, projectId } = bed.daemon;
  const keys = `${adminUrl}${API}/projects/${projectId}/keys`;
  const operator = await bed.operator();
  const count = async () => (await operator.ask('GET', `${API}/projects/${projectId}/keys`)).body.keys.length as number;
  const before = await count();
  // A form whose text/plain body is JSON; the answer goes into a frame.
  html = `<iframe name="into"></iframe><iframe name="framed" src="${adminUrl}/dashboard"></iframe>
    <form id="f" method="post" enctype="text/plain" target="into" action="${keys}">
      <input name='{"name":"forged","x":"' value='"}'></form>
    <script>document.getElementById('f').submit()</script>`;
  const port = (elsewhere.address() as AddressInfo).port;
  const refused = page.waitForResponse((response) => response.url() === keys);
  await page.goto(`http://localhost:${port}/`);
  assert.equal((await refused).status(), 403);
  const frame = page.frame({ name: 'framed' });
  assert.ok(!(await frame?.content().catch(() => ''))?.includes('Parhelion'), 'it is shown in no frame');

  const read = (await page.evaluate(`(async () => {
    const get = (init) => fetch('${keys}', { credentials: 'include', ...init }).then((r) => r.type, () => 'refused');
    return [await get({}), await get({ method: 'POST', body: '{"name":"forged"}' }),
      await get({ method: 'POST', mode: 'no-cors', body: '{"name":"forged"}' })];
  })()`)) as string[];
  assert.deepEqual(read, ['refused', 'refused', 'opaque']);
  assert.equal(await count(), before);
});

test('a session that was there before the login is not the one after it', { skip }, async () => {
  const { page } = await openPage(browser!, bed);
  const planted = 'planted-by-somebody-else';
  const { hostname } = new URL(bed.daemon.adminUrl);
  await page
    .context()
    .addCookies([{ name: 'parhelion_session', value: planted, domain: hostname, path: '/dashboard' }]);
  await logIn(page);
  const cookies = await page.context().cookies(`${bed.daemon.adminUrl}/dashboard`);
  assert.deepEqual([cookies.length, cookies[0]?.value === planted, cookies[0]?.httpOnly], [1, false, true]);
  const asPlanted = await bed.stranger.ask('GET', `${API}/session`, undefined, {
    cookie: `parhelion_session=${planted}`,
  });
  assert.equal(asPlanted.status, 401);
});

test('logging in again ends the session before', { skip }, async () => {
  const first = await bed.operator();
  const body = { token: OPERATOR_TOKEN };
  const again = await bed.stranger.ask('POST', `${API}/login`, body, { cookie: first.cookie });
  assert.equal(again.status, 200);
  assert.equal((await first.ask('GET', `${API}/session`)).status, 401);
});
