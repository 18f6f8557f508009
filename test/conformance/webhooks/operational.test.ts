/** Notifications for the operator, and Discord. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { answer, type Received, startReceiver } from '../../helpers/receiver.ts';
import { patient, stage } from './stage.ts';

const secret = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;
const typeOf = ({ body }: Received): string => JSON.parse(String(body)).type;

test('the operator is notified of each change once: failing, given up, recovered, disabled', async (t) => {
  const operator = await startReceiver();
  t.after(() => operator.close());
  const four = { durable: { steps: [0.01, 0.01, 0.01, 0.01], jitter: 0, timeoutMs: 30_000 } };
  const webhooks = {
    retry: { ...patient.webhooks.retry, ...four },
    operational: { url: `${operator.url}/ops`, secret },
  };
  const it = await stage(t, { webhooks });
  const hook = await it.create();
  it.receiver.setFallback(answer(500));
  operator.script(answer(503));
  await it.event('a', 'b');
  await it.finished(hook.webhookID);
  await operator.waitFor(3);
  it.receiver.setFallback(answer(200));
  await it.event('c');
  await it.finished(hook.webhookID);
  await operator.waitFor(4);
  it.receiver.setFallback(answer(410));
  await it.event('d');
  await it.finished(hook.webhookID);
  const all = await operator.waitFor(5);
  const types = all.map(typeOf).sort();
  // The first was refused once and came again under the same id. What was given up later is counted for the next hour.
  const ids = new Map(all.map((request) => [String(request.headers['webhook-id']), typeOf(request)]));
  assert.equal(all.length, 5);
  assert.deepEqual([...ids.values()].sort(), [
    'delivery.exhausted',
    'webhook.disabled',
    'webhook.failing',
    'webhook.recovered',
  ]);
  assert.equal(types.length, 5);
  for (const { body, headers } of all) new Webhook(secret).verify(String(body), headers as Record<string, string>);
  const disabled = all.find((request) => typeOf(request) === 'webhook.disabled');
  const { data, timestamp } = JSON.parse(String(disabled?.body));
  assert.deepEqual(data, { webhookID: hook.webhookID, project: 'p', reason: 'gone' });
  assert.ok(Date.parse(timestamp) > 0);
});

test('an operational address that can never be reached ends the start', async (t) => {
  const webhooks = { allowCidrs: [], operational: { url: 'http://127.0.0.1:1/', secret } };
  await assert.rejects(
    stage(t, { webhooks }),
    (error) => (error as { code?: string; exitCode?: number }).code === 'WEBHOOKS_OPERATIONAL_URL',
  );
});

test('discord: a message without signatures, its own way of asking for patience, embeds merged', async (t) => {
  const it = await stage(t, patient);
  const hook = await it.create({ webhookType: 'discord', txnStatus: 'all', batchSize: 100 });
  it.receiver.script(answer(429, {}, JSON.stringify({ message: 'slow down', retry_after: 0.019 })));
  it.receiver.setFallback(answer(204));
  await it.event('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l');
  await it.receiver.waitFor(1);
  const [first] = it.receiver.received;
  assert.ok(first);
  for (const name of ['webhook-id', 'webhook-signature', 'webhook-timestamp', 'authorization'])
    assert.equal(first.headers[name], undefined);
  const message = JSON.parse(String(first.body));
  assert.deepEqual([message.embeds.length, message.allowed_mentions], [10, { parse: [] }]);
  const [delivery] = await it.deliveries(hook.webhookID);
  const one = await it.call('GET', `/v0/webhooks/${hook.webhookID}/deliveries/${delivery?.deliveryId}`);
  assert.equal(one.body.body.embeds.length, 1);
  const tried = (await it.call('POST', `/v0/webhooks/${hook.webhookID}/test`)).body;
  assert.equal(tried.statusCode, 204);
  // What did not fit into the first message may come after it.
  const descriptions = it.receiver.received.flatMap(({ body }) =>
    JSON.parse(String(body)).embeds.map(({ description }: { readonly description: string }) => description),
  );
  assert.ok(descriptions.includes('Test event'), String(descriptions));
});
