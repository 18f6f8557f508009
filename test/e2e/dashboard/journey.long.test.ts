/** What people do on the pages, on a real chain: keys that work, webhooks that deliver, usage that grows. */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Keypair, LAMPORTS_PER_SOL, SystemProgram, sendAndConfirmTransaction, Transaction } from '@solana/web3.js';
import type { Browser, Page } from 'playwright-core';
import { Webhook } from 'standardwebhooks';
import { type DashboardBed, startDashboard } from '../../conformance/dashboard/harness.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { answer, type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { choose, closePages, goTo, logIn, openPage, takeSecret } from './visit.ts';

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
afterEach(() => closePages(browser));
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
  await goTo(page, 'API keys');
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByLabel('Name').fill(name);
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.locator('.secret').waitFor();
  assert.equal(await page.getByRole('dialog').count(), 1, 'the form is gone');
  return await takeSecret(page);
}

/** Creates a webhook of the type raw and opens its page. */
async function makeWebhook(page: Page, url: string, address: string): Promise<string> {
  await goTo(page, 'Webhooks');
  await page.getByRole('button', { name: 'New webhook' }).first().click();
  const form = page.getByRole('dialog');
  await form.getByLabel('URL').fill(url);
  await form.getByLabel('Type', { exact: true }).selectOption('raw');
  await form.getByLabel('Addresses', { exact: true }).fill(address);
  await form.getByRole('button', { name: 'Create webhook' }).click();
  await page.locator('.secret').waitFor();
  const secret = await takeSecret(page);
  await page.getByRole('link', { name: url }).click();
  await page.getByRole('heading', { level: 1, name: 'Webhook', exact: true }).waitFor();
  return secret;
}

test('a key works until its networks are limited, and again when they are not', { skip }, async () => {
  const { page, faults } = await openPage(browser!, bed);
  await logIn(page);
  const name = '<b onmouseover="window.broken=1">key</b>';
  const key = await makeKey(page, name);
  assert.equal(await call(key), 200);
  const row = page.getByRole('row').filter({ hasText: name });
  const limitTo = async (networks: string) => {
    await choose(row, 'Change limits…');
    await page.getByRole('dialog').getByLabel('IP addresses').fill(networks);
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  };
  await limitTo('nowhere');
  await page.getByText(/^not an IP address or a range such as .*: nowhere$/).waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  await limitTo('10.0.0.0/8');
  await row.getByText('10.0.0.0/8').waitFor();
  await eventually('the limit holds', async () => (await call(key)) === 403);
  await limitTo('');
  await row.getByRole('cell', { name: 'none' }).waitFor();
  await eventually('the limit is gone', async () => (await call(key)) === 200);
  assert.equal(await page.evaluate('window.broken'), undefined);
  // The refused network is one; the browser tells of it too.
  assert.deepEqual(
    faults.filter((fault) => !/status of 400/.test(fault)),
    [],
  );
});

test('a payment on the chain is delivered while the page watches, has an address of its own, and is sent again', {
  skip,
}, async () => {
  const { page, faults } = await openPage(browser!, bed);
  await logIn(page);
  const watched = Keypair.generate();
  const url = `${receiver.url}/journey`;
  const secret = await makeWebhook(page, url, watched.publicKey.toBase58());
  const act = async (action: string) => {
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: action }).click();
  };
  await act('Switch off');
  await page.getByText('off', { exact: true }).waitFor();
  await act('Switch on');
  await page.getByText('on', { exact: true }).waitFor();
  await page.getByText('No deliveries yet').waitFor();

  const before = receiver.received.length;
  const signature = await pay(watched);
  const [request] = (await receiver.waitFor(before + 1)).slice(before);
  new Webhook(secret).verify(request!.body.toString(), request!.headers as Record<string, string>);
  // Nobody touches the page.
  const delivery = page.getByRole('row').filter({ hasText: signature.slice(0, 16) });
  await delivery.getByText('delivered').waitFor();
  const attempts = (count: string) => delivery.locator('[data-label=Attempts]', { hasText: count });
  await attempts('1').waitFor();
  await delivery.getByText('200', { exact: true }).waitFor();

  await delivery.getByRole('button', { name: 'Resend' }).click();
  const again = (await receiver.waitFor(before + 2))[before + 1]!;
  assert.equal(again.headers['webhook-id'], request!.headers['webhook-id']);
  await attempts('2').waitFor();

  // Filters are in the address; a search finds the one delivery.
  await page.getByLabel('State', { exact: true }).selectOption('failed');
  await page.getByText('No delivery matches').waitFor();
  await page.getByLabel('State', { exact: true }).selectOption('');
  await page.getByLabel('Signature', { exact: true }).fill(signature);
  await delivery.waitFor();
  assert.match(page.url(), new RegExp(`signature=${signature}`));
  const listAddress = page.url();
  await delivery.getByRole('link').click();
  await page.getByRole('heading', { level: 1, name: 'Delivery' }).waitFor();
  // What is shown of the request is what the receiver got.
  const shown = page.locator('.timeline li').first();
  await shown.getByText(String(again.headers['webhook-id'])).waitFor();
  await shown.getByText(String(again.headers['webhook-timestamp'])).waitFor();
  assert.ok(!(await page.content()).includes(String(again.headers['webhook-signature'])), 'the signature is hidden');
  await page.getByRole('region', { name: 'payload' }).getByText(signature).waitFor();
  assert.equal(await page.locator('.timeline li').count(), 2);
  // No public explorer knows this chain.
  assert.equal(await page.getByRole('link', { name: 'Solana Explorer' }).count(), 0);
  await page.reload();
  await page.getByRole('region', { name: 'payload' }).getByText(signature).waitFor();
  await page.goBack();
  await delivery.waitFor();
  assert.equal(page.url(), listAddress);

  await page.getByRole('button', { name: 'Send a test event' }).click();
  await page.getByText('Test event delivered: the receiver answered 200').waitFor();
  assert.equal((await receiver.waitFor(before + 3)).length, before + 3);
  assert.deepEqual(faults, []);
});

test('the answer of a receiver is shown as text, and failed deliveries are sent again', { skip }, async () => {
  const { page, faults } = await openPage(browser!, bed);
  await logIn(page);
  const watched = Keypair.generate();
  const markup = '</pre><script>window.broken=1</script><img src=x onerror="window.broken=2">';
  receiver.route('/hostile?%3Cb%3E', answer(403, { 'content-type': 'text/html', 'set-cookie': 'a=b' }, markup));
  await makeWebhook(page, `${receiver.url}/hostile?<b>`, watched.publicKey.toBase58());
  await pay(watched);
  const row = page.getByRole('row').filter({ hasText: 'failed' });
  await row.getByText('403', { exact: true }).waitFor();
  const before = receiver.received.length;
  await page.getByRole('button', { name: 'Resend…' }).click();
  await page.getByRole('dialog').getByLabel('Created in').selectOption('0');
  await page.getByRole('dialog').getByRole('button', { name: 'Resend' }).click();
  await page.getByText('1 delivery is sent again').waitFor();
  await receiver.waitFor(before + 1);
  await row.locator('[data-label=Attempts]', { hasText: '2' }).waitFor();
  await row.getByRole('link').click();
  const shown = page.getByRole('region', { name: 'response body' }).first();
  await shown.waitFor();
  assert.ok((await shown.textContent())?.includes('<script>window.broken=1'), 'the answer is there');
  await page.getByText('text/html').first().waitFor();
  assert.equal(await page.getByText('set-cookie').count(), 0, 'cookies are not kept');
  assert.equal(await page.evaluate('window.broken'), undefined);
  assert.equal(await page.locator('main script, main img, main b').count(), 0);
  assert.deepEqual(faults, []);
});

test('the pages of webhooks fit any screen: nothing leaves its card, states stay whole, and the account is in sight', {
  skip,
}, async () => {
  const { page, faults } = await openPage(browser!, bed);
  await logIn(page);
  const watched = Keypair.generate();
  receiver.route('/broken?shop=main&region=europe-west', answer(500, {}, 'no'));
  receiver.route('/gone', answer(410));
  for (const path of ['gone', 'broken?shop=main&region=europe-west'])
    await makeWebhook(page, `${receiver.url}/${path}`, watched.publicKey.toBase58());
  const list = page.url();
  await pay(watched);
  await page.getByRole('row').filter({ hasText: 'pending' }).getByRole('link').click();
  await page.getByText('Next attempt').waitFor();
  const one = page.url();
  const [all] = list.split(/\/(?=[^/]+$)/) as [string];
  await page.goto(all);
  await page.getByText('off: receiver is gone').waitFor();
  // Times become as long as they get: `in 11 minutes`.
  await page.evaluate('{ const now = Date.now; Date.now = () => now() - 11.5 * 60_000; }');
  for (const width of [390, 820, 1_440]) {
    await page.setViewportSize({ width, height: 900 });
    for (const address of [all, list, one]) {
      await page.goto(address);
      await page.locator('main :is(.badge, .stat)').first().waitFor();
      const where = `${address} at ${width}`;
      assert.deepEqual(await page.evaluate(OVERFLOWS), [], where);
      assert.ok(((await page.evaluate('document.documentElement.scrollWidth - innerWidth')) as number) <= 0, where);
    }
  }
  const account = await page.locator('.side footer').boundingBox();
  assert.ok(account!.y + account!.height <= 900, 'search, theme and account are in sight');
  assert.deepEqual(faults, []);
});

/** Figures wider than their place, and badges on more than one line. */
const OVERFLOWS = `[...document.querySelectorAll('main .stat dd, main .badge')].filter((one) =>
  one.matches('.badge') ? one.getClientRects().length > 1 || one.offsetHeight > 30 : one.scrollWidth > one.clientWidth
).map((one) => one.textContent)`;

test('usage grows with what is used, in numbers and in the plot', { skip }, async () => {
  const { page, faults } = await openPage(browser!, bed);
  await logIn(page);
  const used = async () => {
    await goTo(page, 'Overview');
    await goTo(page, 'Usage');
    await page.locator('.plot canvas').first().waitFor();
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
    const canvas = document.querySelector('.plot canvas');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const inks = new Set();
    for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) inks.add([...data.slice(at, at + 3)].join());
    return [...inks];
  })()`)) as string[];
  assert.ok(inks.includes('217,119,6'), `no bar among ${inks.length} colours`);
  assert.deepEqual(faults, []);
});
