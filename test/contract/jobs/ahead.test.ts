/** Jobs that are claimed before a slot is free for them: the promises of the others hold for them too. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { createOutbox } from '../../../src/jobs/outbox.ts';
import type { Job, JobKind, JobOutcome } from '../../../src/plugin/plugin.ts';
import type { Store } from '../../../src/ports/store.ts';
import { DONE, makeKind, makeRunner, migrateJobs, newJobs } from '../../helpers/jobs.ts';
import { eachStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';

const KIND = 'test.job';

/** Handlers that wait until they are let go. */
function gated(more: Partial<JobKind> = {}) {
  const open: { job: Job; prepared: unknown; end(outcome: JobOutcome): void }[] = [];
  const ran: string[] = [];
  const kind: JobKind = {
    ...makeKind(async () => DONE, more),
    run: (job, prepared) =>
      new Promise((resolve) => {
        ran.push(job.key);
        open.push({ job, prepared, end: resolve });
      }),
  };
  return { kind, open, ran };
}

async function openStore(store: Store) {
  await migrateJobs(store);
  return createOutbox({ store, clock: createSystemClock(), wake: () => {} });
}

eachStore('jobs claimed ahead', (engine) => {
  test('wait with a lease, within the bound, and run in their order', async (t) => {
    const store = await engine.store(t);
    const outbox = await openStore(store);
    const { kind, open, ran } = gated({ groupConcurrency: () => 2 });
    const runner = makeRunner(t, { store, kinds: [kind], config: { concurrency: 8, claimAhead: 8 } });
    await store.write((tx) => runner.enqueue(tx, newJobs(40)));
    await runner.start();
    await until(() => open.length === 2);
    // A quarter of what may wait is kept for groups that have nothing yet.
    assert.equal(await outbox.count({ kind: KIND, states: ['running'] }), 2 + 6);
    while (ran.length < 40 || open.length > 0) {
      assert.ok(open.length <= 2, 'the limit of the group holds');
      open.shift()?.end(DONE);
      await until(() => open.length === 2 || (ran.length === 40 && open.length < 2));
    }
    assert.deepEqual(
      ran,
      newJobs(40).map(({ key }) => key),
    );
    await until(async () => (await outbox.count({ kind: KIND, states: ['done'] })) === 40);
  });

  test('fill the claim, up to the reserved room of all', async (t) => {
    const store = await engine.store(t);
    await openStore(store);
    const claims: number[] = [];
    const { kind, open } = gated({ prepare: async (jobs) => claims.push(jobs.length) });
    const config = { concurrency: 4, claimBatch: 12, claimAhead: 16 };
    const runner = makeRunner(t, { store, kinds: [kind], config });
    await store.write((tx) => runner.enqueue(tx, newJobs(100)));
    await runner.start();
    await until(() => open.length === 4);
    runner.wake();
    await until(() => claims.length >= 2);
    assert.deepEqual(claims.slice(0, 2), [12, 4]);
  });

  test('are given back by a drain, without an attempt and without a trace', async (t) => {
    const store = await engine.store(t);
    const outbox = await openStore(store);
    const { kind, open, ran } = gated();
    const runner = makeRunner(t, { store, kinds: [kind], config: { concurrency: 2, claimAhead: 16 } });
    await store.write((tx) => runner.enqueue(tx, newJobs(10)));
    await runner.start();
    await until(() => open.length === 2);
    assert.ok((await outbox.count({ kind: KIND, states: ['running'] })) > 2);
    const drained = runner.drain();
    for (const { end } of open) end(DONE);
    await drained;
    assert.equal(ran.length, 2);
    const rows = await store.read.selectFrom('outbox').selectAll().where('state', '=', 'pending').execute();
    assert.equal(rows.length, 8);
    for (const row of rows) {
      assert.deepEqual([row['attempts'], row['claims'], row['lost'], row['lease_until']], [0, 0, 0, null]);
    }
    // Another process takes them at once.
    const second = gated();
    const next = makeRunner(t, { store, kinds: [second.kind] });
    await next.start();
    await until(() => second.open.length === 8);
    for (const { end } of second.open) end(DONE);
    await until(async () => (await outbox.count({ kind: KIND, states: ['done'] })) === 10);
  });

  test('do not delay a group that comes later', async (t) => {
    const store = await engine.store(t);
    await openStore(store);
    const { kind, open, ran } = gated();
    const runner = makeRunner(t, { store, kinds: [kind], config: { concurrency: 4, claimAhead: 16 } });
    await store.write((tx) => runner.enqueue(tx, newJobs(100)));
    await runner.start();
    await until(() => open.length === 4);
    await store.write((tx) => runner.enqueue(tx, newJobs(1, { key: 'late', group: 'other' })));
    await until(async () => {
      const row = await store.read.selectFrom('outbox').select('state').where('key', '=', 'late').executeTakeFirst();
      return row?.['state'] === 'running';
    });
    open.shift()?.end(DONE);
    await until(() => ran.length === 5);
    assert.equal(ran[4], 'late', 'the next slot is its');
  });

  test('are loaded again after a wait, so that a change in between counts', async (t) => {
    const store = await engine.store(t);
    await openStore(store);
    let version = 1;
    const { kind, open } = gated({ prepare: async () => version });
    const runner = makeRunner(t, { store, kinds: [kind], config: { concurrency: 1, claimAhead: 16 } });
    await store.write((tx) => runner.enqueue(tx, newJobs(3)));
    await runner.start();
    await until(() => open.length === 1);
    assert.equal(open[0]?.prepared, 1);
    version = 2;
    await new Promise((resolve) => setTimeout(resolve, 150));
    open.shift()?.end(DONE);
    await until(() => open.length === 1);
    assert.equal(open[0]?.prepared, 2);
  });

  test('a runner that has plenty to do does not look at the outbox at every commit', async (t) => {
    const store = await engine.store(t);
    await openStore(store);
    let writes = 0;
    const counted: Store = {
      ...store,
      write: (work) => {
        writes += 1;
        return store.write(work);
      },
    };
    const { kind, open } = gated();
    const runner = makeRunner(t, { store: counted, kinds: [kind], config: { concurrency: 2, claimAhead: 16 } });
    await store.write((tx) => runner.enqueue(tx, newJobs(60)));
    await runner.start();
    await until(() => open.length === 2 && writes > 0);
    await until(
      async () =>
        (await store.read.selectFrom('outbox').where('state', '=', 'running').selectAll().execute()).length > 4,
    );
    writes = 0;
    const startedAt = performance.now();
    for (let at = 0; at < 40; at += 1)
      await store.write((tx) => runner.enqueue(tx, [{ kind: KIND, key: `late ${at}`, group: 'late', payload: null }]));
    const looks = 2 + Math.ceil((performance.now() - startedAt) / 100);
    assert.ok(writes <= looks, `${writes} turns for 40 commits`);
    // What came in meanwhile is not forgotten.
    await until(async () => {
      open.shift()?.end(DONE);
      return (await store.read.selectFrom('outbox').where('state', '!=', 'done').selectAll().execute()).length === 0;
    });
  });
});
