import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createBodyCache, prepareDeliveries } from '../../../plugins/webhooks/delivery/attempt.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import type { Job } from '../../../src/plugin/plugin.ts';
import type { Store } from '../../../src/ports/store.ts';
import { eachStore } from '../../helpers/store.ts';
import { addressOf, makeBlock, signatureOf } from './blocks.ts';
import { startHarness } from './harness.ts';

const clock = createSystemClock();

/** The waiting deliveries as jobs. */
async function jobs(store: Store): Promise<Job[]> {
  const rows = await store.read.selectFrom('outbox').selectAll().orderBy('id').execute();
  return rows.map((row) => ({ ...row, group: row.grp, payload: JSON.parse(row.payload) }) as unknown as Job);
}

async function removeElements(store: Store): Promise<void> {
  await store.write(async ({ db }) => void (await db.deleteFrom('webhook_elements').execute()));
}

eachStore('preparing deliveries', (engine) => {
  const start = async (t: TestContext, count: number) => {
    const harness = await startHarness(t, { store: await engine.store(t), deliver: false });
    for (let number = 0; number < 2; number += 1) {
      const body = { webhookURL: 'http://127.0.0.1:9/', webhookType: 'raw', accountAddresses: [addressOf(1)] };
      assert.equal((await harness.call('POST', '/v0/webhooks', body)).status, 200);
    }
    const transactions = Array.from({ length: count }, (_, at) => ({ name: `t${at}`, keys: [1] }));
    await harness.apply(makeBlock({ slot: 10, transactions }));
    return harness.store;
  };

  test('any number of deliveries is loaded at once, and webhooks of one transaction share its body', async (t) => {
    for (const count of [1, 3, 300]) {
      const store = await start(t, count);
      const all = await jobs(store);
      assert.equal(all.length, 2 * count);
      const prepared = await prepareDeliveries(store, clock, createBodyCache(), all);
      assert.equal(prepared.hooks.size, 2);
      const bodies = all.map(({ payload }) => prepared.body(payload as never));
      assert.equal(new Set(bodies).size, count);
      bodies.forEach((body, at) => {
        const [element] = JSON.parse(String(body));
        assert.equal(element.transaction.signatures[0], (all[at]!.payload as { signature: string }).signature);
      });
    }
  });

  test('a body that was made once is not read again; webhooks and secrets are', async (t) => {
    const store = await start(t, 2);
    const all = await jobs(store);
    const bodies = createBodyCache();
    const first = await prepareDeliveries(store, clock, bodies, all.slice(0, 1));
    await removeElements(store);
    await store.write(async ({ db }) => void (await db.updateTable('webhooks').set({ active: 0 }).execute()));
    const second = await prepareDeliveries(store, clock, bodies, all);
    const payload = { signature: signatureOf('t0'), slot: 10, chain: 'main', form: 'raw', bytes: 1 } as const;
    assert.ok(first.body(payload)?.equals(second.body(payload) ?? Buffer.alloc(0)));
    assert.equal(second.body({ ...payload, signature: signatureOf('t1') }), undefined);
    assert.equal(second.body({ ...payload, slot: 11 }), undefined, 'of another block');
    assert.deepEqual(
      [first, second].map(({ hooks }) => [...hooks.values()].map(({ hook }) => hook.active)),
      [[true], [false, false]],
    );
    const forgotten = await prepareDeliveries(store, clock, createBodyCache(), all);
    assert.equal(forgotten.body(payload), undefined);
  });
});

test('bodies are kept within a bound', () => {
  const bodies = createBodyCache();
  for (let number = 0; number < 40; number += 1) bodies.set(String(number), Buffer.alloc(1_000_000));
  assert.equal(bodies.size, 16);
  assert.ok(bodies.has('39') && !bodies.has('0'));
});
