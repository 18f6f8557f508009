/** Deliveries cost credits, and a project without any is paused as a whole. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { createCharges } from '../../../plugins/access/services.ts';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import { accessBed } from '../../helpers/access-harness.ts';
import { answer, startReceiver } from '../../helpers/receiver.ts';
import { eachStore } from '../../helpers/store.ts';
import { patient, stage } from './stage.ts';

/** The connection breaks this many times after an outcome was committed: the commit is not confirmed, and nothing that waited for it runs. */
function losingAnswers(store: Store, times: number): Store {
  let left = times;
  /** One transaction at a time: else one would see the attempts of another that commits meanwhile, and be taken for it. */
  let last: Promise<unknown> = Promise.resolve();
  const attempts = async (tx: StoreTx) =>
    Number((await sql<{ n: number }>`select coalesce(sum(attempts), 0) as n from outbox`.execute(tx.db)).rows[0]?.n);
  return {
    ...store,
    write<T>(work: (tx: StoreTx) => Promise<T>): Promise<T> {
      if (left === 0) return store.write(work);
      const written = last.then(() => writeOne(work));
      last = written.catch(() => undefined);
      return written;
    },
  };

  async function writeOne<T>(work: (tx: StoreTx) => Promise<T>): Promise<T> {
    if (left === 0) return await store.write(work);
    const afterCommit: (() => void)[] = [];
    const { result, isOutcome } = await store.write(async (tx) => {
      const before = (await isMade(tx)) ? await attempts(tx) : 0;
      const result = await work({ ...tx, onCommit: (run) => void afterCommit.push(run) });
      return { result, isOutcome: (await isMade(tx)) && (await attempts(tx)) > before };
    });
    if (isOutcome) {
      left -= 1;
      throw new CodedError('STORE_UNREACHABLE', 'the connection broke', { exitCode: 75, retryable: true });
    }
    for (const run of afterCommit) run();
    return result;
  }
}

/** Whether there is an outbox yet. */
async function isMade({ db, dialect }: StoreTx): Promise<boolean> {
  const tables = dialect === 'sqlite' ? 'sqlite_master' : 'pg_tables';
  const name = dialect === 'sqlite' ? 'name' : 'tablename';
  return (await sql`select 1 from ${sql.table(tables)} where ${sql.ref(name)} = 'outbox'`.execute(db)).rows.length > 0;
}

eachStore('credits of deliveries', (engine) => {
  async function start(t: TestContext, creditsLimit: number, webhooks: object = {}, lost = 0) {
    const store = losingAnswers(await engine.store(t), lost);
    const clock = createSystemClock();
    const bed = await accessBed(store, { clock: clock as never, overrides: { creditsLimit } });
    const charges = createCharges({ ...bed, clock });
    const it = await stage(t, {
      store,
      charges,
      projectId: bed.project.id,
      webhooks: { ...patient.webhooks, ...webhooks },
    });
    t.after(() => bed.meter.stop());
    const used = async () => {
      await bed.meter.flush();
      const { creditsUsed, requests } = await bed.usage();
      return [creditsUsed, requests.webhooks];
    };
    return { ...it, bed, used };
  }

  test('one each, once, for any response and number of attempts', async (t) => {
    const it = await start(t, 1_000);
    const hook = await it.create();
    it.receiver.script(answer(500), answer(500), answer(200), answer(403));
    await it.event('a');
    await it.finished(hook.webhookID);
    await it.event('b');
    await it.finished(hook.webhookID);
    await it.event('c');
    await it.finished(hook.webhookID);
    assert.equal(it.receiver.received.length, 5);
    assert.deepEqual(await it.used(), [3, 3]);
    const batch = await it.create({ batchSize: 10 });
    await it.event('d', 'e', 'f');
    await it.finished(batch.webhookID);
    await it.finished(hook.webhookID);
    // Three for the batch, and three for the first webhook.
    assert.deepEqual(await it.used(), [9, 9]);
    assert.equal((await it.call('POST', `/v0/webhooks/${hook.webhookID}/test`)).body.delivered, true);
    assert.deepEqual(await it.used(), [9, 9]);
  });

  test('one each, also when the writes of first attempts were not confirmed', async (t) => {
    // Were a retry due in the transaction whose commit is not confirmed, its claim would wait for the end of its lease.
    const retry = { ...patient.webhooks.retry, durable: { ...patient.webhooks.retry.durable, steps: [0.3, 0.3] } };
    const it = await start(t, 1_000, { retry }, 4);
    const hook = await it.create();
    it.receiver.script(answer(200), answer(500), answer(200), answer(403));
    for (const name of ['a', 'b', 'c', 'd']) {
      await it.event(name);
      await it.finished(hook.webhookID);
    }
    assert.equal(it.receiver.received.length, 5);
    assert.deepEqual(await it.used(), [4, 4]);
  });

  test('a replay costs what its slots cost, and nothing where it does not begin', async (t) => {
    const it = await start(t, 150);
    const hook = await it.create();
    const replay = (toSlot: number) =>
      it.call('POST', `/v0/webhooks/${hook.webhookID}/replay`, { fromSlot: 1_001, toSlot });
    const refused = await replay(1_151);
    assert.deepEqual([refused.status, refused.body.error], [429, 'too few credits for this replay: it costs 151']);
    assert.equal((await replay(1_100)).status, 202);
    assert.equal((await replay(1_010)).status, 409);
    assert.deepEqual((await it.used())[0], 100);
  });

  test('used up: nothing is sent or lost, the operator is notified once, and deliveries continue with new credits', async (t) => {
    const operator = await startReceiver();
    t.after(() => operator.close());
    const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    const it = await start(t, 2, { operational: { url: operator.url, secret } });
    const hook = await it.create();
    const other = await it.create();
    const holding = await it.create({ onInactive: 'hold' });
    await it.call('PATCH', `/v0/webhooks/${holding.webhookID}`, { active: false });
    for (const name of ['a', 'b', 'c']) await it.event(name);
    const reasons = async (id: string) => (await it.deliveries(id)).map(({ reason }) => reason);
    for (let round = 0; round < 1_000; round += 1) {
      const all = [...(await it.deliveries(hook.webhookID)), ...(await it.deliveries(other.webhookID))];
      const isPaid = all.filter(({ status }) => status === 'delivered').length === 2;
      if (isPaid && all.filter(({ reason }) => reason === 'credits').length === 4) break;
      await sleep(20);
    }
    assert.equal(it.receiver.received.length, 2);
    assert.deepEqual(await it.used(), [2, 2]);
    assert.equal((await it.call('GET', `/v0/webhooks/${hook.webhookID}`)).body.active, true);
    const done = (await it.deliveries(hook.webhookID)).find(({ status }) => status === 'delivered');
    const again = await it.call('POST', `/v0/webhooks/${hook.webhookID}/deliveries/${done?.deliveryId}/resend`);
    if (done !== undefined) assert.equal(again.status, 429);
    await it.start();
    await it.store.write((tx) => it.bed.projects.grant(tx, it.bed.project.id, 100));
    assert.deepEqual(
      (await it.finished(hook.webhookID)).map(({ status }) => status),
      Array.from({ length: 3 }, () => 'delivered'),
    );
    await it.finished(other.webhookID);
    assert.equal(it.receiver.received.length, 6);
    assert.deepEqual(await it.used(), [6, 6]);
    // What waits for another reason still waits.
    assert.deepEqual(
      await reasons(holding.webhookID),
      Array.from({ length: 3 }, () => 'webhook inactive'),
    );
    const told = (await operator.waitFor(1)).map(({ body }) => JSON.parse(String(body)));
    assert.deepEqual(
      told.map(({ type, data }) => [type, data.project, data.reason]),
      [['webhook.paused', it.bed.project.id, 'credits']],
    );
  });

  test('deliveries of a disabled project wait, and the operator sees the reason', async (t) => {
    const operator = await startReceiver();
    t.after(() => operator.close());
    const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    const it = await start(t, 100, { operational: { url: operator.url, secret } });
    const hook = await it.create();
    const { projects, project } = it.bed;
    const set = (isDisabled: boolean) => it.store.write((tx) => projects.change(tx, project.id, { isDisabled }));
    await set(true);
    await it.event('a');
    const told = (await operator.waitFor(1)).map(({ body }) => JSON.parse(String(body)));
    assert.deepEqual(
      told.map(({ type, data }) => [type, data.project, data.reason]),
      [['webhook.paused', project.id, 'disabled']],
    );
    assert.equal(it.receiver.received.length, 0);
    await it.start();
    await set(false);
    assert.deepEqual(
      (await it.finished(hook.webhookID)).map(({ status }) => status),
      ['delivered'],
    );
    assert.deepEqual(await it.used(), [1, 1]);
  });
});
