import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
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
async function openPage(colorScheme: 'light' | 'dark' = 'light'): Promise<{ page: Page; faults: string[] }> {
  const context = await (browser as Browser).newContext({ colorScheme, reducedMotion: 'reduce' });
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

test('everything has a name, in light and in dark, and text can be read', { skip }, async () => {
  for (const scheme of ['light', 'dark'] as const) {
    const { page, faults } = await openPage(scheme);
    await logIn(page);
    for (const hash of ['overview', 'projects', 'usage', 'webhooks', 'config']) {
      await page.goto(`${bed.daemon.adminUrl}/dashboard#/${hash}`);
      await page.locator('main h1').waitFor();
      await page.waitForLoadState('load');
      assert.deepEqual(await page.evaluate(UNNAMED), [], `${hash}: controls without a name`);
      assert.deepEqual(await page.evaluate(PALE), [], `${hash} (${scheme}): too little contrast`);
    }
    assert.deepEqual(faults, []);
  }
});

/** Controls that a screen reader could not name. */
const UNNAMED = `[...document.querySelectorAll('a, button, input, select, textarea')]
  .filter((e) => !(e.textContent.trim() || e.labels?.length || e.getAttribute('aria-label')))
  .map((e) => e.outerHTML.slice(0, 80))`;

/** Texts whose contrast with what is behind them is below 4.5 to 1. */
const PALE = `(() => {
  const channels = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (e) => {
    for (let at = e; at; at = at.parentElement) {
      const color = channels(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll('main *, header *')]
    .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) && e.offsetParent && !e.closest(':disabled'))
    .flatMap((e) => {
      const [a, b] = [light(channels(getComputedStyle(e).color)), light(behind(e))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      return ratio < 4.5 ? [e.tagName + ' ' + e.textContent.trim().slice(0, 30) + ' ' + ratio.toFixed(2)] : [];
    });
})()`;
