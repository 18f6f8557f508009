/** What one project can make the index of wallets read and store. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import type { BudgetUse } from '../../../src/ports/access.ts';
import { runCommand, type StartDaemonOptions, startDaemon, type TestDaemon } from '../../helpers/daemon.ts';
import { bySeed } from '../../helpers/run-part.ts';
import { until } from '../../helpers/until.ts';
import type { Behaviour } from '../../helpers/upstream.ts';
import { type HistoryItem, type Page, walletClient } from '../../helpers/wallet-client.ts';
import { type NodeEntry, paymentResult, startWalletNode, type WalletNode } from '../../helpers/wallet-node.ts';

const TIP = 10_000;
const newKey = () => encode32(new Uint8Array(randomBytes(32)));

/** `count` payments to a new wallet, `secondsApart` from each other. */
function showWallet(node: WalletNode, count: number, secondsApart = 60): string {
  const [wallet, from] = [newKey(), newKey()];
  const entries = Array.from({ length: count }, (_, at): NodeEntry => {
    const signature = encode64(new Uint8Array(randomBytes(64)));
    return { signature, slot: TIP - at, err: null, blockTime: 1_700_000_000 - Math.round(at * secondsApart) };
  });
  for (const entry of entries)
    node.transactions.set(entry.signature, paymentResult({ entry, from, to: wallet, lamports: 1 }));
  node.lists.set(wallet, entries);
  return wallet;
}

async function startNode(t: TestContext): Promise<WalletNode> {
  const node = await startWalletNode();
  t.after(() => node.stop());
  node.on('getSlot', { result: String(TIP) });
  node.on('getFirstAvailableBlock', { result: '0' });
  return node;
}

interface Options extends StartDaemonOptions {
  readonly budgets?: Readonly<Record<string, number>>;
  readonly wallet?: Readonly<Record<string, unknown>>;
}

/** Its first project has a plan with these budgets. */
async function start(t: TestContext, node: WalletNode, { budgets = {}, wallet = {}, ...options }: Options = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-limits-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const plansFile = join(folder, 'plans.json');
  const plan = {
    creditsLimit: 1_000_000,
    invoiced: false,
    features: { paidWallet: true },
    ratePerSecond: {},
    budgets,
    webhooks: { max: 5, addressesPerWebhook: 10 },
    batch: {},
  };
  writeFileSync(plansFile, JSON.stringify({ plans: { bounded: plan }, burstFactor: 2, paidWalletEndpoints: [] }));
  const daemon = await startDaemon({
    ...options,
    config: {
      plugins: ['access', 'token-metadata', 'wallet'],
      follow: { enabled: false },
      access: { plansFile, defaultPlan: 'bounded', usageFlushMs: 20 },
      wallet: { readThroughMs: 2_000, ...wallet },
      upstream: { urls: [node.url] },
    },
  });
  t.after(() => daemon.stop());
  return daemon;
}

const historyOf = (daemon: TestDaemon, wallet: string) => walletClient(daemon).ask(`${wallet}/history?limit=1`);

async function run<T>(daemon: TestDaemon, ...args: readonly string[]): Promise<T> {
  const { out, err, code } = await runCommand([...args, '--json', '--config', daemon.configFile]);
  assert.equal(code, 0, err);
  return JSON.parse(out) as T;
}

/** A key of another project. */
async function anotherProject(daemon: TestDaemon): Promise<string> {
  const { id } = await run<{ id: string }>(daemon, 'projects', 'create', '--name', 'other', '--plan', 'bounded');
  return (await run<{ key: string }>(daemon, 'keys', 'create', '--project', id)).key;
}

async function walletsOf(daemon: TestDaemon) {
  const reply = await fetch(`${daemon.adminUrl}/v0/admin/wallets`);
  return ((await reply.json()) as { wallets: readonly { address: string; transactions: number; state: string }[] })
    .wallets;
}

test('programs, sysvars and native ids are no wallets', async (t) => {
  const node = await startNode(t);
  const program = newKey();
  node.on('getMultipleAccounts', ({ params }): Behaviour => {
    const value = (params as [string[]])[0].map((key) =>
      key === program ? { executable: true, owner: newKey(), lamports: 1, data: ['', 'base64'], rentEpoch: 0 } : null,
    );
    return { result: JSON.stringify({ context: { slot: TIP }, value }) };
  });
  const daemon = await start(t, node);
  const native = [
    '11111111111111111111111111111111',
    'Vote111111111111111111111111111111111111111',
    'ComputeBudget111111111111111111111111111111',
    'SysvarC1ock11111111111111111111111111111111',
  ];
  for (const address of [...native, program])
    for (const path of ['history', 'transfers', 'funded-by', `balance-at?slot=5&mint=${program}`]) {
      const { status, body } = await walletClient(daemon).ask(`${address}/${path}`);
      const details = 'Programs, sysvars and native ids are not indexed as wallets (WALLET_NOT_A_WALLET)';
      assert.deepEqual([status, body], [400, { error: 'Not a wallet', code: 400, details }], `${address} ${path}`);
    }
  assert.deepEqual(await walletsOf(daemon), []);
  assert.deepEqual(node.fetched(), []);
});

test('an address that is too busy is refused before anything of it is stored', async (t) => {
  const node = await startNode(t);
  const [busy, fast, calm] = [showWallet(node, 1_500, 0.01), showWallet(node, 999, 0.01), showWallet(node, 1_200, 1)];
  const daemon = await start(t, node, { wallet: { readThroughMs: 20_000 } });
  const { status, body } = await historyOf(daemon, busy);
  const { error, details } = body as { error: string; details: string };
  assert.deepEqual([status, error], [400, 'Wallet too busy']);
  assert.match(details, /^The address has about 60\d\d transactions a minute \(WALLET_TOO_BUSY\)$/);
  assert.equal((await walletClient(daemon).ask(`${busy}/funded-by`)).status, 400);
  assert.deepEqual(await walletsOf(daemon), []);
  // A burst that does not fill a page, and a thousand over a quarter of an hour, are nothing.
  for (const wallet of [fast, calm]) assert.equal((await historyOf(daemon, wallet)).status, 200);
});

test('a wallet that turns out too large is given up, and says so', async (t) => {
  const node = await startNode(t);
  const [large, small] = [showWallet(node, 600), showWallet(node, 30)];
  const daemon = await start(t, node, { wallet: { limits: { transactions: 200 } } });
  await historyOf(daemon, large);
  const client = walletClient(daemon);
  let last = await client.ask(`${large}/history`);
  for (let tries = 0; last.status !== 400 && tries < 300; tries += 1) {
    await sleep(100);
    last = await client.ask(`${large}/history`);
  }
  const { error, details } = last.body as { error: string; details: string };
  assert.deepEqual([last.status, error], [400, 'Wallet too large']);
  assert.match(details, /more than \d+ transactions \(WALLET_TOO_LARGE\)$/);
  assert.ok(node.fetched().length < 600, `${node.fetched().length} fetched`);
  const before = node.calls.length;
  assert.equal((await client.ask(`${large}/history`)).status, 400);
  assert.equal(node.callsOf('getTransaction').length, node.fetched().length);
  assert.ok(node.calls.length - before < 3, 'it is not read again');
  assert.equal((await historyOf(daemon, small)).status, 200);
});

test('wallets of a project are bounded by minute and in number; another project has its own room', async (t) => {
  const node = await startNode(t);
  const wallets = Array.from({ length: 6 }, () => showWallet(node, 3));
  const daemon = await start(t, node, { budgets: { newWalletsPerMinute: 3, wallets: 5 } });
  const statuses = [];
  for (const wallet of wallets) statuses.push((await historyOf(daemon, wallet)).status);
  assert.deepEqual(statuses, [200, 200, 200, 429, 429, 429]);
  const { body, headers } = await historyOf(daemon, wallets[3] as string);
  const details = 'The plan starts 3 wallets a minute (WALLET_TOO_MANY_NEW)';
  assert.deepEqual(body, { error: 'Too many wallets', code: 429, details });
  const retryS = Number(headers.get('retry-after'));
  assert.ok(retryS >= 1 && retryS <= 60, `${retryS} s`);
  // Those that are indexed go on.
  assert.equal((await historyOf(daemon, wallets[0] as string)).status, 200);
  assert.equal((await walletsOf(daemon)).length, 3);

  const other = { ...daemon, key: await anotherProject(daemon) };
  // Two that are there already start nothing, and count for both.
  const shared = [];
  for (const wallet of wallets) shared.push((await historyOf(other, wallet)).status);
  assert.deepEqual(shared, [200, 200, 200, 200, 200, 429]);
  const last = await historyOf(other, wallets[5] as string);
  assert.match((last.body as { details: string }).details, /^The plan has room for 5 wallets.*\(WALLET_BUDGET\)$/);
  assert.equal(last.headers.has('retry-after'), false);

  const response = await fetch(`${daemon.adminUrl}/v0/admin/projects/${daemon.projectId}/budgets`);
  const { budgets } = (await response.json()) as { budgets: BudgetUse[] };
  const used = new Map(budgets.map((use) => [use.budget, use]));
  assert.deepEqual(used.get('wallets'), { budget: 'wallets', used: 3, limit: 5, refused: 0 });
  assert.equal(used.get('newWalletsPerMinute')?.refused, 4);
  assert.deepEqual(used.get('storedEvents'), undefined, 'webhooks do not run here');
});

test('the transactions of a project are limited, and a wallet without room is not kept', async (t) => {
  const node = await startNode(t);
  const [first, second, third] = [showWallet(node, 100), showWallet(node, 400), showWallet(node, 5)];
  const daemon = await start(t, node, { budgets: { walletTransactions: 250 } });
  assert.equal((await historyOf(daemon, first)).status, 200);
  const client = walletClient(daemon);
  let last = await client.ask(`${second}/history`);
  for (let tries = 0; last.status !== 429 && tries < 300; tries += 1) {
    await sleep(100);
    last = await client.ask(`${second}/history`);
  }
  assert.equal(last.status, 429);
  assert.match((last.body as { details: string }).details, /\(WALLET_BUDGET\)$/);
  assert.equal((await historyOf(daemon, first)).status, 200);
  assert.equal((await historyOf(daemon, third)).status, 200);
});

test('the call that starts an index is charged though it is answered 503, and no other is', async (t) => {
  const node = await startNode(t);
  const wallet = showWallet(node, 3);
  // The index can't begin: every page takes longer than a request waits.
  node.on('getTransaction', { fault: 'hang' });
  const daemon = await start(t, node, { wallet: { readThroughMs: 300 } });
  const statuses = [];
  for (let at = 0; at < 3; at += 1) statuses.push((await historyOf(daemon, wallet)).status);
  assert.deepEqual(statuses, [503, 503, 503]);
  const url = `${daemon.apiUrl}/v0/admin/projects/${daemon.projectId}/usage`;
  const used = async () => {
    const reply = await fetch(url, { headers: { 'X-Api-Key': daemon.key } });
    return ((await reply.json()) as { creditsUsed: number }).creditsUsed;
  };
  for (let tries = 0; (await used()) === 0 && tries < 50; tries += 1) await sleep(300);
  await sleep(100);
  assert.equal(await used(), 100);
});

bySeed(40, (wallets) =>
  test('a wallet of one project is indexed while another project has hundreds', async (t) => {
    const node = await startNode(t);
    const order: string[] = [];
    const owner = new Map<string, string>();
    node.on('getTransaction', async ({ params }) => {
      await sleep(15);
      const [signature] = params as [string];
      order.push(owner.get(signature) ?? '?');
      return { result: JSON.stringify(node.transactions.get(signature) ?? null) };
    });
    const many = Array.from({ length: Math.max(12, wallets.length) }, () => showWallet(node, 30));
    const victim = showWallet(node, 30);
    for (const wallet of [...many, victim])
      for (const { signature } of node.lists.get(wallet) ?? []) owner.set(signature, wallet);
    const daemon = await start(t, node, { wallet: { readThroughMs: 60_000 } });
    const key = await anotherProject(daemon);
    const asked = many.map((wallet) => historyOf(daemon, wallet));
    await until(() => order.length >= 20);
    const page = walletClient({ ...daemon, key }).get<Page<HistoryItem>>(`${victim}/history`);
    assert.equal((await page).data.length, 30);
    const served = new Set(order.filter((wallet) => wallet !== victim));
    assert.ok(served.size < many.length / 2, `${served.size} of ${many.length} wallets were read before`);
    await Promise.all(asked);
  }),
);
