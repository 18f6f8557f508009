/** The page of a request, and the palette that leads everywhere: in a browser. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, afterEach, before, test } from 'node:test';
import { promisify } from 'node:util';
import type { Browser, BrowserContextOptions } from 'playwright-core';
import { type DashboardBed, startDashboard } from '../../conformance/dashboard/harness.ts';
import { axeFaults, chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { until } from '../../helpers/until.ts';
import { closePages, logIn, openPage } from './visit.ts';

const skip = chromiumMissing() ?? false;
const ADDRESS = 'So11111111111111111111111111111111111111112';

let bed: DashboardBed;
let browser: Browser | undefined;

before(async () => {
  if (skip !== false) return;
  bed = await startDashboard({
    plugins: ['access', 'compression', 'dashboard', 'proxy', 'webhooks'],
    webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] },
  });
  browser = await startChromium();
});
afterEach(() => closePages(browser));
after(async () => {
  await browser?.close();
  await bed?.stop();
});

const open = (more: BrowserContextOptions = {}) => openPage(browser as Browser, bed, more);
const post = async (path: string, body: unknown) =>
  await (await fetch(`${bed.daemon.apiUrl}${path}`, { method: 'POST', body: JSON.stringify(body) })).text();

test('a call that failed is opened from the list, says why, and is repeated by the command it shows', {
  skip,
}, async () => {
  const { key } = bed.daemon;
  const { page, faults } = await open();
  await logIn(page);
  const wrong = { jsonrpc: '2.0', id: "it's", method: 'getCompressedAccount', params: { address: 'none' } };
  const answer = await post(`/?api-key=${key}`, wrong);
  await page.goto(`${bed.daemon.adminUrl}/dashboard#/p/${bed.daemon.projectId}/requests`);
  await page.getByRole('link', { name: 'getCompressedAccount' }).click();
  await page.getByRole('heading', { level: 1, name: 'Request' }).waitFor();
  await page.getByRole('heading', { level: 2, name: 'Why it failed' }).waitFor();
  await page.getByText('(-32602)').waitFor();
  await page.getByText('The parameters are not as the reference describes them').waitFor();
  const textOf = async (name: string) => (await page.getByRole('region', { name, exact: true }).textContent()) ?? '';
  assert.deepEqual(JSON.parse(await textOf('request body')), wrong);
  assert.deepEqual(JSON.parse(await textOf('answer')), JSON.parse(answer));
  const command = await textOf('command');
  assert.ok(!(await page.content()).includes(key), 'no key is on the page');
  // The reader puts in a key, and runs it.
  const { stdout } = await promisify(execFile)('sh', ['-c', command.replace('KEY', key).replace('curl', 'curl -s')]);
  assert.deepEqual(JSON.parse(stdout), JSON.parse(answer));
  await page.getByRole('link', { name: '← Requests' }).click();
  await page.getByRole('heading', { level: 1, name: 'Requests' }).waitFor();
  assert.deepEqual(faults, []);
});

test('a page, a webhook and an address are reached by the keyboard alone', { skip }, async () => {
  const { projectId, key } = bed.daemon;
  await post(`/v0/webhooks?api-key=${key}`, {
    webhookURL: 'http://127.0.0.1:9/',
    webhookType: 'raw',
    accountAddresses: [ADDRESS],
    name: 'Deposits of Ada',
  });
  const { page, faults } = await open();
  await logIn(page);
  const options = page.getByRole('listbox', { name: 'Found' }).getByRole('option');
  const chosen = page.getByRole('listbox', { name: 'Found' }).getByRole('option', { selected: true });
  const find = async (text: string) => {
    await page.keyboard.press('Control+k');
    const field = page.getByRole('combobox', { name: /^Page, webhook/ });
    await field.waitFor();
    await page.keyboard.type(text);
    return field;
  };
  const field = await find('audit');
  assert.equal(await options.count(), 1);
  assert.equal(await chosen.textContent(), 'Audit logPage');
  assert.equal(await field.getAttribute('aria-activedescendant'), await chosen.getAttribute('id'));
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Audit log' }).waitFor();

  await find('ada');
  await options.filter({ hasText: 'Deposits of Ada' }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Deposits of Ada' }).waitFor();

  await find('con');
  const names = await options.allTextContents();
  assert.ok(names.length > 0);
  await page.keyboard.press('ArrowUp');
  assert.equal(await chosen.textContent(), names.at(-1), 'it goes round');
  await page.keyboard.press('ArrowDown');
  assert.equal(await chosen.textContent(), names[0]);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });

  await find('no such thing at all');
  await page.getByText('Nothing has this name.').waitFor();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog').waitFor({ state: 'detached' });

  await find(ADDRESS);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Look up' }).waitFor();
  assert.ok(page.url().endsWith(`/p/${projectId}/look-up/${ADDRESS}`));
  // This daemon has neither wallets nor assets, nor does its upstream: each part of the page says so, and the browser notes each answer.
  await page.getByText('the plugin wallet is not loaded').waitFor();
  const others = page.getByText('no plugin and no upstream has this method');
  await until(async () => (await others.count()) === 2, 'NFTs and transactions say why they are not there');
  const refused = 'console: Failed to load resource: the server responded with a status of 501 (Not Implemented)';
  await until(() => faults.length >= 4, 'the browser has noted the asset, the tokens, the NFTs and the transactions');
  assert.deepEqual(faults, [refused, refused, refused, refused]);
});

test('neither of them has a fault of accessibility, at three widths and in both themes', { skip }, async () => {
  const { key, projectId } = bed.daemon;
  await post(`/v0/webhooks?api-key=${key}`, { webhookURL: 'nowhere', webhookType: 'raw', accountAddresses: [] });
  for (const width of [390, 820, 1440])
    for (const colorScheme of ['light', 'dark'] as const) {
      const look = { viewport: { width, height: 900 }, colorScheme };
      const { page, faults } = await open(look);
      await logIn(page);
      await page.goto(`${bed.daemon.adminUrl}/dashboard#/p/${projectId}/requests`);
      await page
        .getByRole('row', { name: /400/ })
        .getByRole('link', { name: '/v0/webhooks' })
        .or(page.locator('li, tr').filter({ hasText: '400' }).getByRole('link'))
        .first()
        .click();
      await page.getByRole('heading', { level: 2, name: 'Again, with curl' }).waitFor();
      await page.locator('main .skeleton').first().waitFor({ state: 'detached' });
      assert.deepEqual(await axeFaults(page), [], `request ${JSON.stringify(look)}`);
      assert.ok(((await page.evaluate('document.documentElement.scrollWidth - innerWidth')) as number) <= 0);
      await page
        .getByRole('button', { name: /^Go to a page/ })
        .filter({ visible: true })
        .click();
      await page.getByRole('combobox').filter({ visible: true }).last().waitFor();
      assert.deepEqual(await axeFaults(page), [], `palette ${JSON.stringify(look)}`);
      assert.deepEqual(faults, []);
      await page.context().close();
    }
});
