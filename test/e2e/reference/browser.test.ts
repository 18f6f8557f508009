/** `/docs` in a real browser: search, a call with one's key, samples, both themes, narrow screens, and nothing from another host. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { axeFaults, chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';

const missing = chromiumMissing();
let daemon: DaemonInProcess;
let browser: Browser;
before(async () => {
  if (missing !== null) return;
  daemon = await startDaemon({ config: { follow: { enabled: false } } });
  browser = await startChromium();
});
after(async () => {
  await browser?.close();
  await daemon?.stop();
});

interface Visit {
  readonly page: Page;
  readonly faults: string[];
}

async function visit(
  path: string,
  base: string,
  width = 1_440,
  colorScheme: 'light' | 'dark' = 'light',
): Promise<Visit> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  const faults: string[] = [];
  page.on('console', (line) => line.type() === 'error' && faults.push(line.text()));
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('request', (request) => {
    if (!request.url().startsWith(base) && !request.url().startsWith('data:')) faults.push(`asks ${request.url()}`);
  });
  await page.goto(`${base}${path}`);
  await page.locator('.references-rendered h1').first().waitFor();
  return { page, faults };
}

test('search finds a JSON-RPC method, and its page has a sample for the shell', {
  skip: missing ?? false,
}, async () => {
  const { page, faults } = await visit('/docs', daemon.apiUrl);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('getPriorityFeeEstimateV1');
  const found = page.getByRole('option').filter({ hasText: 'getPriorityFeeEstimateV1' }).first();
  await found.waitFor();
  await found.click();
  await page.getByRole('heading', { name: 'getPriorityFeeEstimateV1' }).first().waitFor();
  await page.getByText('"getPriorityFeeEstimateV1"').first().waitFor();
  assert.match((await page.locator('body').textContent()) ?? '', /curl/);
  assert.deepEqual(faults, []);
  await page.close();
});

test('a call is tried with a key, and the answer of this daemon is shown', { skip: missing ?? false }, async () => {
  const { page, faults } = await visit('/docs#tag/webhooks/GET/v0/webhooks', daemon.apiUrl);
  const answered = page.waitForResponse((response) => new URL(response.url()).pathname === '/v0/webhooks');
  await page
    .getByRole('button', { name: /Test Request/ })
    .first()
    .waitFor();
  const operation = page.locator('[id="api-1/tag/webhooks/GET/v0/webhooks"]');
  await operation
    .getByRole('button', { name: /Test Request/ })
    .first()
    .click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: /Send/ }).first().click();
  assert.equal((await answered).status(), 401);
  await dialog.getByText('401').first().waitFor();
  assert.deepEqual(
    faults.filter((fault) => !/401/.test(fault)),
    [],
  );
  await page.keyboard.press('Escape');
  // The key of the form is in the sample, which hides it, and in the call.
  await page.getByPlaceholder('your API key').first().fill(daemon.key);
  await operation.getByText('X-Api-Key', { exact: false }).first().waitFor();
  await operation
    .getByRole('button', { name: /Test Request/ })
    .first()
    .click();
  const listed = page.waitForResponse((response) => new URL(response.url()).pathname === '/v0/webhooks');
  await dialog.getByRole('button', { name: /Send/ }).first().click();
  assert.deepEqual([(await listed).status(), await (await listed).json()], [200, []]);
  await page.close();
});

test('light and dark, wide and narrow: nothing runs out of the screen, and axe finds nothing', {
  skip: missing ?? false,
}, async () => {
  for (const [base, width, scheme] of [
    [daemon.apiUrl, 1_440, 'dark'],
    [daemon.apiUrl, 820, 'light'],
    [daemon.apiUrl, 390, 'light'],
    [daemon.adminUrl, 390, 'dark'],
  ] as const) {
    const { page, faults } = await visit('/docs', base, width, scheme);
    const wide = await page.evaluate('document.documentElement.scrollWidth');
    assert.ok((wide as number) <= width, `${width}: ${wide}`);
    // The page mends what the renderer has just made a moment later.
    await page
      .locator('button.scalar-code-copy:not([aria-label]), ul.endpoints:not([tabindex])')
      .first()
      .waitFor({ state: 'detached' });
    assert.deepEqual(await axeFaults(page), [], `${width} ${scheme}`);
    assert.deepEqual(faults, []);
    await page.close();
  }
});
