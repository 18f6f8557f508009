/** Histories of which a node has forgotten a part: nothing is left out silently, and an archive has it all. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import { type StartDaemonOptions, startDaemon } from '../../helpers/daemon.ts';
import { type HistoryItem, type Page, type WalletClient, walletClient } from '../../helpers/wallet-client.ts';
import { type NodeEntry, paymentResult, startWalletNode, type WalletNode } from '../../helpers/wallet-node.ts';

const NATIVE = 'So11111111111111111111111111111111111111111';
const newKey = () => encode32(new Uint8Array(randomBytes(32)));
const newSignature = () => encode64(new Uint8Array(randomBytes(64)));
const lost = (slot: number) => ({
  error: 'Incomplete history',
  code: 503,
  details: `The upstream node has no data before slot ${slot}; configure an archive endpoint`,
});

/** One payment of a lamport in each of these slots. */
function paymentsAt(slots: readonly number[]) {
  const [wallet, sender] = [newKey(), newKey()];
  const payments = slots.map((slot, at) => {
    const entry: NodeEntry = { signature: newSignature(), slot, err: null, blockTime: 1_700_000_000 + slot };
    const before = { from: 1_000_000_000, to: at };
    return { entry, result: paymentResult({ entry, from: sender, to: wallet, lamports: 1, before }) };
  });
  return { wallet, sender, payments };
}

type Payments = ReturnType<typeof paymentsAt>;

/** What a node at `tip` has that has forgotten everything below `first`. */
function show(node: WalletNode, { wallet, payments }: Payments, { tip, first }: { tip: number; first: number }): void {
  const kept = payments.filter(({ entry: { slot } }) => slot >= first && slot <= tip);
  node.lists.set(wallet, kept.map(({ entry }) => entry).reverse());
  for (const { entry } of payments) node.transactions.delete(entry.signature);
  for (const { entry, result } of kept) node.transactions.set(entry.signature, result);
  node.on('getSlot', { result: String(tip) });
  node.on('getFirstAvailableBlock', { result: String(first) });
}

async function startNode(t: TestContext): Promise<WalletNode> {
  const node = await startWalletNode();
  t.after(() => node.stop());
  return node;
}

function newFolder(t: TestContext): string {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-archive-'));
  t.after(() => rm(dataDir, { recursive: true, force: true }));
  return dataDir;
}

const start = (urls: readonly unknown[], options: StartDaemonOptions = {}) =>
  startDaemon({
    ...options,
    config: {
      plugins: ['access', 'token-metadata', 'wallet'],
      follow: { enabled: false },
      wallet: { readThroughMs: 2_000 },
      upstream: { urls },
    },
  });

const historyOf = (client: WalletClient, wallet: string) =>
  client.all<HistoryItem>(`${wallet}/history`, 'before', [2]).then((items) => items.map(({ slot }) => slot));

test('the past is requested from an archive, and from no other node', async (t) => {
  const [node, archive] = [await startNode(t), await startNode(t)];
  const payments = paymentsAt([100, 200, 1_500, 1_600]);
  show(node, payments, { tip: 2_000, first: 1_000 });
  show(archive, payments, { tip: 2_000, first: 0 });
  const daemon = await start([node.url, { url: archive.url, archive: true }]);
  t.after(() => daemon.stop());
  const client = walletClient(daemon);
  assert.deepEqual(await historyOf(client, payments.wallet), [1_600, 1_500, 200, 100]);
  const funding = await client.get<{ slot: number }>(`${payments.wallet}/funded-by`);
  assert.equal(funding.slot, 100);
  const { balanceRaw } = await client.get<{ balanceRaw: string }>(
    `${payments.wallet}/balance-at?mint=${NATIVE}&slot=300`,
  );
  assert.equal(balanceRaw, '2');
  for (const method of ['getSignaturesForAddress', 'getTransaction', 'getFirstAvailableBlock'])
    assert.equal(node.callsOf(method).length, 0, method);
  // An archive that is not there is no reason to believe another node's shorter list.
  await archive.down();
  const other = paymentsAt([1_700]);
  show(node, other, { tip: 2_000, first: 1_000 });
  const { status, headers } = await client.ask(`${other.wallet}/history`);
  assert.deepEqual([status, headers.has('retry-after')], [503, true]);
});

test('an archive that is added later fills what was missing', async (t) => {
  const [node, archive, dataDir] = [await startNode(t), await startNode(t), newFolder(t)];
  const payments = paymentsAt([100, 200, 1_500, 1_600]);
  show(node, payments, { tip: 2_000, first: 1_000 });
  show(archive, payments, { tip: 2_000, first: 0 });
  const { wallet } = payments;
  const first = await start([node.url], { dataDir, key: 'archive-key' });
  const page = await walletClient(first).get<Page<HistoryItem>>(`${wallet}/history`);
  assert.deepEqual(
    page.data.map(({ slot }) => slot),
    [1_600, 1_500],
  );
  const rest = await walletClient(first).ask(`${wallet}/history?before=${page.pagination.nextCursor}`);
  assert.deepEqual([rest.status, rest.body], [503, lost(1_000)]);
  await first.stop();

  // A quarter of an hour later, when it is worth asking again.
  const then = await start([node.url, { url: archive.url, archive: true }], {
    dataDir,
    key: 'archive-key',
    parts: (parts) => ({ ...parts, clock: { ...parts.clock, now: () => parts.clock.now() + 900_000 } }),
  });
  t.after(() => then.stop());
  assert.deepEqual(await historyOf(walletClient(then), wallet), [1_600, 1_500, 200, 100]);
});

test('data that was pruned between two requests is reported as missing', async (t) => {
  const [node, archive, dataDir] = [await startNode(t), await startNode(t), newFolder(t)];
  const payments = paymentsAt([100, 200, 1_500, 3_000, 3_100]);
  const { wallet } = payments;
  show(node, payments, { tip: 1_000, first: 0 });
  const daemon = await start([node.url], { dataDir, key: 'archive-key' });
  const client = walletClient(daemon);
  assert.deepEqual(await historyOf(client, wallet), [200, 100]);

  show(node, payments, { tip: 4_000, first: 2_000 });
  const page = await client.get<Page<HistoryItem>>(`${wallet}/history`);
  assert.deepEqual(
    page.data.map(({ slot }) => slot),
    [3_100, 3_000],
  );
  assert.equal(page.pagination.hasMore, true);
  for (const path of [
    `history?before=${page.pagination.nextCursor}`,
    `transfers?cursor=${page.pagination.nextCursor}`,
    'funded-by',
    `balance-at?mint=${NATIVE}&slot=2500`,
    `balance-at?mint=${NATIVE}&time=1700000250`,
  ]) {
    const { status, body } = await client.ask(`${wallet}/${path}`);
    assert.deepEqual([status, body], [503, lost(2_000)], path);
  }
  await daemon.stop();

  show(archive, payments, { tip: 4_000, first: 0 });
  const then = await start([{ url: archive.url, archive: true }, node.url], {
    dataDir,
    key: 'archive-key',
    parts: (parts) => ({ ...parts, clock: { ...parts.clock, now: () => parts.clock.now() + 900_000 } }),
  });
  t.after(() => then.stop());
  assert.deepEqual(await historyOf(walletClient(then), wallet), [3_100, 3_000, 1_500, 200, 100]);
});

test('a token account that is silent above what is lost makes the sum unknown', async (t) => {
  const node = await startNode(t);
  const payments = paymentsAt([1_500]);
  const { wallet } = payments;
  show(node, payments, { tip: 2_000, first: 1_000 });
  const [mint, spoken, silent] = [newKey(), newKey(), newKey()];
  const result = payments.payments[0]?.result as {
    transaction: { message: { accountKeys: string[] } };
    meta: { preBalances: number[]; postBalances: number[]; preTokenBalances: unknown[]; postTokenBalances: unknown[] };
  };
  result.transaction.message.accountKeys.push(spoken);
  result.meta.preBalances.push(1);
  result.meta.postBalances.push(1);
  const uiTokenAmount = { amount: '7', decimals: 0, uiAmount: 7, uiAmountString: '7' };
  for (const list of [result.meta.preTokenBalances, result.meta.postTokenBalances])
    list.push({ accountIndex: 3, mint, owner: wallet, uiTokenAmount });
  const owned =
    (accounts: readonly string[]) =>
    ({ params }: { params: unknown }) => {
      const isToken = JSON.stringify(params).includes('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA');
      const data = { parsed: { info: { mint } } };
      const value = isToken ? accounts.map((pubkey) => ({ pubkey, account: { data } })) : [];
      return { result: JSON.stringify({ context: { slot: 1 }, value }) };
    };
  const path = `${wallet}/balance-at?mint=${mint}&slot=1600`;
  for (const [accounts, status] of [
    [[spoken], 200],
    [[spoken, silent], 503],
  ] as const) {
    node.on('getTokenAccountsByOwner', owned(accounts));
    const daemon = await start([node.url]);
    const client = walletClient(daemon);
    if (status === 200) assert.equal((await client.get<{ balanceRaw: string }>(path)).balanceRaw, '7');
    else {
      await client.get(`${wallet}/history`);
      const refused = await client.ask(path);
      assert.deepEqual([refused.status, refused.body], [503, lost(1_000)]);
    }
    await daemon.stop();
  }
});
