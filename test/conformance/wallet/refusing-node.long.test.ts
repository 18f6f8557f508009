/** While the first upstream refuses everything for a reason of its own, each product that reads histories answers from the second one. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';
import { type NodeEntry, paymentResult, startWalletNode, type WalletNode } from '../../helpers/wallet-node.ts';
import { OF_THE_NODE } from '../proxy/refusal-rows.ts';

const NATIVE = 'So11111111111111111111111111111111111111111';
const TIP = 2_000;
const newKey = () => encode32(new Uint8Array(randomBytes(32)));

/** Signature of the only transaction, by slot. */
const blocks = new Map<number, string>();

/** A wallet that nobody has asked for yet, which got a lamport in each of two blocks. */
function newWallet(node: WalletNode) {
  const [wallet, sender] = [newKey(), newKey()];
  const entries = [0, 1].map((at) => {
    const slot = blocks.size + 100;
    const signature = encode64(new Uint8Array(randomBytes(64)));
    const entry: NodeEntry = { signature, slot, err: null, blockTime: 1_700_000_000 + slot };
    const before = { from: 1_000_000_000, to: at };
    blocks.set(slot, signature);
    node.transactions.set(signature, paymentResult({ entry, from: sender, to: wallet, lamports: 1, before }));
    return entry;
  });
  node.lists.set(wallet, entries.toReversed());
  const [oldest, newest] = entries as [NodeEntry, NodeEntry];
  return { wallet, sender, oldest, newest: newest.signature };
}

type Wallet = ReturnType<typeof newWallet>;

interface Product {
  readonly path: (wallet: Wallet) => string;
  readonly body?: (wallet: Wallet) => object;
  readonly has: (wallet: Wallet) => RegExp;
}

const rpc = (method: string, params: unknown) => ({ jsonrpc: '2.0', id: 1, method, params });

const PRODUCTS: Readonly<Record<string, Product>> = {
  history: {
    path: ({ wallet }) => `/v1/wallet/${wallet}/history`,
    has: ({ newest, oldest }) => new RegExp(`"signature":"${newest}".*"signature":"${oldest.signature}"`, 's'),
  },
  transfers: {
    path: ({ wallet }) => `/v1/wallet/${wallet}/transfers`,
    has: ({ newest, sender }) => new RegExp(`"signature":"${newest}".*"counterparty":"${sender}"`, 's'),
  },
  'funded-by': {
    path: ({ wallet }) => `/v1/wallet/${wallet}/funded-by`,
    has: ({ sender, oldest }) => new RegExp(`"funder":"${sender}".*"slot":${oldest.slot}\\b`, 's'),
  },
  'balance-at': {
    path: ({ wallet, oldest: { slot } }) => `/v1/wallet/${wallet}/balance-at?mint=${NATIVE}&slot=${slot}`,
    has: () => /"balanceRaw":"1"/,
  },
  getTransfersByAddress: {
    path: () => '/',
    body: ({ wallet }) => rpc('getTransfersByAddress', [wallet]),
    has: ({ newest, sender }) => new RegExp(`"result":.*(${newest}.*${sender}|${sender}.*${newest})`, 's'),
  },
  getTransactionsForAddress: {
    path: () => '/',
    body: ({ wallet }) => rpc('getTransactionsForAddress', [wallet]),
    has: ({ newest }) => new RegExp(`"result":.*"${newest}"`, 's'),
  },
};

test('every product of histories, every refusal about the node', async (t) => {
  const [first, second] = [await startUpstream(), await startWalletNode()];
  // Otherwise the first one would be too far behind to be asked.
  for (const upstream of [first, second]) {
    upstream.on('getSlot', { result: String(TIP) });
    upstream.on('getFirstAvailableBlock', { result: '0' });
  }
  second.on('getBlock', ({ params }) => {
    const [slot] = params as [number];
    const key = '1'.repeat(32);
    return {
      result: JSON.stringify({
        blockhash: key,
        previousBlockhash: key,
        parentSlot: slot - 1,
        blockHeight: slot,
        blockTime: 1_700_000_000 + slot,
        signatures: [blocks.get(slot)],
      }),
    };
  });
  const daemon = await startDaemon({
    config: {
      plugins: ['access', 'history', 'token-metadata', 'wallet'],
      upstream: { urls: [first.url, second.url], healthIntervalMs: 3_600_000, coolDownMs: 1 },
      follow: { enabled: false },
    },
  });
  t.after(async () => {
    await daemon.stop();
    await Promise.all([first.stop(), second.stop()]);
  });
  async function check({ path, body, has }: Product, named: string): Promise<void> {
    const wallet = newWallet(second);
    const address = `${daemon.apiUrl}${path(wallet)}${path(wallet).includes('?') ? '&' : '?'}api-key=${daemon.key}`;
    const given = body?.(wallet);
    const init =
      given === undefined
        ? {}
        : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(given) };
    let status = 0;
    let text = '';
    // While a wallet is read for the first time it may ask for patience.
    await until(async () => {
      const response = await fetch(address, init);
      status = response.status;
      text = await response.text();
      return status !== 503 || !response.headers.has('retry-after');
    }, `${named}: ${text}`);
    assert.equal(status, 200, `${named}: ${text}`);
    assert.match(text, has(wallet), named);
  }

  for (const [code, message] of OF_THE_NODE) {
    let refused = 0;
    first.on('*', ({ id }) => {
      refused += 1;
      return { chunks: [JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } })] };
    });
    for (const [name, product] of Object.entries(PRODUCTS)) {
      const before = refused;
      const named = `${name} ${code} ${message}`;
      // One that is limited is the last choice for a second.
      await until(async () => {
        await check(product, named);
        return refused > before;
      }, `${named}: the first upstream is asked`);
    }
  }
});
