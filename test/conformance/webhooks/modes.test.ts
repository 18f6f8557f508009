/** Batches, order, holding and resending: the optional modes of a webhook. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { answer, type Step } from '../../helpers/receiver.ts';
import { eachStore } from '../../helpers/store.ts';
import { addressOf, makeBlock, signatureOf } from './blocks.ts';
import type { HarnessOptions } from './harness.ts';
import { header, patient, stage, verify } from './stage.ts';

const named = (body: Buffer): string[] =>
  (JSON.parse(String(body)) as { transaction: { signatures: string[] } }[]).map(
    ({ transaction }) => transaction.signatures[0] ?? '',
  );
const states = (all: readonly { readonly status: string }[]): string[] => all.map(({ status }) => status);

eachStore('webhook modes', (engine) => {
  const start = async (t: TestContext, options: Partial<HarnessOptions> = {}) =>
    await stage(t, { store: await engine.store(t), ...options });

  test('a batch is one request, and every attempt sends the same bytes', async (t) => {
    const it = await start(t, patient);
    const hook = await it.create({ batchSize: 10 });
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    it.receiver.script(answer(500), answer(503));
    await it.event(...names);
    const all = await it.finished(hook.webhookID);
    assert.deepEqual(
      states(all),
      names.map(() => 'delivered'),
    );
    assert.equal(it.receiver.received.length, 3);
    assert.equal(new Set(it.receiver.received.map(({ body }) => String(body))).size, 1);
    const [request] = it.receiver.received;
    assert.ok(request);
    verify(hook.signingSecret, request);
    assert.deepEqual(named(request.body), names.map(signatureOf));
    const id = createHash('sha256')
      .update(`${hook.webhookID}:${names.map(signatureOf).join(',')}`)
      .digest('hex');
    assert.deepEqual(
      it.receiver.received.map((one) => header(one, 'webhook-id')),
      Array.from({ length: 3 }, () => `msg_${id.slice(0, 32)}`),
    );
    for (const { attempts } of all)
      assert.deepEqual(
        attempts.map(({ statusCode }) => statusCode),
        [500, 503, 200],
      );
    assert.deepEqual(await it.store.read.selectFrom('webhook_batches').selectAll().execute(), []);
  });

  test('a batch in flight shares the outcome of its request, whatever happens to its webhook', async (t) => {
    for (const [method, body] of [
      ['PATCH', { active: false }],
      ['PUT', { batchSize: 1 }],
    ] as const) {
      // With room for more in flight, deliveries outside the batch may be sent in parallel.
      const it = await start(t, { webhooks: { ...patient.webhooks, concurrency: { perWebhook: 1 } } });
      const hook = await it.create({ batchSize: 10 });
      it.receiver.script({ ...answer(200), delayMs: 1_500 } as Step);
      await it.event('a', 'b', 'c');
      await it.receiver.waitFor(1);
      assert.equal((await it.call(method, `/v0/webhooks/${hook.webhookID}`, body)).status, 200);
      assert.deepEqual(states(await it.finished(hook.webhookID)), ['delivered', 'delivered', 'delivered']);
      assert.equal(it.receiver.received.length, 1);
      assert.deepEqual(await it.store.read.selectFrom('webhook_batches').selectAll().execute(), []);
    }
  });

  test('a batch that waits for its retry ends with its webhook, or continues one by one', async (t) => {
    const slow = { durable: { steps: [3_600], jitter: 0, timeoutMs: 30_000 } };
    // With room for more in flight, deliveries outside the batch may be sent in parallel.
    const it = await start(t, { webhooks: { retry: slow, concurrency: { perWebhook: 1 } } });
    const tried = async () => {
      const hook = await it.create({ batchSize: 10, accountAddresses: [addressOf(1)] });
      it.receiver.script(answer(500));
      const before = it.receiver.received.length;
      await it.event(`a${before}`, `b${before}`, `c${before}`);
      await it.receiver.waitFor(before + 1);
      for (let left = 1; left > 0; await new Promise((resolve) => setTimeout(resolve, 10))) {
        left = (await it.deliveries(hook.webhookID)).filter(({ attempts }) => attempts.length === 0).length;
      }
      return hook.webhookID;
    };
    const off = await tried();
    await it.call('PATCH', `/v0/webhooks/${off}`, { active: false });
    assert.deepEqual(states(await it.deliveries(off)), ['discarded', 'discarded', 'discarded']);
    const alone = await tried();
    await it.call('PUT', `/v0/webhooks/${alone}`, { batchSize: 1 });
    await it.receiver.waitFor(4);
    assert.deepEqual(await it.store.read.selectFrom('webhook_batches').selectAll().execute(), []);
    assert.deepEqual(
      it.receiver.received.map(({ body }) => named(body).length),
      [3, 3, 1, 1],
    );
  });

  test('a batch ends at its size and at a megabyte, and fails as a whole', async (t) => {
    const it = await start(t, { webhooks: { ...patient.webhooks, concurrency: { perWebhook: 1 } } });
    const hook = await it.create({ batchSize: 3 });
    await it.event('a', 'b', 'c', 'd', 'e', 'f', 'g');
    await it.finished(hook.webhookID);
    assert.deepEqual(
      it.receiver.received.map(({ body }) => named(body).length),
      [3, 3, 1],
    );
    const big = Array.from({ length: 4 }, (_, at) => ({ name: `big${at}`, keys: [2], padBytes: 400_000 }));
    const wide = await it.create({ batchSize: 100, accountAddresses: [addressOf(2)] });
    it.receiver.setFallback(answer(403));
    await it.apply(makeBlock({ slot: 900, transactions: big }));
    assert.deepEqual(states(await it.finished(wide.webhookID)), ['failed', 'failed', 'failed', 'failed']);
    assert.deepEqual(
      it.receiver.received.slice(3).map(({ body }) => named(body).length),
      [2, 2],
    );
  });

  test('ordered: one at a time, and no delivery overtakes one that is retried', async (t) => {
    const it = await start(t, patient);
    const hook = await it.create({ ordered: true });
    it.receiver.script(answer(500), answer(500), answer(200), answer(403));
    const names = ['a', 'b', 'c', 'd', 'e'];
    await it.event('a', 'b');
    await it.event('c', 'd', 'e');
    const all = await it.finished(hook.webhookID);
    assert.deepEqual(
      it.receiver.received.flatMap(({ body }) => named(body)),
      ['a', 'a', 'a', 'b', 'c', 'd', 'e'].map(signatureOf),
    );
    assert.deepEqual(states(all).reverse(), ['delivered', 'failed', 'delivered', 'delivered', 'delivered']);
    assert.equal(names.length, all.length);
  });

  test('hold: events of the time in which it was off come afterwards, in the order of their blocks', async (t) => {
    const it = await start(t, patient);
    const hook = await it.create({ onInactive: 'hold' });
    const path = `/v0/webhooks/${hook.webhookID}`;
    assert.equal((await it.call('PATCH', path, { active: false })).body.active, false);
    const names = ['a', 'b', 'c', 'd'];
    for (const name of names) await it.event(name);
    assert.deepEqual(
      states(await it.deliveries(hook.webhookID)),
      names.map(() => 'pending'),
    );
    assert.deepEqual(
      (await it.deliveries(hook.webhookID)).map(({ reason }) => reason),
      names.map(() => 'webhook inactive'),
    );
    await it.call('PATCH', path, { active: true });
    await it.finished(hook.webhookID);
    assert.deepEqual(it.receiver.received.flatMap(({ body }) => named(body)).sort(), names.map(signatureOf).sort());
  });

  test('hold: what waits when it is switched off is kept, by hand and by itself; its bound pushes out the oldest', async (t) => {
    const it = await start(t, { deliver: false, webhooks: { hold: { maxRows: 3 } } });
    const hook = await it.create({ onInactive: 'hold' });
    const other = await it.create({});
    const path = `/v0/webhooks/${hook.webhookID}`;
    for (const name of ['a', 'b', 'c', 'd', 'e']) await it.event(name);
    await it.call('PATCH', path, { active: false });
    await it.call('PATCH', `/v0/webhooks/${other.webhookID}`, { active: false });
    const seen = async (id = hook.webhookID) =>
      (await it.deliveries(id)).map(({ status, reason }) => `${status}: ${reason}`).reverse();
    const [kept, pushed] = ['pending: webhook inactive', 'discarded: too many held'];
    assert.deepEqual(await seen(), [pushed, pushed, kept, kept, kept]);
    assert.deepEqual(
      await seen(other.webhookID),
      Array.from({ length: 5 }, () => 'discarded: webhook disabled'),
    );
    await it.event('f', 'g');
    assert.deepEqual(await seen(), [pushed, pushed, pushed, pushed, kept, kept, kept]);
    // A webhook that no longer holds has nothing to keep.
    await it.call('PUT', path, { onInactive: 'drop' });
    assert.deepEqual(
      (await seen()).filter((text) => text === kept),
      [],
    );
    await it.call('PATCH', path, { active: true });
    await it.event('h');
    assert.equal((await seen()).at(-1), 'pending: null');
  });

  test('a range of time is sent again, oldest first; what belongs to no block any more is not', async (t) => {
    const it = await start(t, patient);
    const hook = await it.create();
    it.receiver.setFallback(answer(403));
    await it.event('a');
    await it.event('b');
    await it.finished(hook.webhookID);
    await it.runner.drain();
    const gone = await it.event('c');
    await it.revert(gone);
    const post = (path: string, body: object) => it.call('POST', `/v0/webhooks/${hook.webhookID}/${path}`, body);
    const since = new Date(Date.now() - 3_600_000).toISOString();
    assert.deepEqual(await post('recover', { since }), { status: 202, body: { queued: 2, remaining: 0 } });
    assert.deepEqual(states(await it.deliveries(hook.webhookID)), ['discarded', 'pending', 'pending']);
    assert.deepEqual((await post('recover', { since })).body, { queued: 0, remaining: 0 });
    assert.deepEqual((await post('replay', { since, status: 'all' })).body, { replayed: 0, hasMore: false });
    for (const [body, text] of [
      [{}, 'since must be unix seconds or an ISO 8601 date'],
      [{ since: 'yesterday' }, 'since must be unix seconds or an ISO 8601 date'],
      [{ since: '2999-01-01' }, 'since must not be in the future'],
      [{ since: 1_000 }, 'since: deliveries are kept for 14 days'],
      [{ since, until: 1_000 }, 'until must not be before since'],
    ] as const) {
      assert.deepEqual(await post('recover', body), { status: 400, body: { error: text, code: 400 } });
    }
    await it.call('PATCH', `/v0/webhooks/${hook.webhookID}`, { active: false });
    assert.equal((await post('recover', { since })).status, 409);
  });

  test('a delivery of a batch is resent with its batch, under the id that its receiver knows', async (t) => {
    const it = await start(t, patient);
    const hook = await it.create({ batchSize: 5 });
    it.receiver.setFallback(answer(403));
    await it.event('a', 'b');
    const [{ deliveryId = '' } = {}] = await it.finished(hook.webhookID);
    assert.equal(it.receiver.received.length, 1);
    it.receiver.setFallback(answer(500));
    const since = new Date(Date.now() - 3_600_000).toISOString();
    const path = `/v0/webhooks/${hook.webhookID}`;
    const resend = () => it.call('POST', `${path}/deliveries/${deliveryId}/resend`);
    const attempts = async () => (await it.finished(hook.webhookID)).map((one) => one.attempts.length);
    // In a range each request gets one attempt; a single resend gets a new series.
    assert.equal((await it.call('POST', `${path}/recover`, { since })).body.queued, 2);
    assert.deepEqual(await attempts(), [2, 2]);
    assert.equal((await resend()).status, 202);
    assert.deepEqual(await attempts(), [5, 5]);
    it.receiver.setFallback(answer(200));
    await resend();
    assert.deepEqual(states(await it.finished(hook.webhookID)), ['delivered', 'delivered']);
    await resend();
    assert.deepEqual(await attempts(), [7, 7]);
    const told = new Set(it.receiver.received.map((one) => `${header(one, 'webhook-id')} ${one.body}`));
    assert.deepEqual([it.receiver.received.length, told.size], [7, 1]);
    await it.call('PUT', path, { batchSize: 1 });
    await resend();
    assert.deepEqual(await attempts(), [8, 7]);
    const alone = createHash('sha256')
      .update(`${hook.webhookID}:${signatureOf('b')}`)
      .digest('hex');
    assert.equal(header(it.receiver.received[7]!, 'webhook-id'), `msg_${alone.slice(0, 32)}`);
  });

  test('replayed events may form new batches, and are resent as last sent', async (t) => {
    const it = await start(t, patient);
    const hook = await it.create({ batchSize: 5 });
    it.receiver.setFallback(answer(403));
    const blocks = ['a', 'b'].map((name, at) => makeBlock({ slot: 50 + at, transactions: [{ name, keys: [1] }] }));
    for (const block of blocks) await it.apply(block);
    await it.finished(hook.webhookID);
    it.receiver.setFallback(answer(200));
    const path = `/v0/webhooks/${hook.webhookID}`;
    await it.call('POST', `${path}/replay`, { fromSlot: 50, toSlot: 51, force: true });
    for (const block of blocks) await it.replay(block);
    const all = await it.finished(hook.webhookID);
    assert.deepEqual(states(all), ['delivered', 'delivered']);
    for (const { deliveryId } of all) {
      assert.equal((await it.call('POST', `${path}/deliveries/${deliveryId}/resend`)).status, 202);
      assert.deepEqual(states(await it.finished(hook.webhookID)), ['delivered', 'delivered']);
    }
    assert.deepEqual(await it.store.read.selectFrom('webhook_batches').selectAll().execute(), []);
  });

  test('slots are read again for one webhook: once, or again with force, and for no other webhook', async (t) => {
    const it = await start(t, patient);
    const [hook, other] = [await it.create({ accountAddresses: [addressOf(2)] }), await it.create()];
    const blocks = ['a', 'b', 'c'].map((name, at) =>
      makeBlock({ slot: 50 + at, transactions: [{ name, keys: [1, 2] }] }),
    );
    await it.apply(blocks[1]!);
    await it.finished(hook.webhookID);
    const post = (body: object) => it.call('POST', `/v0/webhooks/${hook.webhookID}/replay`, body);
    assert.equal((await post({ fromSlot: 5, toSlot: 4 })).status, 400);
    assert.equal(
      (await post({ fromSlot: 0, toSlot: 18_000 })).body.error,
      'at most 18000 slots at once, 2 hours of the chain',
    );
    const begun = await post({ fromSlot: 50, toSlot: 51 });
    assert.deepEqual([begun.status, begun.body.fromSlot, begun.body.toSlot], [202, 50, 51]);
    assert.deepEqual((await post({ fromSlot: 50, toSlot: 51 })).body.error, 'a replay of this webhook is running');
    for (const block of blocks) await it.replay(block);
    const all = await it.finished(hook.webhookID);
    // The third block is outside of the range, and the second was delivered before.
    assert.deepEqual(all.map(({ deliveryId }) => deliveryId).length, 2);
    assert.equal((await it.deliveries(other.webhookID)).length, 1);
    const record = await it.store.read.selectFrom('webhook_replays').select(['queued', 'finished_at']).execute();
    assert.deepEqual(
      record.map(({ queued, finished_at }) => [Number(queued), finished_at]),
      [[1, null]],
    );
    await it.store.write(async (tx) => {
      await tx.db.updateTable('webhook_replays').set({ finished_at: 1 }).execute();
    });
    const before = it.receiver.received.length;
    await post({ fromSlot: 50, toSlot: 51, force: true });
    for (const block of blocks) await it.replay(block);
    await it.finished(hook.webhookID);
    assert.equal(it.receiver.received.length, before + 2);
    assert.equal((await it.deliveries(hook.webhookID)).length, 2);
  });
});
