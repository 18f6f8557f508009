/**
 * Pictures of every page of the dashboard, and of pages of reference and guide, at three widths and in both themes, from a daemon under traffic on the local
 * chain: `npm run screenshots -- DIR [--seconds N] [--only WORD,WORD]`. They are to be looked at; nothing is compared.
 * The run fails when a page of the dashboard scrolls sideways.
 */
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { crc32, deflateSync } from 'node:zlib';
import {
  createAssociatedTokenAccount,
  createAssociatedTokenAccountInstruction,
  createMint,
  createTransferCheckedInstruction,
  getAssociatedTokenAddressSync,
  mintTo,
  TOKEN_PROGRAM_ID,
} from '@solana/spl-token';
import {
  ComputeBudgetProgram,
  Keypair,
  LAMPORTS_PER_SOL,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
} from '@solana/web3.js';
import type { Browser, Page } from 'playwright-core';
import { encode32 } from '../../src/lib/base58.ts';
import { hashLeaf } from '../../src/solana/concurrent/decode-concurrent.ts';
import { assetId } from '../../src/solana/concurrent/tree.ts';
import { startDashboard } from '../conformance/dashboard/harness.ts';
import { logIn, logInAsOwner, openPage } from '../e2e/dashboard/visit.ts';
import { createModelTree, mintOf, treeTransaction } from '../helpers/bubblegum.ts';
import { startChain } from '../helpers/chain.ts';
import { startChromium } from '../helpers/chromium.ts';
import { answer, startReceiver } from '../helpers/receiver.ts';

const WIDTHS = [390, 820, 1_440] as const;
const THEMES = ['light', 'dark'] as const;
const HEIGHT = 900;
const TREE = new Uint8Array(32).fill(123);
const LEAVES = 20;
/** The byte that its key consists of. */
const COLLECTOR = 40;
/** Of the pages' requests; the traffic goes on meanwhile. */
const SETTLE_MS = 700;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seconds: { type: 'string', default: '90' }, only: { type: 'string', default: '' } },
});
/** Pages that scroll sideways. */
const tooWide = new Set<string>();
const wanted = values.only.split(',');
const isWanted = (name: string): boolean => wanted.some((word) => name.includes(word));
const [folder] = positionals;
if (folder === undefined) throw new Error('usage: npm run screenshots -- DIR [--seconds N] [--only WORD,WORD]');
const output = resolve(folder);
mkdirSync(output, { recursive: true });

const chain = await startChain({ slotMs: 400, time: { kind: 'wall' } });
const payer = Keypair.generate();
await chain.fund(payer.publicKey.toBase58(), 1_000 * LAMPORTS_PER_SOL);
const documents = await startDocuments();
await growTree();
const { opened, failed, mint: token } = await makeTransactions();
const receiver = await startReceiver();
receiver.route('/broken', answer(500, { 'content-type': 'application/json' }, '{"error":"database is locked"}'));
receiver.route('/gone', answer(410));
const bed = await startDashboard(
  {
    plugins: [
      'access',
      'accounts',
      'compression',
      'das',
      'dashboard',
      'enhanced',
      'fees',
      'history',
      'prices',
      'proxy',
      'sender',
      'parsed',
      'token-metadata',
      'wallet',
      'webhooks',
      'shadow',
    ],
    // A node that is the upstream itself: what differs is what has moved meanwhile.
    shadow: { reference: { url: chain.rpcUrl, products: ['rpc'] }, share: 1 },
    webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] },
    // From the first block of the local chain on, so that the tree is known from its first change.
    follow: { startSlot: 1_000 },
    compression: { verifyChain: false, cnft: { trees: [encode32(TREE)] } },
    'token-metadata': { offChain: { allowCidrs: ['127.0.0.0/8'] } },
    dashboard: { sampleIntervalMs: 5_000 },
  },
  chain,
);
const operator = await bed.operator();
const { projectId, apiUrl, key, adminUrl } = bed.daemon;
const watched = Array.from({ length: 3 }, () => Keypair.generate());

await makeProjects();
const hook = await makeHooks();
for (const [name, role] of [
  ['ann', 'operator'],
  ['support', 'viewer'],
])
  await operator.ask('POST', '/dashboard/api/operators', { name, role });
const ownerSecret = await operator.ask('POST', `/dashboard/api/projects/${projectId}/secret`);
const stopped = new AbortController();
const traffic = Promise.all([payOn(), callOn()]);
console.log(`traffic for ${values.seconds} s`);
await new Promise((done) => setTimeout(done, Number(values.seconds) * 1_000));
await takeAll(await pagesOf(hook));
stopped.abort();
await traffic;
await bed.stop();
await receiver.close();
await chain.stop();
console.log(`pictures are in ${output}`);
if (tooWide.size > 0) console.error(`pages that scroll sideways:\n${[...tooWide].join('\n')}`);
process.exit(tooWide.size === 0 ? 0 : 1);

async function growTree(): Promise<void> {
  const tree = createModelTree(TREE, 6);
  let number = 0;
  const append = (events: Parameters<typeof treeTransaction>[2]) =>
    chain.appendRecorded(treeTransaction(1, ++number, events) as never);
  await append([{ call: 'start', tree: TREE, told: tree.started() }]);
  for (let leaf = 0; leaf < LEAVES; leaf += 1) {
    const name = leaf % 7 === 6 ? `A compressed NFT with quite a long name, #${leaf}` : `Halo #${leaf}`;
    const { schema, data } = mintOf(TREE, leaf, COLLECTOR, name, { uri: `${documents}/${leaf}.json` });
    await append([{ call: 'replace', tree: TREE, told: tree.set(leaf, hashLeaf(schema)), schema, data }]);
  }
}

/** Documents of NFTs with their pictures, most of them square; one is missing. */
async function startDocuments(): Promise<string> {
  const server = createServer(({ url = '' }, response) => {
    const number = Number.parseInt(url.slice(1), 10);
    if (number === 2) return response.writeHead(404).end();
    if (url.endsWith('.png')) return response.end(drawPicture(number));
    const attributes = ['Ring', 'Glow', 'Sky'].map((trait_type, at) => ({
      trait_type,
      value: `No. ${number * 3 + at}`,
    }));
    const description = 'A ring of light around the sun, caused by crystals of ice in the air.';
    return response.end(JSON.stringify({ description, attributes, image: `${documents}/${number}.png` }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A ring before a sky, as PNG. */
function drawPicture(number: number): Buffer {
  const [width, height] = number % 5 === 4 ? [320, 180] : [240, 240];
  const rows = Buffer.alloc((width * 3 + 1) * height);
  for (let y = 0; y < height; y += 1)
    for (let x = 0; x < width; x += 1) {
      const distance = Math.hypot(x - width / 2, y - height / 2) / height;
      const light = Math.max(0, 1 - Math.abs(distance - 0.3) * 12);
      const sky = [40 + ((number * 53) % 120), 70 + (y * 90) / height, 150 + ((number * 29) % 80)];
      sky.forEach((value, at) => {
        rows[(width * 3 + 1) * y + 1 + x * 3 + at] = Math.min(255, value + light * 150);
      });
    }
  const part = (type: string, data: Buffer): Buffer => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2], 8);
  const parts = [part('IHDR', head), part('IDAT', deflateSync(rows)), part('IEND', Buffer.alloc(0))];
  return Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), ...parts]);
}

/** One with calls of other programs, and one that fails. */
async function makeTransactions(): Promise<{
  readonly opened: string;
  readonly failed: string;
  readonly mint: string;
}> {
  const { connection } = chain;
  const confirm = { commitment: 'confirmed' } as const;
  const friend = Keypair.generate().publicKey;
  const mint = await createMint(connection, payer, payer.publicKey, null, 6, undefined, confirm);
  const ours = await createAssociatedTokenAccount(connection, payer, mint, payer.publicKey, confirm);
  await mintTo(connection, payer, mint, ours, payer, 5_000_000_000n, [], confirm);
  const theirs = getAssociatedTokenAddressSync(mint, friend);
  const all = new Transaction().add(
    ComputeBudgetProgram.setComputeUnitLimit({ units: 200_000 }),
    createAssociatedTokenAccountInstruction(payer.publicKey, theirs, friend, mint),
    createTransferCheckedInstruction(ours, mint, theirs, payer.publicKey, 1_234_567_800n, 6),
    SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: friend, lamports: 25_000_000 }),
  );
  const opened = await sendAndConfirmTransaction(connection, all, [payer], confirm);
  const tooMuch = new Transaction({ feePayer: payer.publicKey, ...(await connection.getLatestBlockhash()) }).add(
    SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: friend, lamports: 5_000 * LAMPORTS_PER_SOL }),
  );
  tooMuch.sign(payer);
  const failed = await connection.sendRawTransaction(tooMuch.serialize(), { skipPreflight: true });
  return { opened, failed, mint: mint.toBase58() };
}

async function makeProjects(): Promise<void> {
  const make = async (name: string, plan: string): Promise<string> =>
    (await operator.ask('POST', '/dashboard/api/projects', { name, plan })).body.id;
  await make('Storefront', 'developer');
  const idle = await make('An internal dashboard with quite a long name', 'business');
  await operator.ask('PATCH', `/dashboard/api/projects/${idle}`, { isDisabled: true });
  const addKey = (body: object) => operator.ask('POST', `/dashboard/api/projects/${projectId}/keys`, body);
  await addKey({ name: 'backend', ips: ['10.0.0.0/8', '2001:db8::/32'], permissions: ['rpc', 'das', 'webhooks'] });
  const inMonth = Date.now() + 30 * 86_400_000;
  await addKey({ name: 'website', origins: ['https://app.example', 'https://*.app.example'], expiresAt: inMonth });
  const old = await addKey({ name: 'old laptop' });
  await operator.ask('POST', `/dashboard/api/projects/${projectId}/keys/${old.body.id}/revoke`);
}

async function makeHooks(): Promise<string> {
  const ids: string[] = [];
  for (const [path, type] of [
    ['orders?shop=main&region=europe-west', 'enhanced'],
    ['broken', 'raw'],
    ['gone', 'raw'],
  ] as const) {
    const response = await fetch(`${apiUrl}/v0/webhooks?api-key=${key}`, {
      method: 'POST',
      body: JSON.stringify({
        webhookURL: `${receiver.url}/${path}`,
        webhookType: type,
        transactionTypes: ['ANY'],
        accountAddresses: watched.map(({ publicKey }) => publicKey.toBase58()),
      }),
    });
    ids.push(((await response.json()) as { webhookID: string }).webhookID);
  }
  return ids[0] as string;
}

async function payOn(): Promise<void> {
  for (let turn = 0; !stopped.signal.aborted; turn += 1) {
    await new Promise((done) => setTimeout(done, 300));
    const to = watched[turn % watched.length] as Keypair;
    const transfer = SystemProgram.transfer({
      fromPubkey: payer.publicKey,
      toPubkey: to.publicKey,
      lamports: 1_000_000 + turn,
    });
    await sendAndConfirmTransaction(chain.connection, new Transaction().add(transfer), [payer]).catch(() => undefined);
  }
}

async function callOn(): Promise<void> {
  const rpc = (method: string, params: unknown = []) =>
    fetch(`${apiUrl}/?api-key=${key}`, {
      method: 'POST',
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    });
  const address = (watched[0] as Keypair).publicKey.toBase58();
  const calls = [
    () => rpc('getSlot'),
    () => rpc('getBalance', [address]),
    () => rpc('getPriorityFeeEstimate', [{ accountKeys: [address] }]),
    () => rpc('noSuchMethod'),
    () => fetch(`${apiUrl}/v1/wallet/${address}/history?api-key=${key}`),
    () => fetch(`${apiUrl}/v1/wallet/not-an-address/history?api-key=${key}`),
    () => fetch(`${apiUrl}/v0/webhooks?api-key=${key}`),
  ];
  for (let turn = 0; !stopped.signal.aborted; turn += 1) {
    const response = await (calls[turn % calls.length] as (typeof calls)[number])();
    await response.arrayBuffer();
    await new Promise((done) => setTimeout(done, 60));
  }
}

interface Picture {
  readonly name: string;
  readonly path: string;
  /** What is done before the picture is taken. */
  prepare?(page: Page): Promise<unknown>;
}

async function pagesOf(id: string): Promise<readonly Picture[]> {
  const ofProject = `p/${projectId}`;
  const hookPath = `${ofProject}/webhooks/${id}`;
  const { body } = await operator.ask('POST', `/dashboard/api/projects/${projectId}/webhooks`, {
    method: 'GET',
    path: `/v0/webhooks/${id}/deliveries`,
  });
  const delivery = body.data[0]?.deliveryId as string;
  const press = (name: RegExp | string) => (page: Page) => page.getByRole('button', { name }).first().click();
  return [
    { name: 'overview', path: 'overview' },
    { name: 'overview-24h', path: 'overview?range=24h' },
    { name: 'webhooks', path: `${ofProject}/webhooks` },
    { name: 'webhook-new', path: `${ofProject}/webhooks`, prepare: press('New webhook') },
    {
      name: 'webhook-parsed',
      path: `${ofProject}/webhooks`,
      async prepare(page) {
        await press('New webhook')(page);
        await page.getByLabel('Type', { exact: true }).selectOption('parsed');
      },
    },
    { name: 'webhook-notifications', path: `${ofProject}/webhooks`, prepare: press('Notifications…') },
    { name: 'deliveries', path: hookPath },
    { name: 'delivery', path: `${hookPath}/deliveries/${delivery}` },
    { name: 'keys', path: `${ofProject}/keys` },
    { name: 'key-new', path: `${ofProject}/keys`, prepare: press('New key') },
    { name: 'usage', path: `${ofProject}/usage` },
    { name: 'requests', path: `${ofProject}/requests` },
    { name: 'look-up-wallet', path: `${ofProject}/look-up/${payer.publicKey.toBase58()}` },
    { name: 'look-up-nfts', path: `${ofProject}/look-up/${encode32(new Uint8Array(32).fill(COLLECTOR))}` },
    { name: 'look-up-asset', path: `${ofProject}/look-up/${encode32(assetId(TREE, 3n))}` },
    { name: 'look-up-token', path: `${ofProject}/look-up/${token}` },
    { name: 'look-up-unused', path: `${ofProject}/look-up/${Keypair.generate().publicKey.toBase58()}` },
    { name: 'transaction', path: `${ofProject}/look-up/${opened}` },
    { name: 'transaction-failed', path: `${ofProject}/look-up/${failed}` },
    { name: 'interfaces', path: `${ofProject}/interfaces/${TOKEN_PROGRAM_ID.toBase58()}` },
    { name: 'interface-new', path: `${ofProject}/interfaces`, prepare: press('Upload an interface') },
    { name: 'projects', path: 'projects' },
    { name: 'projects-menu', path: 'projects', prepare: press(/^Actions for An internal/) },
    { name: 'operator-new', path: 'operators', prepare: press('New operator') },
    ...['gaps', 'wallets', 'trees', 'plugins', 'config', 'operators', 'audit', 'shadow'].map((path) => ({
      name: path,
      path,
    })),
    { name: 'not-found', path: 'nowhere' },
  ];
}

/** Pages of each kind outside of the dashboard. */
function publicPages(): readonly (readonly [name: string, address: string])[] {
  return [
    ['home', adminUrl],
    ['reference', `${apiUrl}/docs`],
    ['reference-operation', `${apiUrl}/docs#tag/webhooks/POST/v0/webhooks`],
    ...['index', 'first-webhook', 'operators', 'webhooks', 'configuration', 'metrics', 'errors'].map(
      (page) => [`guide-${page}`, `${apiUrl}/docs/guide/${page}.html`] as const,
    ),
  ];
}

async function takePublic(browser: Browser): Promise<void> {
  for (const colorScheme of THEMES)
    for (const width of WIDTHS) {
      const page = await browser.newPage({ colorScheme, viewport: { width, height: HEIGHT }, reducedMotion: 'reduce' });
      for (const [name, address] of publicPages().filter(([one]) => isWanted(one))) {
        await page.goto('about:blank');
        await page.goto(address);
        await page.locator('h1').first().waitFor();
        await page.waitForTimeout(2 * SETTLE_MS);
        await page.screenshot({ path: join(output, `${name}-${width}-${colorScheme}.png`) });
      }
      await page.close();
    }
}

async function takeAll(pictures: readonly Picture[]): Promise<void> {
  const browser = await startChromium();
  await takePublic(browser);
  for (const colorScheme of THEMES)
    for (const width of WIDTHS) {
      const { page } = await openPage(browser, bed, { colorScheme, viewport: { width, height: HEIGHT } });
      const take = (name: string) =>
        page.screenshot({ path: join(output, `${name}-${width}-${colorScheme}.png`), fullPage: true });
      await page.getByRole('heading', { level: 1, name: 'Log in' }).waitFor();
      if (values.only === '') await take('login');
      await logIn(page);
      for (const { name, path, prepare } of pictures.filter((one) => isWanted(one.name))) {
        await page.goto(`${adminUrl}/dashboard#/${path}`);
        await page.locator('main h1').waitFor();
        await page.locator('main .skeleton').first().waitFor({ state: 'detached' });
        await prepare?.(page);
        await page.waitForTimeout(SETTLE_MS);
        await take(name);
        const overflow = (await page.evaluate('document.documentElement.scrollWidth - innerWidth')) as number;
        if (overflow > 0) tooWide.add(`${name} at ${width}: ${overflow} px`);
        // An open dialog would stay above the next page.
        if (prepare !== undefined) await page.keyboard.press('Escape');
      }
      await page.context().close();
      if (!isWanted('overview-owner')) continue;
      const owner = await openPage(browser, bed, { colorScheme, viewport: { width, height: HEIGHT } });
      await logInAsOwner(owner.page, projectId, ownerSecret.body.secret);
      await owner.page.locator('main .skeleton').first().waitFor({ state: 'detached' });
      await owner.page.waitForTimeout(SETTLE_MS);
      const path = join(output, `overview-owner-${width}-${colorScheme}.png`);
      await owner.page.screenshot({ path, fullPage: true });
      await owner.page.context().close();
    }
  await browser.close();
}
