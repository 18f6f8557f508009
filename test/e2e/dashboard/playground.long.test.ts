/** The page Playground: airdrop, transfer and fork on the local chain, and what the daemon made of them. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { OPERATOR_TOKEN } from '../../conformance/dashboard/harness.ts';
import { chainMissing } from '../../helpers/chain.ts';
import { axeFaults, chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { type DaemonProcess, startDaemonProcess } from '../../helpers/daemon.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';
import { closePages, goTo, logIn, openPage } from './visit.ts';

const skip = chromiumMissing() ?? (await chainMissing()) ?? false;
/** The wallet of the demo that transfers come from. */
const PAYER = '4h25pvcyW2Peha1JHzkkgCK3FgqZEvUcN1XRcMA7A7Rv';

const start = (local: object, webhooks: object = {}) =>
  startDaemonProcess({
    config: {
      plugins: ['access', 'dashboard', 'parsed', 'proxy', 'webhooks'],
      upstream: { urls: [], local: { mode: 'on', port: 0, ...local } },
      follow: { enabled: true },
      webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'], ...webhooks },
      dashboard: { operatorToken: OPERATOR_TOKEN },
    },
  });

const fieldOf = (page: Page, name: string) => page.getByLabel(name, { exact: true });
const cardOf = (page: Page, title: string) =>
  page.locator('section.card').filter({ has: page.getByRole('heading', { name: title }) });
const choose = (page: Page, act: string) => page.getByRole('radio', { name: act, exact: true }).check({ force: true });
const submit = (page: Page, act: string) => page.getByRole('button', { name: act, exact: true }).click();
/** Until the daemon has released so many blocks that it can follow a fork of them. */
const untilForks = (page: Page, depth: number) =>
  until(async () => {
    const answer = await page.evaluate(`fetch('/dashboard/api/playground').then((response) => response.json())`);
    return (answer as { readonly maxForkDepth: number }).maxForkDepth >= depth;
  }, 'blocks to drop');
const numberIn = (text: string | null) => Number((text ?? '').replaceAll(/[^\d]/g, ''));

describe('the playground', { skip }, () => {
  let browser: Browser;
  let receiver: Receiver;
  let daemon: DaemonProcess;

  before(async () => {
    browser = await startChromium();
    receiver = await startReceiver();
    const operational = { url: `${receiver.url}/operator`, secret: `whsec_${Buffer.alloc(32, 7).toString('base64')}` };
    daemon = await start({ consensus: 'towerbft', finalityDepth: 2_000 }, { operational });
  });
  afterEach(() => closePages(browser));
  after(async () => {
    await daemon?.stop();
    await receiver?.close();
    await browser?.close();
  });

  test('an airdrop and a transfer are told in words with their delivery, and a fork takes them back', async () => {
    await fetch(`${daemon.apiUrl}/v0/webhooks?api-key=${daemon.key}`, {
      method: 'POST',
      body: JSON.stringify({
        webhookURL: `${receiver.url}/played`,
        webhookType: 'raw',
        accountAddresses: [PAYER],
        name: 'Of the payer',
      }),
    });
    const { page, faults } = await openPage(browser, { daemon });
    await logIn(page);
    await goTo(page, 'Playground');

    await fieldOf(page, 'Amount in SOL').fill('one');
    await submit(page, 'Airdrop');
    await page.getByText('An amount such as 1 or 0.25').waitFor();
    await fieldOf(page, 'Amount in SOL').fill('2.5');
    await submit(page, 'Airdrop');
    const airdrop = cardOf(page, 'Airdrop of 2.5 SOL');
    await airdrop.getByText(/transferred 2\.5 SOL to/).waitFor();
    await airdrop.getByText('Key of the fresh address').click();
    const keypair = JSON.parse((await airdrop.locator('pre').textContent()) ?? '') as readonly number[];
    assert.equal(keypair.length, 64);

    await untilForks(page, 40);
    await choose(page, 'Transfer');
    await fieldOf(page, 'Amount in SOL').fill('0.25');
    await submit(page, 'Transfer');
    const transfer = cardOf(page, 'Transfer of 0.25 SOL');
    await transfer.getByText(/transferred 0\.25 SOL to/).waitFor();
    await transfer.getByRole('link', { name: 'Of the payer' }).waitFor();
    await transfer.getByText('delivered').waitFor();
    assert.equal(receiver.received.find(({ url }) => url === '/played')?.headers['x-parhelion-network'], 'local');
    const slot = numberIn(await transfer.getByText(/^In block/).textContent());

    await choose(page, 'Fork');
    await fieldOf(page, 'Blocks to drop').fill('9999');
    await submit(page, 'Fork');
    await page.getByText(/older blocks are final, or from before/).waitFor();
    const blocks = cardOf(page, 'Blocks');
    const newest = numberIn(await blocks.locator('tbody tr').first().locator('td,th').first().textContent());
    // Blocks go on until it is sent.
    await fieldOf(page, 'Blocks to drop').fill(String(newest - slot + 20));
    await page.getByLabel('Drop their transactions too').check();
    await submit(page, 'Fork');
    const fork = cardOf(page, 'Fork:');
    await fork.getByText('rolled it back').first().waitFor();
    await transfer.getByText('A fork dropped its block, and no block of the new branch has it').waitFor();
    const toldOperator = () =>
      receiver.received
        .filter(({ url }) => url === '/operator')
        .map(
          ({ body }) => JSON.parse(body.toString()) as { readonly type: string; readonly data: { network?: string } },
        );
    await until(
      async () => toldOperator().some(({ type }) => type === 'chain.reverted'),
      'the operator hears of the fork',
    );
    assert.ok(
      toldOperator().every(({ type, data }) => !type.startsWith('chain.') || data.network === 'local'),
      JSON.stringify(toldOperator()),
    );
    assert.deepEqual(await axeFaults(page), []);
    // An explorer of public networks knows nothing of it.
    await transfer.getByRole('link', { name: 'Of the payer' }).click();
    await page.getByRole('heading', { level: 1, name: 'Delivery', exact: true }).waitFor();
    await page.getByText('delivered').first().waitFor();
    assert.equal(await page.getByRole('link', { name: 'Solana Explorer' }).count(), 0);
    await goTo(page, 'Audit log');
    for (const entry of ['Airdropped', 'Transferred', 'Forked']) await page.getByText(entry).first().waitFor();
    // What was done is still there.
    await goTo(page, 'Playground');
    await fork.waitFor();
    assert.deepEqual(faults, []);
  });

  test('a fork moves a transaction where its blocks are run again', async () => {
    const { page } = await openPage(browser, { daemon });
    await logIn(page);
    await goTo(page, 'Playground');
    await untilForks(page, 40);
    await choose(page, 'Transfer');
    await fieldOf(page, 'Amount in SOL').fill('0.125');
    await submit(page, 'Transfer');
    const transfer = cardOf(page, 'Transfer of 0.125 SOL');
    const slot = numberIn(await transfer.getByText(/^In block/).textContent());
    await choose(page, 'Fork');
    const newest = cardOf(page, 'Blocks').locator('tbody tr').first().locator('td,th').first();
    await fieldOf(page, 'Blocks to drop').fill(String(numberIn(await newest.textContent()) - slot + 20));
    await submit(page, 'Fork');
    const moved = await transfer.getByText(/^A fork moved it from block/).textContent();
    const to = (moved ?? '').replaceAll(',', '').match(/to block (\d+)/)?.[1];
    await transfer.getByText(`In block ${Number(to).toLocaleString('en')}`, { exact: true }).waitFor();
  });
});

test('a chain whose blocks are final at once says how to have one that forks', { skip }, async (t) => {
  const [browser, daemon] = [await startChromium(), await start({})];
  t.after(async () => {
    await browser.close();
    await daemon.stop();
  });
  const { page } = await openPage(browser, { daemon });
  await logIn(page);
  await goTo(page, 'Playground');
  await choose(page, 'Fork');
  await page.getByText('PARHELION_UPSTREAM__LOCAL__CONSENSUS=towerbft').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Fork', exact: true }).count(), 0);
  assert.deepEqual(await axeFaults(page), []);
  await choose(page, 'Transfer');
  await fieldOf(page, 'Amount in SOL').fill('99999');
  await submit(page, 'Transfer');
  await page
    .getByRole('alert')
    .getByText(/^the payer has \d+ lamports, too few for 99999000000000/)
    .waitFor();
});

test('without the control methods of the chain the page says which key brings them', { skip }, async (t) => {
  const [browser, daemon] = [await startChromium(), await start({ control: false })];
  t.after(async () => {
    await browser.close();
    await daemon.stop();
  });
  const { page } = await openPage(browser, { daemon });
  await logIn(page);
  await goTo(page, 'Playground');
  await page.getByText('The local chain takes no orders: set upstream.local.control to true').waitFor();
});
