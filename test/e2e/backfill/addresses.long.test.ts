import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { chainMissing } from '../../helpers/chain.ts';
import { eachStore } from '../../helpers/store.ts';
import { FEW_PLUGINS, FINALITY, listGaps, makeBed, until } from './harness.ts';

const OTHER = Keypair.generate().publicKey.toBase58();
const skip = (await chainMissing()) ?? false;

eachStore('gaps whose blocks nobody has', ({ database }) => {
  test('are filled by the transactions of the watched addresses, where that is allowed; each delivery comes once', {
    skip,
    timeout: 120_000,
  }, async (t) => {
    const bed = await makeBed(t, database, FEW_PLUGINS);
    const follow = { pollMs: 50, auditIntervalMs: 250 };
    const first = await bed.start({ config: { follow } });
    await bed.watch(first);
    const before = await bed.pay(5);
    await bed.expectReceived(before);
    await first.stop();
    const lost = await bed.pay(15);
    // Somebody else's transactions are in the gap too.
    for (let made = 0; made < 5; made += 1) await bed.chain.fund(OTHER, 900_000 + made);
    const firstHad = (await bed.tip()) + 1;
    const recent = await bed.pay(10);
    const prune = ['getBlock', 'getBlocks', 'getFirstAvailableBlock'].map(
      (method) => ({ action: 'pruned', first: firstHad, match: { method } }) as const,
    );
    bed.chain.faults.set([...prune, { action: 'shuffleSlot', match: { method: 'getSignaturesForAddress' } }]);
    const second = await bed.start({ config: { follow: { ...follow, gapBackfill: { addressMode: true } } } });
    const later = await bed.pay(FINALITY + 2);
    await bed.expectReceived([...before, ...lost, ...recent, ...later]);
    const [gap] = await until(
      () => listGaps(second),
      (gaps) => gaps[0]?.status === 'filled',
    );
    assert.equal(gap?.reason, 'pruned');
    // What an address told has the form of any other delivery.
    const elements = bed.receiver.received.flatMap(
      ({ body }) =>
        JSON.parse(body.toString()) as { slot: number; blockTime: number; transaction: { signatures: string[] } }[],
    );
    const old = elements.find(({ transaction }) => transaction.signatures[0] === lost[0]);
    const usual = elements.find(({ transaction }) => transaction.signatures[0] === before[0]);
    assert.deepEqual(Object.keys(old ?? {}), Object.keys(usual ?? {}));
    assert.ok((old?.slot ?? 0) < firstHad);
    assert.equal(typeof old?.blockTime, 'number');
  });

  test('stay open when more addresses are watched than is allowed', { skip, timeout: 120_000 }, async (t) => {
    const bed = await makeBed(t, database, FEW_PLUGINS);
    const follow = { pollMs: 50, auditIntervalMs: 250 };
    const first = await bed.start({ config: { follow } });
    await bed.watch(first);
    await bed.expectReceived(await bed.pay(3));
    const response = await fetch(`${first.apiUrl}/v0/webhooks?api-key=${first.key}`, {
      method: 'POST',
      body: JSON.stringify({ webhookType: 'raw', webhookURL: `${bed.receiver.url}/other`, accountAddresses: [OTHER] }),
    });
    assert.equal(response.status, 200);
    await first.stop();
    await bed.pay(10);
    const prune = ['getBlock', 'getBlocks', 'getFirstAvailableBlock'].map(
      (method) => ({ action: 'pruned', first: 0, match: { method } }) as const,
    );
    const firstHad = (await bed.tip()) + 1;
    bed.chain.faults.set(prune.map((rule) => ({ ...rule, first: firstHad })));
    await bed.chain.seal(FINALITY + 2);
    const gapBackfill = { addressMode: true, maxAddresses: 1 };
    const second = await bed.start({ config: { follow: { ...follow, gapBackfill } } });
    await bed.chain.seal(FINALITY + 2);
    const [gap] = await until(
      () => listGaps(second),
      (gaps) => gaps[0]?.trouble?.includes('more than 1 addresses') === true,
    );
    assert.equal(gap?.status, 'open');
  });
});
