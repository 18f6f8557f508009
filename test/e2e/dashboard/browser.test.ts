import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { type DashboardBed, OPERATOR_TOKEN, startDashboard } from '../../conformance/dashboard/bed.ts';
import { chromiumMissing, startChromium } from '../../helpers/chromium.ts';

const skip = chromiumMissing() ?? false;
const LONG_MS = 60_000;

let bed: DashboardBed;
let browser: Browser | undefined;

before(async () => {
  if (skip !== false) return;
  bed = await startDashboard({ webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } });
  browser = await startChromium();
});
after(async () => {
  await browser?.close();
  await bed?.stop();
});

/** A page that must not break its own rules: an error, a refused resource or a call to elsewhere fails the test. */
async function openPage(
  colorScheme: 'light' | 'dark' = 'light',
  more: BrowserContextOptions = {},
): Promise<{ page: Page; faults: string[] }> {
  const context = await (browser as Browser).newContext({ ...more, colorScheme, reducedMotion: 'reduce' });
  const page = await context.newPage();
  page.setDefaultTimeout(LONG_MS);
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
  page.on('console', (message) => {
    // Whether anybody is logged in is asked first, and the answer may be no.
    if (message.type() === 'error' && !/401/.test(message.text())) faults.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(bed.daemon.adminUrl)) faults.push(`elsewhere: ${request.url()}`);
  });
  await page.goto(`${bed.daemon.adminUrl}/dashboard`);
  return { page, faults };
}

async function logIn(page: Page): Promise<void> {
  await page.getByLabel('Token (dashboard.operatorToken)').fill(OPERATOR_TOKEN);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
}

test('an operator looks at every page', { skip }, async () => {
  const { page, faults } = await openPage();
  await logIn(page);
  await page.getByText('Followed to').first().waitFor();
  const names = ['Projects and keys', 'Usage', 'Webhooks', 'Trees', 'Wallets', 'Plugins', 'Configuration', 'Audit log'];
  for (const name of names) {
    await page.getByRole('link', { name }).click();
    await page.getByRole('heading', { level: 1, name }).waitFor();
    assert.equal(await page.locator('[role=alert].bad').count(), 0, name);
    assert.equal(await page.locator('nav a[aria-current=page]').textContent(), name);
    assert.match(await page.title(), new RegExp(name));
  }
  assert.deepEqual(faults, []);
});

test('a key is made by keyboard, is shown once and revoked', { skip }, async () => {
  const { page, faults } = await openPage();
  await logIn(page);
  await page.getByRole('link', { name: 'Projects and keys' }).focus();
  await page.keyboard.press('Enter');
  await page.getByLabel('Name of a new key').fill('by keyboard');
  await page.keyboard.press('Enter');
  const box = page.getByRole('alert');
  await box.waitFor();
  const key = (await box.locator('code').textContent()) as string;
  assert.ok(await box.evaluate((element) => element === element.ownerDocument.activeElement), 'it has the focus');
  const ask = () => fetch(`${bed.daemon.apiUrl}/v0/webhooks`, { headers: { 'X-Api-Key': key } });
  assert.equal((await ask()).status, 200);
  page.on('dialog', (dialog) => void dialog.accept());
  const row = page.getByRole('row', { name: /by keyboard/ });
  await row.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('row', { name: /by keyboard.*revoked/ }).waitFor();
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Projects and keys' }).waitFor();
  assert.ok(!(await page.content()).includes(key), 'it is shown once');
  assert.deepEqual(faults, []);
});

test('text from elsewhere is never read as markup', { skip }, async () => {
  const { page, faults } = await openPage();
  await logIn(page);
  const name = '<img src=x onerror="window.broken=1"><b>bold</b>';
  await page.getByRole('link', { name: 'Projects and keys' }).click();
  await page.getByLabel('Name of a new project').fill(name);
  await page.getByRole('button', { name: 'Make project' }).click();
  await page.getByRole('cell', { name, exact: true }).waitFor();
  await page.getByRole('link', { name: 'Audit log' }).click();
  await page.getByText(name, { exact: false }).first().waitFor();
  assert.equal(await page.evaluate('window.broken'), undefined);
  assert.equal(await page.locator('main b, main img').count(), 0);
  assert.deepEqual(faults, []);
});

test('axe finds nothing serious on any page, in light, in dark and on a phone', { skip }, async () => {
  const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  const looks = [
    { scheme: 'light' },
    { scheme: 'dark' },
    { scheme: 'light', viewport: { width: 390, height: 800 } },
  ] as const;
  for (const look of looks) {
    // The checker itself is no part of the page, and the page would not let it in.
    const { page, faults } = await openPage(look.scheme, { bypassCSP: true, ...look });
    await logIn(page);
    for (const hash of PAGES) {
      await page.goto(`${bed.daemon.adminUrl}/dashboard#/${hash}`);
      await page.locator('main h1').waitFor();
      await page.evaluate(source);
      const found = (await page.evaluate('axe.run()')) as { violations: Violation[] };
      const serious = found.violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
      assert.deepEqual(
        serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`),
        [],
        `${hash} ${JSON.stringify(look)}`,
      );
    }
    assert.deepEqual(faults, []);
  }
});

const PAGES = ['overview', 'projects', 'usage', 'webhooks', 'trees', 'plugins', 'config', 'audit'];

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string }[];
}
