import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import type { Browser, BrowserContextOptions } from 'playwright-core';
import { type DashboardBed, startDashboard } from '../../conformance/dashboard/bed.ts';
import { chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { logIn, openPage } from './visit.ts';

const skip = chromiumMissing() ?? false;

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

const open = (more: BrowserContextOptions = {}) => openPage(browser as Browser, bed, more);

test('an operator looks at every page', { skip }, async () => {
  const { page, faults } = await open();
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
  const { page, faults } = await open();
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

test('the owner of a project logs in with its secret and sees the pages of the project alone', { skip }, async () => {
  const operator = await bed.operator();
  const { projectId } = bed.daemon;
  const { body } = await operator.ask('POST', `/dashboard/api/projects/${projectId}/secret`);
  const { page, faults } = await open();
  await page.getByLabel('Project id').fill(projectId);
  await page.getByLabel('Dashboard secret').fill(body.secret);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  const names = ['Overview', 'Projects and keys', 'Usage', 'Webhooks'];
  assert.deepEqual(await page.locator('nav a').allTextContents(), names);
  for (const name of names) {
    await page.getByRole('link', { name, exact: true }).click();
    await page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
    assert.equal(await page.locator('[role=alert].bad').count(), 0, name);
  }
  assert.equal(await page.getByRole('button', { name: 'Create project' }).count(), 0);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('heading', { level: 1, name: 'Log in' }).waitFor();
  assert.deepEqual(faults, []);
});

test('text from elsewhere is never read as markup', { skip }, async () => {
  const { page, faults } = await open();
  await logIn(page);
  const name = '<img src=x onerror="window.broken=1"><b>bold</b>';
  await page.getByRole('link', { name: 'Projects and keys' }).click();
  await page.getByLabel('Name of a new project').fill(name);
  await page.getByRole('button', { name: 'Create project' }).click();
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
    { colorScheme: 'light' },
    { colorScheme: 'dark' },
    { colorScheme: 'light', viewport: { width: 390, height: 800 } },
  ] as const;
  for (const look of looks) {
    // The checker itself is no part of the page, and the page would not let it in.
    const { page, faults } = await open({ bypassCSP: true, ...look });
    for (const hash of ['', ...PAGES]) {
      if (hash === PAGES[0]) await logIn(page);
      else await page.goto(`${bed.daemon.adminUrl}/dashboard${hash && `#/${hash}`}`);
      // Not the page before it, and not an empty one.
      if (hash !== '') await page.locator(`nav a[aria-current=page][href="#/${hash}"]`).waitFor();
      await page.locator('main > div > *').first().waitFor();
      if (hash === 'usage') await page.locator('.chart canvas').waitFor();
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

const PAGES = ['overview', 'projects', 'usage', 'webhooks', 'trees', 'wallets', 'plugins', 'config', 'audit'];

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string }[];
}
