import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { createManualClock, type ManualClock } from '../../helpers/manual-clock.ts';
import { answer, startReceiver } from '../../helpers/receiver.ts';
import { signatureOf } from './blocks.ts';
import { header, quick, type Stage, stage, verify } from './stage.ts';

describe('delivery', () => {
  test('the request: target, headers, signature, body', async (t) => {
    const { create, event, receiver, finished } = await stage(t);
    const hook = await create({ authHeader: 'Bearer é secret' });
    await event('one');
    const [request] = await receiver.waitFor(1);
    assert.ok(request);
    assert.deepEqual([request.method, request.url], ['POST', '/hook?a=b']);
    assert.equal(header(request, 'content-type'), 'application/json');
    assert.equal(Number(header(request, 'content-length')), request.body.length);
    assert.equal(request.headers['transfer-encoding'], undefined);
    assert.equal(header(request, 'user-agent'), 'parhelion-webhooks/0.0.0-test');
    assert.equal(header(request, 'authorization'), 'Bearer é secret');
    assert.match(header(request, 'webhook-id'), /^msg_[0-9a-f]{32}$/);
    assert.equal(header(request, 'x-parhelion-webhook'), hook.webhookID);
    assert.equal(header(request, 'x-parhelion-attempt'), '1');
    assert.equal(header(request, 'x-parhelion-network'), 'mainnet');
    assert.ok(Date.parse(header(request, 'x-parhelion-created-at')) > 0);
    const body = verify(hook.signingSecret, request) as { slot: number; transaction: { signatures: string[] } }[];
    assert.equal(body.length, 1);
    assert.equal(body[0]?.slot, 101);
    assert.deepEqual(body[0]?.transaction.signatures, [signatureOf('one')]);
    const [delivery] = await finished(hook.webhookID);
    assert.equal(delivery?.status, 'delivered');
    assert.deepEqual(
      delivery?.attempts.map(({ statusCode, failure }) => [statusCode, failure]),
      [[200, null]],
    );
  });

  test('any 2xx is a success; what the receiver said is kept', async (t) => {
    const { create, event, receiver, finished } = await stage(t);
    const hook = await create();
    receiver.script(answer(200, {}, 'x'.repeat(5_000)), answer(202, {}, 'ok \u00e9'), answer(204));
    for (const name of ['a', 'b', 'c']) {
      await event(name);
      await finished(hook.webhookID);
    }
    const all = await finished(hook.webhookID);
    assert.deepEqual(
      all.map(({ status }) => status),
      ['delivered', 'delivered', 'delivered'],
    );
    assert.deepEqual(
      all.map(({ attempts }) => attempts[0]?.responseBody?.length ?? null),
      [null, 4, 4_096],
    );
  });

  test('a delivery shows the headers of request and response', async (t) => {
    const { create, event, receiver, finished, call } = await stage(t);
    const hook = await create({ authHeader: 'Bearer hidden-one' });
    const long = 'v'.repeat(300);
    receiver.script(answer(200, { 'x-note': 'kept', 'set-cookie': 'session=secret', 'x-long': long }, 'ok'));
    await event('one');
    await event('two');
    const found = (await finished(hook.webhookID)).find(({ signature }) => signature === signatureOf('one'));
    const one = await call('GET', `/v0/webhooks/${hook.webhookID}/deliveries/${found?.deliveryId}`);
    assert.equal(one.body.type, null, 'the raw form has none');
    const [{ requestHeaders, responseHeaders }] = one.body.attempts;
    const request = receiver.received.find(({ body }) => body.includes(signatureOf('one')));
    const { 'webhook-signature': signature, authorization, ...shown } = requestHeaders;
    assert.deepEqual([signature, authorization], ['(hidden)', '(hidden)']);
    for (const [name, value] of Object.entries(shown)) assert.equal(request?.headers[name], value, name);
    assert.deepEqual([responseHeaders['x-note'], responseHeaders['x-long']], ['kept', 'v'.repeat(200)]);
    assert.ok(!JSON.stringify(one.body).includes('secret') && !('set-cookie' in responseHeaders));
  });

  test('retries repeat id and body with a new signature, then the delivery fails', async (t) => {
    const { create, event, receiver, finished } = await stage(t, quick);
    const hook = await create();
    receiver.setFallback(answer(500, {}, 'no'));
    await event('one');
    const [delivery] = await finished(hook.webhookID);
    assert.deepEqual(
      [delivery?.status, delivery?.reason, delivery?.nextAttemptAt],
      ['failed', 'http_status 500', null],
    );
    assert.deepEqual(
      delivery?.attempts.map(({ attempt }) => attempt),
      [1, 2, 3],
    );
    assert.equal(receiver.received.length, 3);
    for (const request of receiver.received) verify(hook.signingSecret, request);
    assert.equal(new Set(receiver.received.map((request) => header(request, 'webhook-id'))).size, 1);
    assert.equal(new Set(receiver.received.map(({ body }) => body.toString())).size, 1);
    assert.deepEqual(
      receiver.received.map((request) => header(request, 'x-parhelion-attempt')),
      ['1', '2', '3'],
    );
  });

  test('redirects fail and are never followed', async (t) => {
    const { create, event, receiver, finished } = await stage(t, quick);
    const hook = await create();
    receiver.setFallback(answer(308, { location: `${receiver.url}/stolen` }));
    await event('one');
    const [delivery] = await finished(hook.webhookID);
    assert.equal(delivery?.status, 'failed');
    assert.ok(receiver.received.every(({ url }) => url === '/hook?a=b'));
  });

  test('403 ends a delivery, 410 the webhook', async (t) => {
    const { create, event, receiver, finished, call, deliveries } = await stage(t, quick);
    const hook = await create();
    receiver.script(answer(403));
    await event('one');
    assert.equal((await finished(hook.webhookID))[0]?.status, 'failed');
    assert.equal(receiver.received.length, 1);
    receiver.script(answer(410));
    await event('two');
    await finished(hook.webhookID);
    const state = (await call('GET', `/v0/webhooks/${hook.webhookID}`)).body;
    assert.deepEqual([state.active, state.disabledReason], [false, 'gone']);
    // Nothing more is made while it is off.
    await event('three');
    assert.equal((await deliveries(hook.webhookID)).length, 2);
    // Within the grace 410 ends the delivery only.
    await call('PATCH', `/v0/webhooks/${hook.webhookID}`, { active: true });
    receiver.script(answer(410));
    await event('four');
    await finished(hook.webhookID);
    assert.equal((await call('GET', `/v0/webhooks/${hook.webhookID}`)).body.active, true);
  });

  test('hostile receivers: silence, resets, early answers, endless bodies', async (t) => {
    const { create, event, receiver, finished } = await stage(t, quick);
    const hook = await create({ retryPreset: 'compat' });
    const failures = async (name: string) => {
      await event(name);
      return (await finished(hook.webhookID))[0]?.attempts.map(({ failure, statusCode }) => failure ?? statusCode);
    };
    receiver.script({ kind: 'silent' });
    assert.deepEqual(await failures('silent'), ['timeout', 200]);
    receiver.script({ kind: 'reset', at: 'start' });
    assert.deepEqual(await failures('start'), ['connection', 200]);
    receiver.script({ kind: 'reset', at: 'headers' });
    assert.deepEqual(await failures('headers'), ['connection', 200]);
    receiver.script({ kind: 'reset', at: 'body' });
    assert.deepEqual(await failures('body'), [200]);
    receiver.script({ kind: 'endless', status: 200, everyMs: 20 });
    assert.deepEqual(await failures('endless'), [200]);
    receiver.script({ kind: 'early', status: 200 });
    assert.deepEqual(await failures('early'), [200]);
  });

  test('durable tries a broken connection again at once, within the same attempt', async (t) => {
    const { create, event, receiver, finished } = await stage(t);
    const hook = await create();
    receiver.script({ kind: 'reset', at: 'start' });
    await event('one');
    const [delivery] = await finished(hook.webhookID);
    assert.deepEqual([delivery?.status, delivery?.attempts.length, receiver.received.length], ['delivered', 1, 2]);
  });

  test('an address that became forbidden ends the delivery without a connection', async (t) => {
    const { create, event, receiver, finished, store } = await stage(t, quick);
    const hook = await create();
    await store.write(async (tx) => {
      await tx.db.updateTable('webhooks').set({ url: 'http://10.0.0.1:1/' }).execute();
    });
    await event('one');
    const [delivery] = await finished(hook.webhookID);
    assert.deepEqual([delivery?.status, delivery?.attempts[0]?.failure], ['failed', 'blocked_address']);
    assert.equal(receiver.connections(), 0);
  });

  test('a new target is used from the next attempt on', async (t) => {
    const { create, event, receiver, finished, call } = await stage(t, {
      webhooks: { retry: { compat: { steps: [0.2], timeoutMs: 500 } } },
    });
    const hook = await create({ retryPreset: 'compat' });
    receiver.setFallback(answer(500));
    await event('one');
    await receiver.waitFor(1);
    const other = await startReceiver();
    t.after(() => other.close());
    await call('PUT', `/v0/webhooks/${hook.webhookID}`, { webhookURL: `${other.url}/new` });
    assert.equal((await finished(hook.webhookID))[0]?.status, 'delivered');
    assert.equal(other.received[0]?.url, '/new');
  });

  test('rotation: both secrets sign, then only the new one', async (t) => {
    const { create, event, receiver, call } = await stage(t);
    const hook = await create();
    const path = `/v0/webhooks/${hook.webhookID}/secret/rotate`;
    const second = (await call('POST', path, {})).body.signingSecret;
    await event('one');
    const [both] = await receiver.waitFor(1);
    assert.ok(both);
    assert.equal(header(both, 'webhook-signature').split(' ').length, 2);
    verify(hook.signingSecret, both);
    verify(second, both);
    const third = (await call('POST', path, { overlapSeconds: 0 })).body.signingSecret;
    await event('two');
    const only = (await receiver.waitFor(2))[1];
    assert.ok(only);
    verify(third, only);
    assert.throws(() => verify(second, only));
    assert.throws(() => verify(hook.signingSecret, only));
  });

  test('a finished delivery can be sent again under the same id', async (t) => {
    const { create, event, receiver, finished, call } = await stage(t, quick);
    const hook = await create();
    receiver.script(answer(403));
    await event('one');
    const [delivery] = await finished(hook.webhookID);
    const path = `/v0/webhooks/${hook.webhookID}/deliveries/${delivery?.deliveryId}`;
    const again = await call('POST', `${path}/replay`);
    assert.deepEqual([again.status, again.body], [202, { deliveryId: delivery?.deliveryId, status: 'pending' }]);
    await receiver.waitFor(2);
    const [resent] = await finished(hook.webhookID);
    assert.deepEqual([resent?.status, resent?.attempts.length], ['delivered', 2]);
    assert.equal(header(receiver.received[0]!, 'webhook-id'), header(receiver.received[1]!, 'webhook-id'));
    const one = (await call('GET', path)).body;
    assert.deepEqual(Buffer.from(JSON.stringify(one.body)), receiver.received[0]?.body);
    assert.equal(
      (await call('POST', `/v0/webhooks/${hook.webhookID}/deliveries/999/replay`)).body.error,
      'delivery not found',
    );
    await call('PATCH', `/v0/webhooks/${hook.webhookID}`, { active: false });
    assert.deepEqual((await call('POST', `${path}/resend`)).body, { error: 'webhook is inactive', code: 409 });
  });

  test('a test event goes out at once, also while the webhook is off, and is counted nowhere', async (t) => {
    const { create, receiver, call, deliveries } = await stage(t);
    const hook = await create();
    await call('PATCH', `/v0/webhooks/${hook.webhookID}`, { active: false });
    receiver.script(answer(200), answer(500));
    const good = (await call('POST', `/v0/webhooks/${hook.webhookID}/test`)).body;
    assert.match(good.deliveryId, /^test_[0-9a-f]{32}$/);
    assert.deepEqual([good.delivered, good.statusCode, good.failure], [true, 200, null]);
    const bad = (await call('POST', `/v0/webhooks/${hook.webhookID}/test`)).body;
    assert.deepEqual([bad.delivered, bad.statusCode, bad.failure], [false, 500, 'http_status']);
    const [request] = receiver.received;
    assert.ok(request);
    assert.equal(header(request, 'x-parhelion-test'), 'true');
    assert.match(header(request, 'webhook-id'), /^tst_[0-9a-f]{32}$/);
    const [element] = verify(hook.signingSecret, request) as { transaction: { signatures: string[] } }[];
    assert.deepEqual(element?.transaction.signatures, ['1'.repeat(64)]);
    assert.deepEqual(await deliveries(hook.webhookID), []);
  });

  test('switching off drops what waits; the webhook of another is not touched', async (t) => {
    const { create, event, call, deliveries } = await stage(t, { deliver: false });
    const [one, two] = [await create(), await create()];
    await event('a');
    await event('b');
    await call('PATCH', `/v0/webhooks/${one.webhookID}`, { active: false });
    assert.deepEqual(
      (await deliveries(one.webhookID)).map(({ status, reason }) => [status, reason]),
      [
        ['discarded', 'webhook disabled'],
        ['discarded', 'webhook disabled'],
      ],
    );
    assert.deepEqual(
      (await deliveries(two.webhookID)).map(({ status }) => status),
      ['pending', 'pending'],
    );
  });

  test('no secret, header or query reaches the log', async (t) => {
    const { create, event, receiver, finished, log } = await stage(t, quick);
    const hook = await create({ authHeader: 'Bearer topsecret' });
    receiver.setFallback(answer(500));
    await event('one');
    await finished(hook.webhookID);
    const text = JSON.stringify(log.lines);
    for (const word of ['topsecret', 'whsec_', 'a=b', hook.signingSecret])
      assert.equal(text.includes(word), false, word);
  });
});

describe('automatic disabling', () => {
  const rules = {
    jobs: { pollMs: 600_000 },
    webhooks: { ratePerSecond: 0, retry: { compat: { steps: [], timeoutMs: 5_000 } }, concurrency: { perWebhook: 64 } },
  };
  const manual = async (t: TestContext): Promise<Stage & { clock: ManualClock }> => {
    const clock = createManualClock();
    return { ...(await stage(t, { ...rules, clock })), clock };
  };
  /** Sends events one after the other; true means that the receiver takes it. */
  const play = async (it: Stage & { clock: ManualClock }, id: string, outcomes: readonly boolean[]) => {
    for (const ok of outcomes) {
      it.receiver.script(answer(ok ? 200 : 500));
      const before = it.receiver.received.length;
      await it.event(`event-${before}-${it.clock.now()}`);
      for (let round = 0; round < 2_000; round += 1) {
        await it.clock.advance(it.clock.pending > 0 && round % 10 === 9 ? 5 : 0);
        const all = await it.deliveries(id);
        if (it.receiver.received.length > before && all[0]?.status !== 'pending') break;
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
  };
  const isActive = async (it: Stage, id: string): Promise<boolean> =>
    (await it.call('GET', `/v0/webhooks/${id}`)).body.active;
  const fails = (count: number): boolean[] => Array.from({ length: count }, () => false);

  test('after twenty failed deliveries, not after nineteen', async (t) => {
    const it = await manual(t);
    const { webhookID } = await it.create({ retryPreset: 'compat' });
    await play(it, webhookID, fails(19));
    assert.equal(await isActive(it, webhookID), true);
    await play(it, webhookID, [false]);
    const state = (await it.call('GET', `/v0/webhooks/${webhookID}`)).body;
    assert.deepEqual([state.active, state.disabledReason], [false, 'failure_rate']);
    assert.equal(it.log.lines.filter(({ message }) => message === 'webhook disabled').length, 1);
  });

  test('not while a success is younger than ten minutes, and not below the rate', async (t) => {
    const it = await manual(t);
    const { webhookID } = await it.create({ retryPreset: 'compat' });
    await play(it, webhookID, [true]);
    await it.clock.advance(9 * 60_000);
    await play(it, webhookID, fails(30));
    assert.equal(await isActive(it, webhookID), true);
    await it.clock.advance(2 * 60_000);
    await play(it, webhookID, [false]);
    assert.equal(await isActive(it, webhookID), false);
  });

  test('sporadic failures do nothing', async (t) => {
    const it = await manual(t);
    const { webhookID } = await it.create({ retryPreset: 'compat' });
    await play(it, webhookID, [true, true, ...fails(30)]);
    await it.clock.advance(11 * 60_000);
    // 31 of 33 are 93.9 %.
    await play(it, webhookID, [false]);
    assert.equal(await isActive(it, webhookID), true);
  });

  test('never within the grace, and right after it', async (t) => {
    const it = await manual(t);
    const { webhookID } = await it.create({ retryPreset: 'compat' });
    await it.call('PATCH', `/v0/webhooks/${webhookID}`, { active: false });
    await it.call('PATCH', `/v0/webhooks/${webhookID}`, { active: true });
    await it.clock.advance(24 * 3_600_000 - 60_000);
    await play(it, webhookID, fails(25));
    assert.equal(await isActive(it, webhookID), true);
    await it.clock.advance(60_000);
    await play(it, webhookID, [false]);
    assert.equal(await isActive(it, webhookID), false);
    // Switching on again begins a new grace with empty counters.
    await it.call('PATCH', `/v0/webhooks/${webhookID}`, { active: true });
    await it.clock.advance(24 * 3_600_000 + 1);
    await play(it, webhookID, fails(19));
    assert.equal(await isActive(it, webhookID), true);
  });
});
