/** A fork may put the same transaction into another block of the same slot: what was read of the first block is shown no longer. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import { startDaemon } from '../../helpers/daemon.ts';
import { type HistoryItem, type Page, walletClient } from '../../helpers/wallet-client.ts';
import { type NodeEntry, paymentResult, startWalletNode } from '../../helpers/wallet-node.ts';

const FINAL = 1_900;
const TIP = 2_000;

test('a transaction that a fork moved to another block of its slot has the time of that block', async (t) => {
  const node = await startWalletNode();
  t.after(() => node.stop());
  const [wallet, sender] = [1, 2].map(() => encode32(new Uint8Array(randomBytes(32)))) as [string, string];
  const signature = encode64(new Uint8Array(randomBytes(64)));
  node.on('getSlot', ({ params }) => {
    const [config] = params as [{ readonly commitment?: string } | undefined];
    return { result: String(config?.commitment === 'confirmed' ? TIP : FINAL) };
  });
  const show = (blockTime: number | null) => {
    const entry: NodeEntry = { signature, slot: TIP - 5, err: null, blockTime };
    node.lists.set(wallet, [entry]);
    node.transactions.set(signature, paymentResult({ entry, from: sender, to: wallet, lamports: 1 }));
  };
  const daemon = await startDaemon({
    config: {
      plugins: ['access', 'token-metadata', 'wallet'],
      follow: { enabled: false },
      wallet: { readThroughMs: 10_000 },
      upstream: { urls: [node.url] },
    },
  });
  t.after(() => daemon.stop());
  for (const time of [1_700_000_000, 1_700_000_007, null]) {
    show(time);
    const { data } = await walletClient(daemon).get<Page<HistoryItem>>(`${wallet}/history`);
    assert.deepEqual(
      data.map(({ slot, timestamp }) => [slot, timestamp]),
      [[TIP - 5, time]],
    );
  }
});
