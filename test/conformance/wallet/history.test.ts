import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { loadPackage } from '../../helpers/packages.ts';
import { type HistoryItem, type Page, type TransferItem, walletClient } from '../../helpers/wallet-client.ts';
import { type NodeEntry, paymentResult, startWalletNode, type WalletNode } from '../../helpers/wallet-node.ts';

const sdk = await loadPackage('helius-sdk', () => import('helius-sdk'));

const NATIVE = 'So11111111111111111111111111111111111111111';
const WRAPPED = 'So11111111111111111111111111111111111111112';

let node: WalletNode;
let daemon: DaemonInProcess;

before(async () => {
  node = await startWalletNode(37);
  daemon = await startDaemon({
    chain: { rpcUrl: node.url },
    config: {
      plugins: ['access', 'token-metadata', 'wallet'],
      follow: { enabled: false },
      wallet: { readThroughMs: 2_000 },
    },
  });
});
after(async () => {
  await daemon.stop();
  await node.stop();
});

const newKey = () => encode32(new Uint8Array(randomBytes(32)));
const newSignature = () => encode64(new Uint8Array(randomBytes(64)));

/** `count` payments of 1, 2, 3 … lamports, oldest first in their amounts; several share a slot. */
function giveHistory(count: number, failed: (at: number) => boolean = () => false) {
  const [wallet, sender] = [newKey(), newKey()];
  let balance = 0;
  const entries = Array.from({ length: count }, (_, at): NodeEntry => {
    const slot = 1_000 + Math.floor(at / 3);
    const err = failed(at) ? { InstructionError: [2, { Custom: 6_001 }] } : null;
    const entry = { signature: newSignature(), slot, err, blockTime: 1_700_000_000 + slot };
    const lamports = at + 1;
    node.transactions.set(
      entry.signature,
      paymentResult({ entry, from: sender, to: wallet, lamports, before: { from: 1_000_000_000, to: balance } }),
    );
    if (err === null) balance += lamports;
    return entry;
  });
  const list = entries.toReversed();
  node.lists.set(wallet, list);
  return { wallet, sender, list, balance };
}

test('a list that a node pages in its own way is given whole, in its order', async () => {
  const { wallet, list } = giveHistory(130, (at) => at % 5 === 1);
  const client = walletClient(daemon);
  const signatures = list.map(({ signature }) => signature);
  for (const limits of [[100], [1, 13, 50]]) {
    const items = await client.all<HistoryItem>(`${wallet}/history`, 'before', limits);
    assert.deepEqual(
      items.map(({ signature }) => signature),
      signatures,
    );
  }
  const [first] = (await client.get<{ data: HistoryItem[] }>(`${wallet}/history?limit=1`)).data;
  assert.deepEqual(
    { ...first, signature: '', feePayer: '' },
    {
      signature: '',
      feePayer: '',
      timestamp: 1_700_001_043,
      slot: 1_043,
      fee: 0.000005,
      error: null,
      balanceChanges: [{ mint: 'SOL', amount: 1.3e-7, decimals: 9 }],
    },
  );
  const failed = (await client.get<{ data: HistoryItem[] }>(`${wallet}/history?limit=100`)).data.filter(
    ({ error }) => error !== null,
  );
  assert.equal(failed[0]?.error, '{"InstructionError":[2,{"Custom":6001}]}');
  assert.deepEqual(failed[0]?.balanceChanges, []);
});

test('rows between two cursors, and from one upwards', async () => {
  const { wallet, list } = giveHistory(20);
  const client = walletClient(daemon);
  const at = (place: number) => list[place]?.signature as string;
  const signaturesOf = (page: { data: readonly HistoryItem[] }) => page.data.map(({ signature }) => signature);
  const between = await client.get<{ data: HistoryItem[]; pagination: unknown }>(
    `${wallet}/history?before=${at(3)}&after=${at(9)}`,
  );
  assert.deepEqual(
    signaturesOf(between),
    list.slice(4, 9).map(({ signature }) => signature),
  );
  assert.deepEqual(between.pagination, { hasMore: false, nextCursor: null });
  const upwards = await client.get<{ data: HistoryItem[]; pagination: unknown }>(
    `${wallet}/history?after=${at(9)}&limit=4`,
  );
  assert.deepEqual(signaturesOf(upwards), [at(8), at(7), at(6), at(5)]);
  assert.deepEqual(upwards.pagination, { hasMore: true, nextCursor: at(5) });
});

test('transfers, first funding and balances in the past', async () => {
  const { wallet, sender, list, balance } = giveHistory(12, (at) => at < 2);
  const client = walletClient(daemon);
  const transfers = await client.all<TransferItem>(`${wallet}/transfers`, 'cursor', [3, 1]);
  assert.deepEqual(
    transfers.map(({ amountRaw }) => amountRaw),
    ['12', '11', '10', '9', '8', '7', '6', '5', '4', '3'],
  );
  assert.deepEqual(transfers[0], {
    signature: list[0]?.signature,
    timestamp: 1_700_001_003,
    direction: 'in',
    counterparty: sender,
    mint: WRAPPED,
    symbol: 'SOL',
    amount: 1.2e-8,
    amountRaw: '12',
    decimals: 9,
  });
  const { signature } = list.at(-3) as NodeEntry;
  assert.deepEqual(await client.get(`${wallet}/funded-by`), {
    funder: sender,
    funderName: null,
    funderType: null,
    mint: WRAPPED,
    symbol: 'SOL',
    amount: 3e-9,
    amountRaw: '3',
    decimals: 9,
    signature,
    timestamp: 1_700_001_000,
    date: '2023-11-14T22:30:00.000Z',
    slot: 1_000,
    explorerUrl: `https://orbmarkets.io/tx/${signature}?tab=summary`,
  });
  const now = await client.get<{ balanceRaw: string }>(`${wallet}/balance-at?mint=${NATIVE}&slot=1003`);
  assert.equal(now.balanceRaw, String(balance));
  assert.deepEqual(await client.get(`${wallet}/balance-at?mint=${NATIVE}&datetime=2023-11-14T22:30:01Z`), {
    wallet,
    mint: NATIVE,
    isNative: true,
    balance: '0.000000018',
    balanceRaw: '18',
    decimals: 9,
    requested: { time: 1_700_001_001, slot: null, datetime: '2023-11-14T22:30:01Z' },
    asOf: { slot: 1_001, signature: list[6]?.signature, blockTime: 1_700_001_001 },
  });
  const before = await client.get<{ balance: string; asOf: unknown }>(`${wallet}/balance-at?mint=${NATIVE}&time=1`);
  assert.deepEqual([before.balance, before.asOf], ['0', null]);
});

test('the first funding is looked for from the end of the list', { skip: skipWithoutFixtures }, async () => {
  const { params, result } = readJsonFixture<{ params: [string]; result: NodeEntry[] }>(
    'chain/wallets/7T8ckKtd-signatures.json',
  );
  const wallet = params[0];
  const payer = newKey();
  node.lists.set(wallet, result);
  for (const entry of result)
    node.transactions.set(entry.signature, paymentResult({ entry, from: payer, to: wallet, lamports: 1 }));
  const before = node.fetched().length;
  const client = walletClient(daemon);
  const { signature } = await client.get<{ signature: string }>(`${wallet}/funded-by`);
  assert.equal(signature, result.at(-1)?.signature);
  assert.deepEqual(node.fetched().slice(before), [signature]);
  const items = await client.all<HistoryItem>(`${wallet}/history`, 'before', [100, 33]);
  assert.deepEqual(
    items.map((item) => item.signature),
    result.map((entry) => entry.signature),
  );
  assert.equal(items.filter(({ error }) => error !== null).length, 184);
});

test('a wallet without transactions', async () => {
  const client = walletClient(daemon);
  const wallet = newKey();
  const nothing = { data: [], pagination: { hasMore: false, nextCursor: null } };
  assert.deepEqual(await client.get(`${wallet}/history`), nothing);
  assert.deepEqual(await client.get(`${wallet}/transfers`), nothing);
  const { status, body } = await client.ask(`${wallet}/funded-by`);
  assert.deepEqual([status, body], [404, { error: 'No funding transaction found', code: 404 }]);
});

test('data that the upstream has lost is never omitted silently', async () => {
  const { wallet, list, sender } = giveHistory(5);
  node.on('getFirstAvailableBlock', { result: '1000' });
  try {
    const client = walletClient(daemon);
    const at = (place: number) => list[place]?.signature as string;
    const lost = {
      error: 'Incomplete history',
      code: 503,
      details: 'The upstream node has no data before slot 1000; configure an archive endpoint',
    };
    const first = await client.get<Page<HistoryItem>>(`${wallet}/history?limit=3`);
    assert.deepEqual(first.pagination, { hasMore: true, nextCursor: at(2) });
    const last = await client.get<Page<HistoryItem>>(`${wallet}/history?limit=3&before=${at(2)}`);
    assert.equal(last.data.length, 2);
    assert.deepEqual(last.pagination, { hasMore: true, nextCursor: at(4) });
    for (const path of [
      `history?before=${at(4)}`,
      `transfers?cursor=${at(4)}`,
      'funded-by',
      `balance-at?mint=${NATIVE}&slot=999`,
      `balance-at?mint=${sender}&slot=1000`,
    ]) {
      const { status, body, headers } = await client.ask(`${wallet}/${path}`);
      assert.deepEqual([status, body], [503, lost], path);
      assert.equal(headers.get('retry-after'), null);
    }
    const then = await client.get<{ balanceRaw: string }>(`${wallet}/balance-at?mint=${NATIVE}&slot=1000`);
    assert.equal(then.balanceRaw, '6');
  } finally {
    node.on('getFirstAvailableBlock', { result: '0' });
  }
});

test('a failing node has no effect; started work is finished later', async () => {
  const { wallet, list } = giveHistory(4);
  const client = walletClient(daemon);
  const hidden = node.transactions.get(list[1]!.signature);
  node.transactions.delete(list[1]!.signature);
  const { status, body, headers } = await client.ask(`${wallet}/history`);
  assert.deepEqual([status, (body as { error: string }).error], [503, 'Wallet history is being indexed']);
  assert.equal(headers.get('retry-after'), '5');
  node.transactions.set(list[1]!.signature, hidden);
  const { data } = await client.get<Page<HistoryItem>>(`${wallet}/history`);
  assert.deepEqual(
    data.map(({ signature }) => signature),
    list.map(({ signature }) => signature),
  );
});

test('refusals', async () => {
  const { wallet } = giveHistory(3);
  const client = walletClient(daemon);
  const mint = `mint=${NATIVE}`;
  for (const [path, error, details] of [
    ['history?before=abc', 'Invalid cursor', 'a cursor is a transaction signature'],
    [`history?before=${newSignature()}`, 'Invalid cursor', 'signature not found'],
    ['history?type=NONSENSE', 'Invalid type', "'NONSENSE' is no transaction type"],
    ['history?limit=101', 'Invalid query parameter', undefined],
    ['history?tokenAccounts=some', 'Invalid query parameter', undefined],
    ['transfers?cursor=x', 'Invalid cursor', undefined],
    ['transfers?limit=0', 'Invalid query parameter', undefined],
    [`balance-at?${mint}`, 'Invalid time parameter', 'exactly one of time, datetime or slot is required'],
    [`balance-at?${mint}&time=1&slot=1`, 'Invalid time parameter', 'exactly one of time, datetime or slot is required'],
    ['balance-at?time=1', 'Invalid mint address', 'mint is required'],
    ['balance-at?time=1&mint=abc', 'Invalid mint address', "'abc' is not a valid Solana address"],
    [`balance-at?${mint}&datetime=2025-02-30`, 'Invalid datetime', undefined],
    [
      `balance-at?${mint}&time=99999999999`,
      'Invalid time parameter',
      'the requested time is in the future; time is in unix seconds',
    ],
    [
      `balance-at?${mint}&slot=500000001`,
      'Invalid time parameter',
      'slot 500000001 is in the future; the newest slot is 500000000',
    ],
  ] as const) {
    const { status, body } = await client.ask(`${wallet}/${path}`);
    const { error: text, details: more, code } = body as { error: string; details?: string; code: number };
    assert.deepEqual([status, code, text], [400, 400, error], path);
    if (details !== undefined) assert.equal(more, details);
  }
  for (const route of ['history', 'transfers', 'funded-by', `balance-at?${mint}&slot=1`])
    assert.deepEqual(await client.ask(`toly.sol/${route}`).then(({ status, body }) => [status, body]), [
      400,
      { error: 'Invalid wallet address', code: 400, details: "'toly.sol' is not a valid Solana address" },
    ]);
});

test('an unmodified client', { skip: sdk.skip }, async () => {
  const { wallet, sender, list } = giveHistory(5);
  const restore = redirectHostedClients(daemon.apiUrl);
  try {
    const client = sdk.module.createHelius({ apiKey: daemon.key }).wallet;
    const history = await client.getHistory({ wallet, limit: 2 });
    assert.deepEqual(
      history.data.map(({ signature }: { signature: string }) => signature),
      list.slice(0, 2).map(({ signature }) => signature),
    );
    const more = await client.getHistory({ wallet, before: history.pagination.nextCursor as string });
    assert.equal(more.data.length, 3);
    const transfers = await client.getTransfers({ wallet, limit: 4 });
    assert.deepEqual([transfers.data.length, transfers.pagination.hasMore], [4, true]);
    const rest = await client.getTransfers({ wallet, cursor: transfers.pagination.nextCursor as string });
    assert.equal(rest.data.length, 1);
    assert.equal((await client.getFundedBy({ wallet }))?.funder, sender);
  } finally {
    restore();
  }
});
