/** An event keeps the message that it was first sent in: over forks, restarts, and smaller batches, and it is paid for once. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCharges } from '../../../plugins/access/services.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { accessBed } from '../../helpers/access-harness.ts';
import { answer, type Received } from '../../helpers/receiver.ts';
import { eachStore } from '../../helpers/store.ts';
import { makeBlock, signatureOf } from './blocks.ts';
import { header, patient, type Stage, stage } from './stage.ts';

const HOUR_S = 3_600;
/** What waits together goes together. */
const oneAtOnce = { concurrency: { perWebhook: 1 } };
const slow = { ...oneAtOnce, retry: { durable: { steps: [HOUR_S, HOUR_S], jitter: 0, timeoutMs: 30_000 } } };
const idOf = (hook: string, ...names: string[]) =>
  `msg_${createHash('sha256')
    .update(`${hook}:${names.map(signatureOf).join(',')}`)
    .digest('hex')
    .slice(0, 32)}`;
const ids = (all: readonly Received[]) => all.map((one) => header(one, 'webhook-id'));

/** Waits until each delivery of the webhook has an attempt behind it. */
async function tried(it: Stage, id: string): Promise<void> {
  for (let round = 0; round < 3_000; round += 1) {
    if ((await it.deliveries(id)).every(({ attempts }) => attempts.length > 0)) return;
    await sleep(10);
  }
  throw new Error('it was never tried');
}

eachStore('batches of deliveries', (engine) => {
  test('a fork does not release a delivery that was sent in a batch', async (t) => {
    const it = await stage(t, { store: await engine.store(t), webhooks: slow });
    const { webhookID } = await it.create({ batchSize: 10 });
    it.receiver.setFallback(answer(500));
    const block = await it.event('a', 'b', 'c');
    await tried(it, webhookID);
    await it.revert(block);
    const transactions = ['b', 'c', 'd'].map((name) => ({ name, keys: [1] }));
    await it.apply(makeBlock({ slot: 900, transactions }));
    await tried(it, webhookID);
    assert.deepEqual(ids(it.receiver.received), [idOf(webhookID, 'a', 'b', 'c'), idOf(webhookID, 'd')]);
  });

  test('each delivery of a batch shows the headers of the request that had them all', async (t) => {
    const it = await stage(t, { store: await engine.store(t), webhooks: { ...patient.webhooks, ...oneAtOnce } });
    const { webhookID } = await it.create({ batchSize: 10 });
    await it.event('a', 'b', 'c');
    for (const { deliveryId } of await it.finished(webhookID)) {
      const one = await it.call('GET', `/v0/webhooks/${webhookID}/deliveries/${deliveryId}`);
      const { requestHeaders } = one.body.attempts[0];
      const sent = it.receiver.received.find((request) => request.body.includes(one.body.signature));
      for (const name of ['webhook-id', 'webhook-timestamp', 'x-parhelion-created-at'])
        assert.equal(requestHeaders[name], header(sent!, name), name);
    }
  });

  test('a batch of one is sent again unchanged after a stop, whatever waits by then', async (t) => {
    const store = await engine.store(t);
    const webhooks = { ...patient.webhooks, ...oneAtOnce };
    const before = await stage(t, { store, webhooks });
    const { webhookID } = await before.create({ batchSize: 10 });
    before.receiver.script({ kind: 'silent' });
    await before.event('a');
    await before.receiver.waitFor(1);
    await before.runner.stop();
    await before.apply(makeBlock({ slot: 900, transactions: ['b', 'c'].map((name) => ({ name, keys: [1] })) }));
    // What is new waits for so long, so that more can go with it.
    await sleep(1_100);
    const after = await stage(t, { store, webhooks });
    await after.finished(webhookID);
    const { received } = before.receiver;
    const alone = idOf(webhookID, 'a');
    assert.deepEqual(ids(received).sort(), [alone, alone, idOf(webhookID, 'b', 'c')].sort());
    // Also on a resend.
    const [last] = await after.deliveries(webhookID).then((all) => all.slice(-1));
    await after.call('POST', `/v0/webhooks/${webhookID}/deliveries/${last?.deliveryId}/resend`);
    await after.finished(webhookID);
    assert.equal(header(received.at(-1)!, 'webhook-id'), alone);
    assert.deepEqual(await store.read.selectFrom('webhook_batches').selectAll().execute(), []);
  });

  test('a batch that is taken apart is not paid for again, and its attempts count', async (t) => {
    const { it, used } = await paying(t);
    const { webhookID } = await it.create({ batchSize: 3 });
    it.receiver.setFallback(answer(500));
    await it.event('a', 'b', 'c');
    await tried(it, webhookID);
    assert.deepEqual(await used(), [3, 3]);
    await it.call('PUT', `/v0/webhooks/${webhookID}`, { batchSize: 1 });
    await it.receiver.waitFor(3);
    for (let left = 2; left > 0; await sleep(10))
      left = (await it.deliveries(webhookID)).filter(({ attempts }) => attempts.length < 2).length - 1;
    assert.deepEqual(
      it.receiver.received.slice(1).map((one) => header(one, 'x-parhelion-attempt')),
      ['2', '2'],
    );
    assert.deepEqual(await used(), [3, 3]);
  });

  async function paying(t: TestContext) {
    const store = await engine.store(t);
    const clock = createSystemClock();
    const bed = await accessBed(store, { clock: clock as never, overrides: { creditsLimit: 1_000 } });
    const it = await stage(t, {
      store,
      charges: createCharges({ ...bed, clock }),
      projectId: bed.project.id,
      webhooks: slow,
    });
    t.after(() => bed.meter.stop());
    const used = async () => {
      await bed.meter.flush();
      const { creditsUsed, requests } = await bed.usage();
      return [creditsUsed, requests.webhooks];
    };
    return { it, used };
  }
});
