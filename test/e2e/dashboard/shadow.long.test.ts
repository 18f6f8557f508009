/** The page Shadow: a planted difference is in the list, and both answers stand side by side. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDashboard } from '../../conformance/dashboard/harness.ts';
import { axeFaults, chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { answer, startReceiver } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';
import { goTo, logIn, openPage } from './visit.ts';

const skip = chromiumMissing() ?? false;

test('a difference is found by its member, with both answers side by side', { skip }, async (t) => {
  const upstream = await startUpstream();
  upstream.on('getBlockTime', { result: '1700000000' });
  upstream.on('getTransaction', { result: '{"slot":7,"meta":{"fee":5000}}' });
  const reference = await startReceiver();
  reference.setFallback(answer(200, {}, '{"jsonrpc":"2.0","id":1,"result":{"slot":7,"meta":{"fee":5001}}}'));
  const bed = await startDashboard({
    plugins: ['access', 'dashboard', 'proxy', 'shadow'],
    upstream: { urls: [upstream.url] },
    shadow: { share: 1, recheckMs: 0, reference: { url: reference.url, apiKey: 'key-of-the-reference' } },
  });
  const browser = await startChromium();
  t.after(async () => {
    await browser.close();
    await bed.stop();
    await reference.close();
    await upstream.stop();
  });
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getTransaction', params: ['x'] });
  await fetch(`${bed.daemon.apiUrl}/?api-key=${bed.daemon.key}`, { method: 'POST', body });
  await until(async () => {
    const report = await (await fetch(`${bed.daemon.adminUrl}/v0/admin/shadow`)).json();
    return (report as { different: number }).different === 1;
  }, 'the difference is stored');
  const { page, faults } = await openPage(browser, bed);
  await logIn(page);
  await goTo(page, 'Shadow');
  const row = page.getByRole('row', { name: /result\.meta\.fee/ });
  await row.getByText('number').waitFor();
  assert.match((await row.textContent()) ?? '', /getTransaction/);
  assert.deepEqual(await axeFaults(page), []);
  await row.getByRole('link').click();
  const ours = page.getByRole('region', { name: 'our answer', exact: true });
  const theirs = page.getByRole('region', { name: 'answer of the reference', exact: true });
  await ours.getByText(/"fee": 5000\b/).waitFor();
  await theirs.getByText(/"fee": 5001\b/).waitFor();
  const [left, right] = [await ours.boundingBox(), await theirs.boundingBox()];
  assert.ok(left !== null && right !== null && left.x + left.width <= right.x && left.y === right.y, 'side by side');
  assert.ok(!((await page.locator('main').textContent()) ?? '').includes('key-of-the-reference'));
  assert.deepEqual(await axeFaults(page), []);
  assert.deepEqual(faults, []);
});
