import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOutbox } from '../../../src/jobs/outbox.ts';
import { DONE, makeKind, makeRunner, migrateJobs, newJobs } from '../../helpers/jobs.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';

const KIND = 'test.job';
const LEASE_MS = 9_000;

eachStore('short leases', (engine) => {
  test('a job that runs longer than its lease stays with its process', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const clock = createManualClock();
    const outbox = createOutbox({ store, clock, wake: () => {} });
    let started = 0;
    let open = () => {};
    const kind = makeKind(
      () => {
        started += 1;
        return new Promise((resolve) => (open = () => resolve(DONE)));
      },
      { timeoutMs: 120_000, leaseMs: LEASE_MS },
    );
    const runners = [0, 1].map(() => makeRunner(t, { store, kinds: [kind], clock }));
    await store.write(async (tx) => runners[0]?.enqueue(tx, newJobs(1)));
    for (const runner of runners) await runner.start();
    await until(async () => started === 1);
    const leaseUntil = async () =>
      Number((await store.read.selectFrom('outbox').select('lease_until').executeTakeFirstOrThrow())['lease_until']);
    for (let seconds = 0; seconds < 60; seconds += 3) {
      await clock.advance(3_000);
      // Renewed a third of a lease ago at the latest.
      await until(async () => (await leaseUntil()) >= clock.now() + LEASE_MS - 3_000);
    }
    open();
    await until(async () => (await outbox.get(KIND, 'key-0'))?.state === 'done');
    assert.equal(started, 1);
  });

  test('jobs of an ended process are soon claimed by another one', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const clock = createManualClock();
    const outbox = createOutbox({ store, clock, wake: () => {} });
    const runner = makeRunner(t, {
      store,
      clock,
      kinds: [makeKind(async () => DONE, { timeoutMs: 120_000, leaseMs: LEASE_MS })],
    });
    await store.write((tx) => runner.enqueue(tx, newJobs(1)));
    const lease = { state: 'running', claims: 1, lease_until: clock.now() + LEASE_MS } as const;
    await store.write(({ db }) => db.updateTable('outbox').set(lease).execute());
    const startedMs = clock.now();
    await runner.start();
    await until(async () => {
      await clock.advance(1_000);
      return (await outbox.get(KIND, 'key-0'))?.state === 'done';
    });
    assert.ok(clock.now() - startedMs <= 4 * LEASE_MS, `${clock.now() - startedMs} ms`);
  });
});
