/** What the owner of a webhook sees of it, and can do when its receiver works again. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { answer } from '../../helpers/receiver.ts';
import { eachStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';
import type { HarnessOptions } from './harness.ts';
import { stage } from './stage.ts';

interface Health {
  readonly webhookID: string;
  readonly state: string;
  readonly disabledReason?: string;
  readonly disabledAt?: string;
  readonly attempts: { readonly succeeded: number; readonly failed: number };
  readonly successRate: number | null;
  readonly lastDeliveredAt: string | null;
  readonly waiting: number;
  readonly held: number;
  readonly nextAttemptAt: string | null;
  readonly days: readonly { readonly day: string; readonly succeeded: number; readonly failed: number }[];
}

/** The next attempt is an hour away. */
const slow = { webhooks: { retry: { durable: { steps: [3_600], jitter: 0, timeoutMs: 30_000 } } } };

eachStore('health of webhooks', (engine) => {
  const start = async (t: TestContext, options: Partial<HarnessOptions> = {}) =>
    await stage(t, { store: await engine.store(t), ...slow, ...options });
  type Stage = Awaited<ReturnType<typeof start>>;
  const healthOf = async (it: Stage, id: string) => (await it.call('GET', `/v0/webhooks/${id}/health`)).body as Health;
  const tried = async (it: Stage, id: string, count: number) => {
    const attempted = async () => (await it.deliveries(id)).filter(({ attempts }) => attempts.length > 0).length;
    while ((await attempted()) < count) await sleep(10);
  };

  test('a webhook whose receiver fails is failing, with what waits and when it is tried next', async (t) => {
    const it = await start(t);
    const { webhookID } = await it.create({ name: 'Deposits', description: 'Credits accounts' });
    const idle = await healthOf(it, webhookID);
    assert.deepEqual(
      [idle.state, idle.successRate, idle.lastDeliveredAt, idle.waiting, idle.nextAttemptAt, idle.days.length],
      ['idle', null, null, 0, null, 28],
    );
    it.receiver.script(answer(500), answer(500), answer(500));
    await it.event('a', 'b', 'c');
    await tried(it, webhookID, 3);
    const failing = await healthOf(it, webhookID);
    assert.deepEqual(
      [failing.state, failing.attempts, failing.successRate, failing.lastDeliveredAt, failing.waiting, failing.held],
      ['failing', { succeeded: 0, failed: 3 }, 0, null, 3, 0],
    );
    assert.equal(failing.nextAttemptAt, (await it.deliveries(webhookID)).map((one) => one.nextAttemptAt).sort()[0]);
    assert.deepEqual(failing.days.at(-1), {
      day: new Date(Date.now()).toISOString().slice(0, 10),
      succeeded: 0,
      failed: 3,
    });
    const list = (await it.call('GET', '/v0/webhooks/health')).body as Health[];
    assert.deepEqual(list, [failing]);
    await it.create({ name: 'Quiet' });
    const { webhookID: off } = await it.create({});
    await it.call('PATCH', `/v0/webhooks/${off}`, { active: false });
    await it.start();
    const counted = async (state: string) =>
      new RegExp(`^parhelion_webhooks_by_health\\{state="${state}"\\} (\\d+)$`, 'm').exec(await it.metrics())?.[1];
    await until(async () => (await counted('failing')) === '1', 'webhooks are counted');
    assert.deepEqual([await counted('working'), await counted('quiet'), await counted('off')], ['0', '1', '1']);
    assert.match(await it.metrics(), /^parhelion_webhooks_failing 1$/m);
    await it.call('PATCH', `/v0/webhooks/${webhookID}`, { active: false });
    assert.equal((await healthOf(it, webhookID)).state, 'off');
    const other = '00000000-0000-4000-8000-000000000000';
    assert.equal((await it.call('GET', `/v0/webhooks/${other}/health`)).status, 404);
  });

  test('owner and operator see why the daemon switched a webhook off; the operator for a week, and none that its owner switched off', async (t) => {
    let ahead = 0;
    const clock = createSystemClock();
    const it = await start(t, { clock: { ...clock, now: () => clock.now() + ahead } });
    const seen = async () => {
      const { body } = await it.call('GET', '/v0/admin/webhooks/failing');
      return (body.webhooks as { webhookID: string; disabledReason: string | null; disabledAt: string | null }[]).map(
        ({ webhookID, disabledReason, disabledAt }) => [webhookID, disabledReason, disabledAt],
      );
    };
    const { webhookID: quiet } = await it.create({ name: 'Quiet' });
    await it.call('PATCH', `/v0/webhooks/${quiet}`, { active: false });
    const own = await healthOf(it, quiet);
    assert.deepEqual([own.state, own.disabledReason], ['off', 'user']);
    const { webhookID: gone } = await it.create({ name: 'Gone' });
    it.receiver.script(answer(410));
    await it.event('a');
    await until(async () => (await healthOf(it, gone)).state === 'off', 'it is switched off');
    const { webhookID: failing } = await it.create({ name: 'Failing' });
    it.receiver.script(answer(500));
    await it.event('b');
    await tried(it, failing, 1);
    const { disabledReason, disabledAt } = await healthOf(it, gone);
    assert.equal(disabledReason, 'gone');
    assert.deepEqual(await seen(), [
      [gone, 'gone', disabledAt],
      [failing, null, null],
    ]);
    ahead = 6.9 * 86_400_000;
    assert.deepEqual((await seen())[0], [gone, 'gone', disabledAt]);
    ahead = 7.1 * 86_400_000;
    assert.ok((await seen()).every(([id]) => id !== gone));
    ahead = 0;
    await it.call('PATCH', `/v0/webhooks/${gone}`, { active: true });
    assert.ok((await seen()).every(([id]) => id !== gone));
    assert.equal((await healthOf(it, gone)).disabledReason, undefined);
  });

  test('a waiting delivery is sent now, alone or with all of its webhook', async (t) => {
    const it = await start(t);
    const { webhookID } = await it.create({});
    it.receiver.script(answer(500), answer(500), answer(500));
    await it.event('a', 'b', 'c');
    await tried(it, webhookID, 3);
    const [one] = await it.deliveries(webhookID);
    const sent = await it.call('POST', `/v0/webhooks/${webhookID}/deliveries/${one!.deliveryId}/resend`);
    assert.deepEqual([sent.status, sent.body], [202, { deliveryId: one!.deliveryId, status: 'pending' }]);
    await it.receiver.waitFor(4);
    const all = await it.call('POST', `/v0/webhooks/${webhookID}/resend`);
    assert.deepEqual([all.status, all.body], [202, { queued: 2, remaining: 0 }]);
    const ended = await it.finished(webhookID);
    assert.deepEqual(
      ended.map(({ status, attempts }) => [status, attempts.length]),
      [
        ['delivered', 2],
        ['delivered', 2],
        ['delivered', 2],
      ],
    );
    assert.deepEqual((await it.call('POST', `/v0/webhooks/${webhookID}/resend`, {})).body, { queued: 0, remaining: 0 });
    const again = await it.call('POST', `/v0/webhooks/${webhookID}/resend`, { status: 'all' });
    assert.deepEqual(again.body, { queued: 3, remaining: 0 });
    await it.receiver.waitFor(9);
    const health = await healthOf(it, webhookID);
    assert.equal(health.state, 'working');
    assert.notEqual(health.lastDeliveredAt, null);
  });

  test('a member of a waiting batch takes its whole request with it', async (t) => {
    const it = await start(t);
    const { webhookID } = await it.create({ batchSize: 10 });
    it.receiver.script(answer(500));
    await it.event('a', 'b', 'c');
    await tried(it, webhookID, 3);
    const deliveries = await it.deliveries(webhookID);
    const member = deliveries.find(({ reason }) => reason === 'batch');
    assert.ok(member);
    assert.equal(
      (await it.call('POST', `/v0/webhooks/${webhookID}/deliveries/${member.deliveryId}/resend`)).status,
      202,
    );
    await it.receiver.waitFor(2);
    assert.equal(it.receiver.received.length, 2);
  });

  test('what cannot be sent is refused with its reason', async (t) => {
    const it = await start(t);
    const { webhookID } = await it.create({ onInactive: 'hold' });
    for (const [body, text] of [
      [{ status: 'delivered' }, /status: must be one of undelivered, pending, failed, discarded, all/],
      [{ since: 'yesterday' }, /since must be unix seconds or an ISO 8601 date/],
      [{ since: 1 }, /deliveries are kept for 14 days/],
    ] as const) {
      const refused = await it.call('POST', `/v0/webhooks/${webhookID}/resend`, body);
      assert.equal(refused.status, 400);
      assert.match((refused.body as { error: string }).error, text);
    }
    await it.call('PATCH', `/v0/webhooks/${webhookID}`, { active: false });
    assert.equal((await it.call('POST', `/v0/webhooks/${webhookID}/resend`)).status, 409);
  });

  test('name and description are kept, changed and removed', async (t) => {
    const it = await start(t);
    const { webhookID } = await it.create({ name: 'Deposits', description: 'Two\nlines' });
    const path = `/v0/webhooks/${webhookID}`;
    const read = async () => {
      const { name, description } = (await it.call('GET', path)).body as Record<string, unknown>;
      return [name, description];
    };
    assert.deepEqual(await read(), ['Deposits', 'Two\nlines']);
    await it.call('PUT', path, { name: 'Payments' });
    assert.deepEqual(await read(), ['Payments', 'Two\nlines']);
    await it.call('PUT', path, { name: '', description: null });
    assert.deepEqual(await read(), [undefined, undefined]);
    assert.equal((await it.call('PUT', path, { name: 'x'.repeat(101) })).status, 400);
    assert.equal((await it.call('PUT', path, { name: 7 })).status, 400);
    assert.equal((await it.call('PUT', path, { name: 'a\u0000' })).status, 400);
  });

  test('the owner is told when a webhook fails, works again and is switched off', async (t) => {
    const quick = { durable: { steps: [0.01, 0.01, 0.01, 0.01], jitter: 0, timeoutMs: 30_000 } };
    const it = await start(t, { webhooks: { retry: quick } });
    const path = '/v0/webhooks/notifications';
    assert.deepEqual((await it.call('GET', path)).body, { url: null, format: null });
    for (const [body, text] of [
      [{}, /url must be a string/],
      [{ url: 'http://169.254.169.254/' }, /^url: /],
      [{ url: `${it.receiver.url}/notices`, format: 'mail' }, /format: must be one of json, slack/],
    ] as const) {
      const refused = await it.call('PUT', path, body);
      assert.equal(refused.status, 400);
      assert.match((refused.body as { error: string }).error, text);
    }
    const url = `${it.receiver.url}/notices`;
    assert.deepEqual((await it.call('PUT', path, { url })).body, { url, format: 'json' });
    const { webhookID } = await it.create({ name: 'Deposits', webhookURL: `${it.receiver.url}/hook` });
    const notices = () =>
      it.receiver.received.filter((one) => one.url === '/notices').map(({ body }) => JSON.parse(String(body)));
    const told = async (count: number) => {
      await until(() => notices().length >= count, `${count} notices`);
      return notices()[count - 1];
    };
    it.receiver.route('/hook', answer(500));
    await it.event('a');
    const failing = await told(1);
    assert.equal(failing.type, 'webhook.failing');
    assert.deepEqual(
      [failing.data.webhookID, failing.data.name, failing.data.host],
      [webhookID, 'Deposits', new URL(it.receiver.url).host],
    );
    it.receiver.route('/hook', answer(200));
    await it.event('b');
    assert.equal((await told(2)).type, 'webhook.recovered');
    // The first event is delivered too: what still waited would fail again.
    await until(async () => {
      const [health] = (await it.call('GET', '/v0/webhooks/health')).body as { readonly waiting: number }[];
      return health?.waiting === 0;
    }, 'nothing waits');
    assert.deepEqual((await it.call('PUT', path, { url, format: 'slack' })).body, { url, format: 'slack' });
    it.receiver.route('/hook', answer(410));
    await it.event('c');
    assert.match((await told(3)).text, /^Webhook Deposits \(127\.0\.0\.1:\d+\) was switched off/);
    assert.deepEqual((await it.call('PUT', path, { url: null })).body, { url: null, format: null });
    assert.equal(notices().length, 3, 'each change once');
  });
});
