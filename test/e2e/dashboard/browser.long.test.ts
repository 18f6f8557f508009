import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { encode32 } from '../../../src/lib/base58.ts';
import { hashLeaf } from '../../../src/solana/concurrent/decode-concurrent.ts';
import { type DashboardBed, OPERATOR_TOKEN, startDashboard } from '../../conformance/dashboard/harness.ts';
import { createModelTree, mintOf, treeTransaction } from '../../helpers/bubblegum.ts';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { axeFaults, chromiumMissing, startChromium } from '../../helpers/chromium.ts';
import { answer, startReceiver } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';
import { choose, closePages, goTo, logIn, logInAsOwner, openPage, takeSecret } from './visit.ts';

const skip = chromiumMissing() ?? false;

let bed: DashboardBed;
let browser: Browser | undefined;

before(async () => {
  if (skip !== false) return;
  bed = await startDashboard({ webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } });
  browser = await startChromium();
});
afterEach(() => closePages(browser));
after(async () => {
  await browser?.close();
  await bed?.stop();
});

const open = (more: BrowserContextOptions = {}) => openPage(browser as Browser, bed, more);

const OF_PROJECT = ['Webhooks', 'API keys', 'Usage', 'Requests', 'Look up'];
const OF_DAEMON = ['Projects', 'Gaps and backfill', 'Wallets', 'Trees', 'Plugins', 'Configuration', 'Audit log'];
const ADDRESS = 'So11111111111111111111111111111111111111112';

test('an operator looks at every page', { skip }, async () => {
  const { page, faults } = await open();
  await logIn(page);
  await page.getByText('Followed to').first().waitFor();
  await page.getByRole('figure', { name: 'Store size' }).locator('canvas').waitFor();
  for (const name of [...OF_PROJECT, ...OF_DAEMON]) {
    await goTo(page, name);
    await page.locator('main .skeleton').first().waitFor({ state: 'detached' });
    assert.equal(await page.locator('main [role=alert]').count(), 0, name);
    assert.equal(await page.locator('.side nav a[aria-current=page]').textContent(), name);
    // The title follows the page after it is shown.
    await until(async () => (await page.title()).includes(name), `the title has ${name}`);
  }
  await page.goto(`${bed.daemon.adminUrl}/dashboard#/nowhere`);
  await page.getByText('There is no such page').waitFor();
  assert.deepEqual(faults, []);
});

test('a key is made by keyboard, is shown once and revoked', { skip }, async () => {
  const { page, faults } = await open();
  await logIn(page);
  await page.getByRole('link', { name: 'API keys' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
  await page.getByRole('button', { name: 'New key' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'New key' }).waitFor();
  await page.getByLabel('Name').fill('by keyboard');
  await page.keyboard.press('Enter');
  const secret = page.locator('.secret code');
  await secret.waitFor();
  const key = (await secret.textContent()) as string;
  const holdsFocus = "document.querySelector('.secret').closest('dialog').contains(document.activeElement)";
  assert.ok(await page.evaluate(holdsFocus), 'the dialog has the focus');
  const ask = () => fetch(`${bed.daemon.apiUrl}/v0/webhooks`, { headers: { 'X-Api-Key': key } });
  assert.equal((await ask()).status, 200);
  await takeSecret(page);
  const row = page.getByRole('row', { name: /by keyboard/ });
  await choose(row, 'Revoke…');
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('row', { name: /by keyboard.*revoked/ }).waitFor();
  await page.reload();
  await page.getByRole('row', { name: /by keyboard/ }).waitFor();
  assert.ok(!(await page.content()).includes(key), 'it is shown once');
  assert.deepEqual(faults, []);
});

test('the owner of a project logs in with its secret and sees the pages of the project alone', { skip }, async () => {
  const operator = await bed.operator();
  const { projectId } = bed.daemon;
  const { body } = await operator.ask('POST', `/dashboard/api/projects/${projectId}/secret`);
  const { page, faults } = await open();
  const asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  await logInAsOwner(page, projectId, body.secret);
  const names = ['Overview', ...OF_PROJECT];
  assert.deepEqual(await page.locator('.side nav a').allTextContents(), names);
  for (const name of names) {
    await goTo(page, name);
    await page.locator('main .skeleton').first().waitFor({ state: 'detached' });
    assert.equal(await page.locator('main [role=alert]').count(), 0, name);
  }
  for (const path of ['projects', 'config', 'audit', 'gaps']) {
    await page.goto(`${bed.daemon.adminUrl}/dashboard#/${path}`);
    await page.getByText('There is no such page').waitFor();
  }
  const daemonWide = asked.filter((path) => /metrics|readyz|healthz|\/(live|health|series|config|plugins)$/.test(path));
  assert.deepEqual(daemonWide, [], 'nothing of the whole daemon was asked for');
  await page.getByRole('button', { name: 'Project', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Log out' }).click();
  await page.getByRole('heading', { level: 1, name: 'Log in' }).waitFor();
  assert.deepEqual(faults, []);
});

test('text from elsewhere is never read as markup', { skip }, async () => {
  const { page, faults } = await open();
  await logIn(page);
  const name = '<img src=x onerror="window.broken=1"><b>bold</b>';
  await goTo(page, 'Projects');
  await page.getByRole('button', { name: 'New project' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Create project' }).click();
  await page.getByText('Give the project a name').waitFor();
  await page.getByLabel('Name').fill(name);
  await page.getByRole('dialog').getByRole('button', { name: 'Create project' }).click();
  // The page of the new project, with its own keys.
  await page.getByText(`of ${name}`).waitFor();
  await page.getByText('No keys yet').waitFor();
  await goTo(page, 'Projects');
  await page.getByRole('cell', { name, exact: true }).waitFor();
  await goTo(page, 'Audit log');
  await page.locator('main').getByText(name, { exact: false }).first().waitFor();
  assert.equal(await page.evaluate('window.broken'), undefined);
  assert.equal(await page.locator('main b, main img').count(), 0);
  assert.deepEqual(faults, []);
});

test('the skip link leads to the content and leaves the page as it is', { skip }, async () => {
  const { page, faults } = await open();
  await logIn(page);
  await goTo(page, 'Webhooks');
  const address = page.url();
  await page.getByRole('link', { name: 'Skip to content' }).focus();
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate('document.activeElement.id'), 'main');
  assert.deepEqual([page.url(), await page.locator('h1').textContent()], [address, 'Webhooks']);
  assert.deepEqual(faults, []);
});

test('the theme follows the system until it is chosen, and stays chosen', { skip }, async () => {
  const { page } = await open({ colorScheme: 'dark' });
  await logIn(page);
  const isDark = async () => {
    const color = (await page.evaluate('getComputedStyle(document.body.parentElement).backgroundColor')) as string;
    return Number(/\d+/.exec(color)?.[0]) < 100;
  };
  assert.equal(await isDark(), true);
  await page.getByRole('button', { name: /^Theme: system/ }).click();
  assert.equal(await isDark(), false);
  await page.reload();
  await page.getByRole('button', { name: /^Theme: light/ }).waitFor();
  assert.equal(await isDark(), false);
});

test('when the session ends, the user logs in over the page and the form is sent', { skip }, async () => {
  const { page, faults } = await open();
  await logIn(page);
  await goTo(page, 'Webhooks');
  await page.getByRole('button', { name: 'New webhook' }).first().click();
  const form = page.getByRole('dialog', { name: 'New webhook' });
  await form.getByRole('button', { name: 'Create webhook' }).click();
  await form.getByText('Give a full URL').waitFor();
  await form.getByText('Give at least one address').waitFor();
  await form.getByLabel('URL').fill('https://hook.example/kept');
  await form.getByLabel('Addresses', { exact: true }).fill('not-an-address');
  await form.getByRole('button', { name: 'Create webhook' }).click();
  await form.getByText('Entry 1 is not a Solana address').waitFor();
  await form.getByLabel('Addresses', { exact: true }).fill('');
  const file = { name: 'addresses.csv', mimeType: 'text/csv', buffer: Buffer.from(`"${ADDRESS}"\n`) };
  await form.getByLabel('File with addresses').setInputFiles(file);
  await form.getByText('1 address given').waitFor();
  await openTypes(page);
  await page.getByRole('option', { name: 'NFT_SALE' }).click();
  assert.deepEqual(await form.locator('.chips li').allTextContents(), ['NFT_SALE'], 'one type takes the place of ANY');
  await (await bed.operator()).ask('POST', '/dashboard/api/sessions/end');
  await form.getByRole('button', { name: 'Create webhook' }).click();
  const again = page.getByRole('dialog', { name: 'Log in again' });
  await again.getByLabel('Operator token').fill(OPERATOR_TOKEN);
  await page.keyboard.press('Enter');
  await page.locator('.secret').waitFor();
  await takeSecret(page);
  await page.getByRole('row', { name: /hook\.example\/kept.*1 type/ }).waitFor();
  assert.deepEqual(faults, []);
});

test('an answer to a call from before a log-in asks for no other one', { skip }, async () => {
  const { page, faults } = await open();
  await logIn(page);
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  let calls = 0;
  await page.route('**/dashboard/api/plugins', async (route) => {
    calls += 1;
    if (calls > 1) return route.continue();
    const response = await route.fetch();
    assert.equal(response.status(), 401);
    await released;
    await route.fulfill({ response });
  });
  await (await bed.operator()).ask('POST', '/dashboard/api/sessions/end');
  await page.getByRole('link', { name: 'Plugins', exact: true }).click();
  await page.getByRole('link', { name: 'Configuration', exact: true }).click();
  const again = page.getByRole('dialog', { name: 'Log in again' });
  await again.getByLabel('Operator token').fill(OPERATOR_TOKEN);
  await page.keyboard.press('Enter');
  await again.waitFor({ state: 'detached' });
  const late = page.waitForResponse((response) => response.url().endsWith('/plugins') && response.ok());
  release();
  await late;
  assert.equal(await again.count(), 0);
  assert.deepEqual(faults, []);
});

test('an overview outlives the daemon: it says so, asks for a log-in and goes on', { skip }, async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-restart-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const place = { dataDir, key: 'key-of-the-restart' };
  const first = await startDashboard({}, undefined, place);
  const { page } = await openPage(browser as Browser, first);
  t.after(() => page.context().close());
  await logIn(page);
  await page.getByText('Followed to').first().waitFor();
  await first.stop();
  await page.getByText('No connection to the daemon').waitFor();
  const port = Number(new URL(first.daemon.adminUrl).port);
  const second = await startDashboard({ admin: { port } }, undefined, place);
  t.after(() => second.stop());
  const again = page.getByRole('dialog', { name: 'Log in again' });
  await again.getByLabel('Operator token').fill(OPERATOR_TOKEN);
  const lives = page.waitForResponse((response) => response.url().endsWith('/live') && response.ok());
  await page.keyboard.press('Enter');
  await again.waitFor({ state: 'detached' });
  await lives;
  await page.getByText('No connection to the daemon').waitFor({ state: 'detached' });
});

test('axe finds nothing on any page, in light, in dark and on a phone', { skip }, async () => {
  const looks = [
    { colorScheme: 'light' },
    { colorScheme: 'dark' },
    { colorScheme: 'light', viewport: { width: 820, height: 1_000 } },
    { colorScheme: 'light', viewport: { width: 390, height: 800 } },
    { colorScheme: 'dark', viewport: { width: 390, height: 800 } },
  ] as const;
  const { projectId } = bed.daemon;
  const pages = [
    'overview',
    'projects',
    'gaps',
    'wallets',
    'trees',
    'plugins',
    'config',
    'audit',
    ...['webhooks', 'keys', 'usage', 'requests', 'look-up', `look-up/${ADDRESS}`, `look-up/${NFT}`].map(
      (name) => `p/${projectId}/${name}`,
    ),
  ];
  for (const look of looks) {
    const { page, faults } = await open(look);
    await answerLookUps(page);
    const check = async (where: string) => {
      assert.deepEqual(await axeFaults(page), [], `${where} ${JSON.stringify(look)}`);
    };
    await page.getByLabel('Operator token').waitFor();
    await check('login');
    await logIn(page);
    for (const path of pages) {
      await page.goto(`${bed.daemon.adminUrl}/dashboard#/${path}`);
      await page.locator('main h1').waitFor();
      await page.locator('main .skeleton').first().waitFor({ state: 'detached' });
      if (path.endsWith('usage')) await page.locator('.plot canvas').first().waitFor();
      await check(path);
      // Nothing is cut off at the right edge.
      assert.ok(((await page.evaluate('document.documentElement.scrollWidth - innerWidth')) as number) <= 0, path);
    }
    await page.goto(`${bed.daemon.adminUrl}/dashboard#/p/${projectId}/webhooks`);
    await page.getByRole('button', { name: 'New webhook' }).first().click();
    await openTypes(page);
    await check('form of a webhook');
    assert.deepEqual(faults, []);
    await page.context().close();
  }
});

test('a wallet and one of its NFTs are looked up by keyboard; names of strangers stay in their place', {
  skip,
}, async () => {
  const { page, faults } = await open();
  await answerLookUps(page);
  await logIn(page);
  await goTo(page, 'Look up');
  const field = page.getByLabel('Address or signature');
  await field.fill('not an address');
  await page.keyboard.press('Enter');
  await page.getByText('An address has 32 to 44 letters').waitFor();
  await field.fill(` ${ADDRESS} `);
  await page.keyboard.press('Enter');
  await page.getByRole('row', { name: /USDC.*12\.5.*\$12\.50/ }).waitFor();
  await page.getByRole('row', { name: /Failed/ }).waitFor();
  await page.getByRole('figure', { name: 'Balance of SOL' }).getByText('1.5', { exact: true }).waitFor();
  const tiles = page.locator('.gallery a');
  await tiles.first().waitFor();
  assert.equal(await tiles.count(), 48);
  await page.getByRole('navigation', { name: 'Pages of NFTs' }).getByRole('button', { name: 'Next' }).click();
  await page.getByText('Page 2').waitFor();
  assert.match(page.url(), new RegExp(`/look-up/${ADDRESS}\\?page=2$`), 'it can be shared');
  await page
    .getByRole('link', { name: /gnp\.exe/ })
    .first()
    .focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 2, name: 'Picture gnp.exe' }).waitFor();
  await page.getByText('Proven', { exact: true }).waitFor();
  await page.getByText('No picture').waitFor();
  await page.reload();
  await page.getByText('TransferV2').waitFor();
  assert.equal(await page.evaluate('window.broken'), undefined);
  assert.deepEqual(faults, []);
});

/** One pixel. */
const GIF = 'GIF89a\u0001\0\u0001\0\0\0\0,\0\0\0\0\u0001\0\u0001\0\0\u0002\u0002D\u0001\0;';

test('a compressed NFT of a followed tree is on the pages of its owner and on its own, with its picture', {
  skip: skip || ((await chainMissing()) ?? false),
}, async (t) => {
  const [chain, pictures] = [await startChain(), await startReceiver()];
  const [key, image] = [new Uint8Array(32).fill(123), `${pictures.url}/1.gif`];
  // A seed that JSON of a browser rounds.
  const attributes = '[{"trait_type":"seed","value":12345678901234567890}]';
  const json = JSON.stringify({ image, description: 'A ring of light' });
  pictures.route('/1.json', answer(200, {}, `${json.slice(0, -1)},"attributes":${attributes}}`));
  pictures.route('/1.gif', answer(200, { 'content-type': 'image/gif' }, GIF));
  const tree = createModelTree(key, 5);
  const { schema, data } = mintOf(key, 0, 40, 'Halo #1', { uri: `${pictures.url}/1.json` });
  const calls = [
    { call: 'start', tree: key, told: tree.started() } as const,
    { call: 'replace', tree: key, told: tree.set(0, hashLeaf(schema)), schema, data } as const,
  ];
  for (const [at, call] of calls.entries()) await chain.appendRecorded(treeTransaction(1, at, [call]) as never);
  const own = await startDashboard(
    {
      plugins: ['access', 'compression', 'das', 'dashboard', 'proxy', 'token-metadata', 'wallet'],
      // From the first block of the local chain on, so that the tree is known from its first change.
      follow: { startSlot: 1_000, pollMs: 20 },
      compression: { verifyChain: false, cnft: { trees: [encode32(key)] } },
      'token-metadata': { offChain: { allowCidrs: ['127.0.0.1/32'] } },
    },
    chain,
  );
  t.after(async () => {
    await own.stop();
    await Promise.all([chain.stop(), pictures.close()]);
  });
  const { daemon } = own;
  const [id, owner] = [encode32(schema.id), encode32(schema.owner)];
  const shown = { mint: id, name: 'Halo #1', imageUri: image, collectionName: null, collectionAddress: null };
  await until(async () => {
    await chain.seal(1);
    const url = `${daemon.apiUrl}/v1/wallet/${owner}/balances?showNfts=true&api-key=${daemon.key}`;
    const { nfts } = (await (await fetch(url)).json()) as { nfts?: readonly object[] };
    return isDeepStrictEqual(nfts, [{ ...shown, compressed: true }]);
  }, 'the wallet has the NFT and the address of its picture');

  const { page, faults } = await openPage(browser as Browser, own);
  await logIn(page);
  await page.goto(`${daemon.adminUrl}/dashboard#/p/${daemon.projectId}/look-up/${owner}`);
  const tile = page.getByRole('link', { name: /Halo #1/ });
  await tile.waitFor();
  const isSeen = (selector: string) => async () =>
    ((await page.evaluate(`document.querySelector('${selector}')?.naturalWidth`)) ?? 0) === 1;
  await until(isSeen('.gallery img'), 'the picture in the gallery');
  // The wallet holds nothing but NFTs.
  await page.getByText('Tokens', { exact: true }).first().waitFor();
  assert.equal(await page.getByText('Nothing is here').count(), 0);
  const unused = encode32(new Uint8Array(32).fill(41));
  await page.goto(`${daemon.adminUrl}/dashboard#/p/${daemon.projectId}/look-up/${unused}`);
  await page.getByText('Nothing is here').waitFor();
  await page.goBack();
  await tile.click();
  await page.getByRole('heading', { level: 2, name: 'Halo #1' }).waitFor();
  await until(isSeen('.picture.large img'), 'the picture of the asset');
  await page.getByText('A ring of light').waitFor();
  await page.getByText('12345678901234567890', { exact: true }).waitFor();
  await page.getByText('Proven', { exact: true }).waitFor();
  await page.getByText('MintV2').waitFor();
  // That a wallet is no asset is an answer, which a browser notes.
  assert.deepEqual(
    faults.filter((fault) => !fault.includes('404')),
    [],
  );
});

const NFT = 'JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFG';

/** Answers look-ups as routes of a daemon with assets would; the pictures are not there. */
async function answerLookUps(page: Page): Promise<void> {
  const nft = (id: string, name: string) => ({
    id,
    interface: 'V1_NFT',
    mutable: true,
    burnt: false,
    last_indexed_slot: 381_204_511,
    content: {
      json_uri: 'https://elsewhere.example/1.json',
      files: [],
      links: { image: 'https://elsewhere.example/1' },
      metadata: {
        name,
        symbol: 'PIC',
        description: '<img src=x onerror="window.broken=1"> \u05e9\u05dc\u05d5\u05dd',
        attributes: [{ trait_type: 'hat', value: 'a'.repeat(300) }, { value: { deep: [1] } }, null],
      },
    },
    grouping: [{ group_key: 'collection', group_value: ADDRESS }],
    authorities: [{ address: ADDRESS }],
    creators: [{ address: ADDRESS, share: 100, verified: true }],
    royalty: { basis_points: 550 },
    compression: { compressed: true, tree: ADDRESS, leaf_id: 7, asset_hash: ADDRESS },
    ownership: { owner: ADDRESS, delegate: null, frozen: true },
  });
  // A file that looks like a picture: the name is read from right to left.
  const hostile = 'Picture \u202egnp.exe\u2066';
  const names = ['W'.repeat(200), '\u0645\u0631\u062d\u0628\u0627', '\u{1f984}\u{1f308}', hostile, ''];
  const items = Array.from({ length: 48 }, (_, at) =>
    nft(
      at === 3 ? NFT : ADDRESS.slice(0, -2) + String.fromCharCode(65 + (at % 8), 97 + (at >> 3)),
      names[at % 5] as string,
    ),
  );
  const token = { mint: ADDRESS, pricePerToken: 1, logoUri: null, tokenProgram: 'spl-token' };
  const results: Readonly<Record<string, unknown>> = {
    proof: { leaf: ADDRESS, root: ADDRESS, isProven: true },
    balances: {
      balances: [
        { ...token, symbol: 'SOL', name: 'Solana', balance: 1.5, usdValue: 1.5 },
        { ...token, mint: NFT, symbol: 'USDC', name: 'USD Coin', balance: 12.5, usdValue: 12.5 },
        { ...token, mint: `${NFT}2`, symbol: null, name: null, balance: 1e-9, pricePerToken: null, usdValue: null },
      ],
      totalUsdValue: 14,
      pagination: { page: 1, limit: 100, hasMore: true },
    },
    nfts: { items, limit: 48 },
    lamports: { value: 1_500_000_000 },
    changes: {
      data: [
        { timestamp: 1_790_000_000, balanceChanges: [{ mint: 'SOL', amount: -0.5 }] },
        { timestamp: 1_789_990_000, balanceChanges: [{ mint: 'SOL', amount: 2 }] },
      ],
      pagination: { hasMore: false },
    },
  };
  await page.route('**/look-up', async (route) => {
    const { what, address, isCompressed } = route.request().postDataJSON();
    const result =
      what === 'asset'
        ? address === NFT
          ? nft(NFT, hostile)
          : null
        : what === 'transactions'
          ? isCompressed
            ? { items: [['5h6xBEau', 'TransferV2']] }
            : [{ signature: '5h6xBEau', slot: 1, blockTime: null, err: {} }]
          : results[what];
    const pictures = { 'https://elsewhere.example/1': 'no-proof' };
    await route.fulfill({ json: { result, pictures } });
  });
  await page.route('**/picture?*', (route) => route.fulfill({ contentType: 'image/gif', body: 'not a picture' }));
}

/** The list of types of transactions. */
async function openTypes(page: Page): Promise<void> {
  await page.getByRole('combobox', { name: 'Transaction types' }).fill('NFT_SA');
  await page.getByRole('option', { name: 'NFT_SALE' }).first().waitFor();
}
