/** A list is read page by page, each below the last entry of the one before. A fork between two pages may take that entry: nothing is left out. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { type HistoryItem, type Page, walletClient } from '../../helpers/wallet-client.ts';
import { type NodeEntry, paymentResult, startWalletNode } from '../../helpers/wallet-node.ts';

const FINAL = 1_900;
const TIP = 2_000;
const AT_ONCE = 4;
const COUNT = 10;

interface Options {
  readonly commitment: string;
  readonly limit: number;
  readonly before?: string;
}

test('a fork that takes the place where a list goes on loses nothing', async (t) => {
  const node = await startWalletNode();
  t.after(() => node.stop());
  const [wallet, sender] = [1, 2].map(() => encode32(new Uint8Array(randomBytes(32)))) as [string, string];
  node.on('getSlot', ({ params }) => {
    const [config] = params as [{ readonly commitment?: string } | undefined];
    return { result: String(config?.commitment === 'confirmed' ? TIP : FINAL) };
  });
  const entryAt = (slot: number): NodeEntry => {
    const entry = { signature: encode64(new Uint8Array(randomBytes(64))), slot, err: null, blockTime: 1_700_000_000 };
    node.transactions.set(entry.signature, paymentResult({ entry, from: sender, to: wallet, lamports: 1 }));
    return entry;
  };
  const old = Array.from({ length: COUNT }, (_, at) => entryAt(TIP - 2 * at));
  // The new branch has other transactions in the newest slots.
  const branch = old.map((entry, at) => (at < AT_ONCE ? entryAt(entry.slot) : entry));
  let list = old;
  let [pages, refused] = [0, 0];
  node.on('getSignaturesForAddress', ({ params, id }) => {
    const [, { commitment, before, limit }] = params as [string, Options];
    if (commitment !== 'confirmed') return { result: '[]' };
    const place = list.findIndex(({ signature }) => signature === before);
    if (before !== undefined && place < 0) {
      refused += 1;
      const error = { code: -32_020, message: `Transaction ${before} not found` };
      return { chunks: [JSON.stringify({ jsonrpc: '2.0', error, id })] };
    }
    const page = list.slice(place + 1, place + 1 + Math.min(AT_ONCE, limit));
    if (before === undefined && limit > 1 && pages++ > 0) list = branch;
    return { result: JSON.stringify(page) };
  });
  const daemon = await startDaemon({
    config: {
      plugins: ['access', 'token-metadata', 'wallet'],
      follow: { enabled: false },
      wallet: { readThroughMs: 10_000 },
      upstream: { urls: [node.url] },
    },
  });
  t.after(() => daemon.stop());
  const { status, body } = await walletClient(daemon).ask(`${wallet}/history?limit=100`);
  const { data } = body as Page<HistoryItem>;
  assert.deepEqual([status, refused], [200, 1], JSON.stringify(body));
  assert.deepEqual(
    data.map(({ signature }) => signature),
    branch.map(({ signature }) => signature),
  );
});
