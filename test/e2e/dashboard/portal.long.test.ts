/** The portal in the page of another site: what a tenant sees and does there, in both themes and on a phone, and who may not embed it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, afterEach, before, test } from 'node:test';
import type { Browser, FrameLocator, Page } from 'playwright-core';
import { type DashboardBed, OPERATOR_TOKEN, startDashboard } from '../../conformance/dashboard/harness.ts';
import { axeFaults, chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { docsBlock } from '../../helpers/readme.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';
import { closePages } from './visit.ts';

const skip = chromiumMissing() ?? false;
const PAGES = ['Overview', 'Webhooks', 'API keys', 'Usage', 'Requests', 'Look up'];

let bed: DashboardBed;
let browser: Browser | undefined;
let receiver: Receiver;
/** The web app of the operator, under a name that may embed and one that may not. */
let app: Server;
let html = '';
let port = 0;

before(async () => {
  if (skip !== false) return;
  app = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html');
    response.end(`<!doctype html><title>App</title><body style="margin:0">${html}`);
  }).listen(0, '127.0.0.1');
  await once(app, 'listening');
  ({ port } = app.address() as AddressInfo);
  receiver = await startReceiver();
  bed = await startDashboard({
    webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] },
    // Another site than that of the daemon, so that the browser treats its cookies and its storage as those of a third party.
    dashboard: { portal: { origins: [`http://localhost:${port}`] } },
  });
  const hook = {
    name: 'Orders',
    webhookURL: `${receiver.url}/orders`,
    webhookType: 'raw',
    accountAddresses: ['So11111111111111111111111111111111111111112'],
  };
  const made = await fetch(`${bed.daemon.apiUrl}/v0/webhooks?api-key=${bed.daemon.key}`, {
    method: 'POST',
    body: JSON.stringify(hook),
  });
  assert.equal(made.status, 200, await made.text());
  browser = await startChromium();
});
afterEach(() => closePages(browser));
after(async () => {
  await browser?.close();
  await bed?.stop();
  await receiver?.close();
  app?.close();
});

async function makeLink(body: object): Promise<string> {
  const response = await fetch(`${bed.daemon.adminUrl}/v0/admin/projects/${bed.daemon.projectId}/portal`, {
    method: 'POST',
    headers: { authorization: `Bearer ${OPERATOR_TOKEN}` },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 201);
  return ((await response.json()) as { url: string }).url;
}

interface Embedded {
  readonly page: Page;
  readonly frame: FrameLocator;
  /** Errors, refused resources and cookies. */
  readonly faults: string[];
}

/** The page of the app, as the documentation embeds the portal. */
async function embed(link: string, { host = 'localhost', width = 1_200, dark = false } = {}): Promise<Embedded> {
  const context = await browser!.newContext({
    viewport: { width, height: 900 },
    colorScheme: dark ? 'dark' : 'light',
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('console', (message) => message.type() === 'error' && faults.push(`console: ${message.text()}`));
  page.on('request', (request) => {
    if (request.headers()['cookie'] !== undefined) faults.push(`a cookie goes to ${request.url()}`);
  });
  html = docsBlock('<iframe').replace('LINK', link);
  await page.goto(`http://${host}:${port}/`);
  return { page, frame: page.frameLocator('iframe'), faults };
}

async function goTo(frame: FrameLocator, name: string): Promise<void> {
  await frame.getByRole('link', { name, exact: true }).click();
  await frame.getByRole('heading', { level: 1, name, exact: true }).waitFor();
}

test('a tenant sees the webhook of the project and uses it, without a log-in and without a cookie', {
  skip,
}, async () => {
  const { page, frame, faults } = await embed(await makeLink({ role: 'owner' }));
  await frame.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  assert.deepEqual(await frame.locator('.side nav a').allTextContents(), PAGES);
  const inner = page.frames()[1]!;
  assert.ok(!/token|#t/.test(inner.url()), `the token is gone from ${inner.url()}`);
  for (const name of PAGES) {
    await goTo(frame, name);
    await frame.locator('main .skeleton').first().waitFor({ state: 'detached' });
    assert.equal(await frame.locator('main [role=alert]').count(), 0, name);
    for (const absent of ['Log out', 'End all sessions', 'Current project', 'Theme:', 'Guide', 'Log in'])
      assert.ok(!(await inner.content()).includes(absent), `${absent} on ${name}`);
  }
  await goTo(frame, 'Webhooks');
  await frame.getByRole('link', { name: 'Orders' }).click();
  await frame.getByText(`${receiver.url}/orders`).first().waitFor();
  await frame.getByRole('button', { name: 'Send a test event' }).click();
  await frame.getByText('Test event delivered: the receiver answered 200').waitFor();
  await receiver.waitFor(1);
  await goTo(frame, 'Usage');
  const download = page.waitForEvent('download');
  await frame.getByRole('button', { name: 'Download CSV' }).click();
  assert.match((await download).suggestedFilename(), /^usage-.*\.csv$/);
  // A reload of the frame alone.
  await goTo(frame, 'API keys');
  await inner.evaluate('location.reload()');
  await frame.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
  assert.deepEqual(await page.context().cookies(), []);
  assert.deepEqual(faults, []);

  // The page of the app with the same link: it has been opened. A frame of another visit has nothing of the first one.
  const again = await embed(/src="([^"]+)"/.exec(html)![1]!);
  await again.frame.getByRole('heading', { name: 'This page has ended' }).waitFor();
});

test('a viewer changes nothing; the portal fits a phone, and has the theme that it was given', { skip }, async () => {
  const backgrounds: unknown[] = [];
  for (const [theme, dark] of [
    ['light', true],
    ['dark', false],
    [undefined, true],
  ] as const) {
    const link = await makeLink(theme === undefined ? {} : { theme });
    const { page, frame, faults } = await embed(link, { width: 360, dark });
    await frame.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    const inner = page.frames()[1]!;
    backgrounds.push(await inner.evaluate('getComputedStyle(document.documentElement).backgroundColor'));
    for (const name of PAGES) {
      await frame.getByRole('button', { name: 'Open the navigation' }).click();
      await goTo(frame, name);
      await frame.locator('main .skeleton').first().waitFor({ state: 'detached' });
      const wider = (await inner.evaluate('document.documentElement.scrollWidth - innerWidth')) as number;
      assert.ok(wider <= 0, `${name} is ${wider} pixels wider than its frame`);
    }
    await frame.getByRole('button', { name: 'Open the navigation' }).click();
    await goTo(frame, 'Webhooks');
    await frame.getByRole('link', { name: 'Orders' }).waitFor();
    assert.equal(await frame.getByRole('button', { name: 'New webhook' }).count(), 0);
    assert.deepEqual(faults, []);
  }
  const [light, dark, system] = backgrounds;
  assert.notEqual(light, dark);
  assert.equal(system, dark, 'as the browser has it');
});

test('the portal in a tab of its own has no fault of axe, and says when its session has ended', { skip }, async () => {
  const context = await browser!.newContext({ reducedMotion: 'reduce' });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  for (const theme of ['light', 'dark']) {
    await page.goto(await makeLink({ role: 'owner', theme }));
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
    assert.deepEqual(await axeFaults(page), [], theme);
  }
  await page.getByRole('link', { name: 'Requests' }).click();
  await page.getByRole('heading', { level: 1, name: 'Requests' }).waitFor();
  const ended = await fetch(`${bed.daemon.adminUrl}/v0/admin/projects/${bed.daemon.projectId}/portal`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${OPERATOR_TOKEN}` },
  });
  assert.equal(ended.status, 200);
  await page.getByRole('heading', { name: 'This page has ended' }).waitFor();
  assert.equal(await page.getByLabel('Operator token').count(), 0, 'nobody is asked to log in');
  assert.deepEqual(await axeFaults(page), []);
});

test('a page that is not named embeds nothing, and a named one only the portal', { skip }, async () => {
  const isShown = async ({ page }: Embedded) =>
    (
      await page
        .frames()[1]
        ?.content()
        .catch(() => '')
    )?.includes('Parhelion');
  const refused = ({ faults }: Embedded) => faults.some((fault) => fault.includes('frame-ancestors'));
  const stranger = await embed(await makeLink({}), { host: '127.0.0.1' });
  await until(() => refused(stranger), 'the browser refuses the frame');
  assert.ok(!(await isShown(stranger)));
  const whole = await embed(`${bed.daemon.adminUrl}/dashboard`);
  await until(() => refused(whole), 'the browser refuses the frame');
  assert.ok(!(await isShown(whole)));
});
