/** What people do on the pages, on a real chain: keys that work, webhooks that deliver, usage that grows. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, sendAndConfirmTransaction, Transaction } from '@solana/web3.js';
import type { Browser, Page } from 'playwright-core';
import { Webhook } from 'standardwebhooks';
import { type DashboardBed, startDashboard } from '../../conformance/dashboard/bed.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { answer, type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { goTo, logIn, openPage } from './visit.ts';

const skip = chromiumMissing() ?? (await chainMissing()) ?? false;
const confirm = { commitment: 'confirmed' } as const;
const payer = Keypair.generate();

let chain: TestChain;
let receiver: Receiver;
let bed: DashboardBed;
let browser: Browser | undefined;

before(async () => {
  if (skip !== false) return;
  chain = await startChain();
  await chain.fund(payer.publicKey.toBase58(), 100 * LAMPORTS_PER_SOL);
  receiver = await startReceiver();
  const plugins = ['access', 'compression', 'dashboard', 'proxy', 'webhooks'];
  const webhooks = { allowHttp: true, allowCidrs: ['127.0.0.0/8'] };
  bed = await startDashboard({ plugins, webhooks, access: { usageFlushMs: 50 } }, chain);
  browser = await startChromium();
});
after(async () => {
  await browser?.close();
  await bed?.stop();
  await receiver?.close();
  await chain?.stop();
});

async function eventually(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (const startedMs = performance.now(); !(await isSo()); await sleep(50))
    if (performance.now() - startedMs > 60_000) assert.fail(`never: ${what}`);
}

const call = async (key: string): Promise<number> => {
  const body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}';
  const response = await fetch(`${bed.daemon.apiUrl}/?api-key=${key}`, { method: 'POST', body });
  await response.arrayBuffer();
  return response.status;
};

async function pay(to: Keypair): Promise<string> {
  const fromPubkey = payer.publicKey;
  const transfer = SystemProgram.transfer({ fromPubkey, toPubkey: to.publicKey, lamports: 1_000_000 });
  return await sendAndConfirmTransaction(chain.connection, new Transaction().add(transfer), [payer], confirm);
}

async function makeKey(page: Page, name: string): Promise<string> {
  await goTo(page, 'Projects and keys');
  await page.getByLabel('Name of a new key').fill(name);
  await page.getByRole('button', { name: 'Create key' }).click();
  return (await page.getByRole('alert').locator('code').textContent()) as string;
}

async function makeWebhook(page: Page, url: string, address: string): Promise<string> {
  await goTo(page, 'Webhooks');
  await page.getByLabel('Address to deliver to').fill(url);
  await page.locator('select[name=type]').selectOption('raw');
  await page.getByLabel('Accounts').fill(address);
  await page.getByRole('button', { name: 'Create webhook' }).click();
  const secret = (await page.getByRole('alert').locator('code').textContent()) as string;
  assert.equal(await page.getByLabel('Transaction types').inputValue(), 'ANY', 'the form is ready for the next one');
  return secret;
}

test('a key works until its networks are limited, and again when they are not', { skip }, async () => {
  const { page, faults } = await openPage(browser!, bed);
  await logIn(page);
  const name = '<b onmouseover="window.broken=1">key</b>';
  const key = await makeKey(page, name);
  assert.equal(await call(key), 200);
  const row = page.getByRole('row').filter({ hasText: name });
  let networks = '10.0.0.0/8';
  page.on('dialog', (dialog) => void dialog.accept(networks));
  await row.getByRole('button', { name: 'Limit' }).click();
  await row.getByRole('cell', { name: networks }).waitFor();
  await eventually('the limit holds', async () => (await call(key)) === 403);
  networks = '';
  await row.getByRole('button', { name: 'Limit' }).click();
  await row.getByRole('cell', { name: 'everywhere' }).waitFor();
  await eventually('the limit is gone', async () => (await call(key)) === 200);
  assert.equal(await page.evaluate('window.broken'), undefined);
  assert.deepEqual(faults, []);
});

test('a payment on the chain is delivered while the page watches, and sent again', { skip }, async () => {
  const { page, faults } = await openPage(browser!, bed);
  await logIn(page);
  const watched = Keypair.generate();
  const url = `${receiver.url}/journey`;
  const secret = await makeWebhook(page, url, watched.publicKey.toBase58());
  const hook = page.getByRole('row').filter({ hasText: url });
  await hook.getByRole('button', { name: 'Switch off' }).click();
  await hook.getByRole('cell', { name: 'off', exact: true }).waitFor();
  await hook.getByRole('button', { name: 'Switch on' }).click();
  await hook.getByRole('cell', { name: 'on', exact: true }).waitFor();
  await hook.getByRole('button', { name: 'Deliveries' }).click();
  await page.getByText('Deliveries, newest first: nothing yet').waitFor();

  const before = receiver.received.length;
  const signature = await pay(watched);
  const [request] = (await receiver.waitFor(before + 1)).slice(before);
  new Webhook(secret).verify(request!.body.toString(), request!.headers as Record<string, string>);
  // Nobody touches the page.
  const delivery = page.getByRole('row').filter({ hasText: signature.slice(0, 16) });
  await delivery.getByRole('cell', { name: 'delivered' }).waitFor();
  await delivery.getByText('1 attempt', { exact: true }).waitFor();

  await delivery.getByRole('button', { name: 'Send again' }).click();
  const again = (await receiver.waitFor(before + 2))[before + 1]!;
  assert.equal(again.headers['webhook-id'], request!.headers['webhook-id']);
  await hook.getByRole('button', { name: 'Deliveries' }).click();
  await delivery.getByText('2 attempts').waitFor();

  await hook.getByRole('button', { name: 'Test' }).click();
  await page.getByText('Test event: 200').waitFor();
  assert.equal((await receiver.waitFor(before + 3)).length, before + 3);
  assert.deepEqual(faults, []);
});

test('what a receiver answers is shown as text, whatever it holds', { skip }, async () => {
  const { page, faults } = await openPage(browser!, bed);
  await logIn(page);
  const watched = Keypair.generate();
  const markup = '</pre><script>window.broken=1</script><img src=x onerror="window.broken=2">';
  receiver.route('/hostile?%3Cb%3E', answer(500, { 'content-type': 'text/html' }, markup));
  const url = `${receiver.url}/hostile?<b>`;
  await makeWebhook(page, url, watched.publicKey.toBase58());
  const hook = page.getByRole('row').filter({ hasText: '/hostile' });
  await hook.getByRole('button', { name: 'Deliveries' }).click();
  await pay(watched);
  const row = page.getByRole('row').filter({ hasText: /[1-9] attempt/ });
  await row.locator('summary').click();
  const shown = row.locator('pre');
  await shown.waitFor();
  assert.ok((await shown.textContent())?.includes('<script>window.broken=1'), 'the answer is there');
  assert.equal(await page.evaluate('window.broken'), undefined);
  assert.equal(await page.locator('main script, main img, main b').count(), 0);
  assert.deepEqual(faults, []);
});

test('usage grows with what is used, in numbers and in the plot', { skip }, async () => {
  const { page, faults } = await openPage(browser!, bed);
  await logIn(page);
  const used = async () => {
    await goTo(page, 'Overview');
    await goTo(page, 'Usage');
    await page.locator('.chart canvas').waitFor();
    // Deliveries are counted apart: those of the other tests may still go on.
    const cells = page.getByRole('row').filter({ hasText: 'rpc' }).locator('td:nth-child(3)');
    const credits = (await cells.allTextContents()).map((text) => Number(text.replaceAll(',', '')));
    return credits.reduce((sum, one) => sum + one, 0);
  };
  const first = await used();
  for (let n = 0; n < 7; n += 1) assert.equal(await call(bed.daemon.key), 200);
  await eventually('seven credits more', async () => (await used()) === first + 7);
  // Bars have a colour that nothing else of the plot has.
  const inks = (await page.evaluate(`(() => {
    const canvas = document.querySelector('.chart canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const inks = new Set();
    for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) inks.add([...data.slice(at, at + 3)].join());
    return [...inks];
  })()`)) as string[];
  assert.ok(inks.includes('185,119,14'), `no bar among ${inks.length} colours`);
  assert.deepEqual(faults, []);
});
