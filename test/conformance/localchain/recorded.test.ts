import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { chainMissing, startChain } from '../../helpers/chain.ts';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';

interface Recording {
  readonly signature: string;
  readonly getTransaction?: Recorded & { readonly result?: Recorded };
}

interface Recorded {
  readonly transaction: { readonly signatures: string[]; readonly message: Record<string, unknown> };
  readonly meta: Record<string, unknown> & { readonly loadedAddresses?: { writable: string[]; readonly: string[] } };
  readonly version?: number | string;
}

const missing = (await chainMissing()) ?? skipWithoutFixtures;
if (missing) console.error(`SKIPPED: recorded transactions: ${missing}`);

suite('recorded transactions', { skip: missing }, () => {
  test('come back as they were recorded, in slots of this chain, under every key', async () => {
    const chain = await startChain();
    const kept = ['err', 'fee', 'preBalances', 'postBalances', 'logMessages', 'preTokenBalances', 'postTokenBalances'];
    let count = 0;
    for (const name of listFixtures('chain/transactions')) {
      const file = readJsonFixture<Recording>(name);
      const recorded = file.getTransaction?.result ?? file.getTransaction;
      if (recorded?.meta === undefined || !Array.isArray(recorded.transaction?.message?.['accountKeys'])) continue;
      if (typeof recorded.transaction.message['accountKeys'][0] !== 'string' || recorded.version === 1) continue;
      await chain.appendRecorded(recorded as never);
      count += 1;
      const landed = await chain.connection.getTransaction(file.signature, { maxSupportedTransactionVersion: 0 });
      assert.ok(landed, name);
      for (const key of kept) {
        assert.deepEqual(
          JSON.parse(JSON.stringify((landed.meta as never)[key] ?? null)),
          recorded.meta[key] ?? null,
          `${name} ${key}`,
        );
      }
      const loaded = recorded.meta.loadedAddresses;
      const last =
        loaded?.readonly.at(-1) ?? loaded?.writable.at(-1) ?? recorded.transaction.message['accountKeys'].at(-1);
      const response = await fetch(chain.rpcUrl, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'getSignaturesForAddress',
          params: [last, { commitment: 'confirmed', limit: 1 }],
        }),
      });
      const { result } = (await response.json()) as { result: { signature: string }[] };
      assert.equal(result[0]?.signature, file.signature, name);
    }
    assert.ok(count >= 10, `only ${count} recordings were usable`);
    const report = await chain.fork({ depth: 3, replay: 'all' });
    assert.deepEqual([report.lost, report.moved.length], [[], 3]);
    await chain.stop();
  });
});
