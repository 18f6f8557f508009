import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { LEASE_EXTRA_MS } from '../../../src/jobs/claim.ts';
import { createOutbox } from '../../../src/jobs/outbox.ts';
import type { Owner } from '../../../src/ports/processes.ts';
import { openOwner } from '../../../src/store/owner.ts';
import { DONE, makeKind, makeRunner, migrateJobs, newJobs } from '../../helpers/jobs.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';

const KIND = 'test.job';

eachStore('job recovery and order', (engine) => {
  test('a job whose process died runs again after its lease, and fails when it was lost too often', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const clock = createManualClock();
    const outbox = createOutbox({ store, clock, wake: () => {} });
    const ran: string[] = [];
    const kind = makeKind(async (job) => {
      ran.push(job.key);
      return DONE;
    });
    const runner = makeRunner(t, { store, kinds: [kind], clock, config: { maxAttempts: 3 } });
    await store.write((tx) => runner.enqueue(tx, newJobs(3)));
    const lease = { state: 'running', claims: 1, lease_until: clock.now() + 1_000 } as const;
    await store.write(async ({ db }) => {
      await db.updateTable('outbox').set(lease).where('key', 'in', ['key-0', 'key-1']).execute();
      await db.updateTable('outbox').set({ lost: 2 }).where('key', '=', 'key-1').execute();
    });
    await runner.start();
    await until(async () => (await outbox.get(KIND, 'key-2'))?.state === 'done');
    assert.deepEqual(ran, ['key-2'], 'leases hold');
    // The sweep comes once in 30 s.
    await until(async () => {
      const row = await store.read.selectFrom('outbox').selectAll().where('key', '=', 'key-0').executeTakeFirst();
      // The lease of its second claim must not end while a slow server writes the outcome.
      if (row?.['claims'] === 1) await clock.advance(10_000);
      return row?.['state'] === 'done';
    });
    assert.deepEqual(ran, ['key-2', 'key-0']);
    const lost = await outbox.get(KIND, 'key-1');
    assert.deepEqual([lost?.state, lost?.error], ['failed', 'the process that ran it ended without an outcome']);
  });

  test('jobs of an ended process of this machine run again at once; a living, paused or remote process keeps its lease', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-owner-'));
    t.after(() => rmSync(dataDir, { recursive: true, force: true }));
    const clock = createManualClock();
    const outbox = createOutbox({ store, clock, wake: () => {} });
    const stuck = makeKind(() => new Promise(() => {}), { concurrency: 2 });
    const claimTwo = async (owner: Owner | null) => {
      const runner = makeRunner(t, { store, kinds: [stuck], clock, owner, config: { claimAhead: 0 } });
      const before = (await outbox.count({ kind: KIND, states: ['running'] })) ?? 0;
      await runner.start();
      await until(async () => (await outbox.count({ kind: KIND, states: ['running'] })) === before + 2);
    };
    const feeder = makeRunner(t, { store, kinds: [stuck], clock });
    await store.write((tx) => feeder.enqueue(tx, newJobs(8)));
    const [dies, lives] = [openOwner(dataDir), openOwner(dataDir)];
    assert.ok(dies !== null && lives !== null);
    await claimTwo(dies);
    await claimTwo(lives);
    await claimTwo(null);
    const elsewhere = mkdtempSync(join(tmpdir(), 'parhelion-owner-'));
    t.after(() => rmSync(elsewhere, { recursive: true, force: true }));
    const foreign = openOwner(elsewhere);
    await claimTwo(foreign);
    foreign?.close();
    // An older version has claimed a job again whose last owner has ended, and knows of no owners.
    await store.write(({ db }) => db.updateTable('outbox').set({ claims: 2 }).where('key', '=', 'key-1').execute());
    // Its end, as the operating system makes it: the lock is gone, and the file stays.
    copyFileSync('/dev/null', join(dataDir, 'owners', 'kept'));
    dies.close();
    renameSync(join(dataDir, 'owners', 'kept'), join(dataDir, 'owners', dies.id));

    const ran: string[] = [];
    const kind = makeKind(async (job) => {
      ran.push(job.key);
      return DONE;
    });
    const next = openOwner(dataDir);
    const runner = makeRunner(t, { store, kinds: [kind], clock, owner: next });
    await runner.start();
    await until(async () => (await outbox.count({ kind: KIND, states: ['done'] })) === 1);
    await clock.advance(10_000);
    assert.deepEqual(ran, ['key-0'], 'only what is certainly abandoned');
    assert.ok(runner.log.lines.some(({ message }) => /whose process ended/.test(message)));
    lives.close();
  });

  test('a job that ends its process again and again waits for its leases after half of its claims', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const clock = createManualClock();
    const outbox = createOutbox({ store, clock, wake: () => {} });
    const mark = (lost: number) => ({
      state: 'running',
      claims: 1,
      lost,
      owner: 'dead:1',
      lease_until: clock.now() + 9_000,
    });
    const kind = makeKind(async () => DONE);
    const owner: Owner = { id: 'own', isGone: (id) => id === 'dead', forgetGone() {}, close() {} };
    const runner = makeRunner(t, { store, kinds: [kind], clock, owner, config: { maxAttempts: 4 } });
    await store.write((tx) => runner.enqueue(tx, newJobs(4)));
    await store.write(async ({ db }) => {
      for (const lost of [0, 1, 2, 3])
        await db.updateTable('outbox').set(mark(lost)).where('key', '=', `key-${lost}`).execute();
    });
    await runner.start();
    await until(async () => (await outbox.count({ kind: KIND, states: ['done'] })) === 2);
    const states = await Promise.all([0, 1, 2, 3].map(async (n) => (await outbox.get(KIND, `key-${n}`))?.state));
    assert.deepEqual(states, ['done', 'done', 'running', 'running']);
  });

  test('an outcome that comes after another process took the job counts no more', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const clock = createManualClock();
    const outbox = createOutbox({ store, clock, wake: () => {} });
    const acked: string[] = [];
    let open = () => {};
    const kind = makeKind(() => new Promise((resolve) => (open = () => resolve(DONE))), {
      ack: async (_tx, list) => void acked.push(...list.map(({ job }) => job.key)),
    });
    const runner = makeRunner(t, { store, kinds: [kind], clock });
    await store.write((tx) => runner.enqueue(tx, newJobs(1)));
    await runner.start();
    await until(async () => (await outbox.get(KIND, 'key-0'))?.state === 'running');
    const leaseUntil = clock.now() + kind.timeoutMs + LEASE_EXTRA_MS;
    const row = await store.read.selectFrom('outbox').selectAll().executeTakeFirstOrThrow();
    assert.equal(row['lease_until'], leaseUntil);
    await store.write(({ db }) => db.updateTable('outbox').set({ claims: 2 }).execute());
    open();
    await until(async () => (await runner.metrics.text()).includes('parhelion_jobs_late_outcomes_total 1'));
    assert.deepEqual(acked, []);
    assert.equal((await outbox.get(KIND, 'key-0'))?.state, 'running');
  });

  test('retries that became due while nobody was there are spread over half a minute', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const clock = createManualClock();
    const started: number[] = [];
    const kind = makeKind(async ({ attempts }) => {
      if (attempts > 0) started.push(clock.now());
      return DONE;
    });
    const runner = makeRunner(t, { store, kinds: [kind], clock });
    await store.write((tx) => runner.enqueue(tx, newJobs(40, { runAt: clock.now() - 100_000 })));
    await store.write(({ db }) => db.updateTable('outbox').set({ attempts: 1 }).where('id', '>', 10).execute());
    const outbox = createOutbox({ store, clock, wake: () => {} });
    const start = clock.now();
    await runner.start();
    await until(async () => (await outbox.count({ kind: KIND, states: ['done'] })) >= 10);
    assert.ok(started.length < 5, 'first attempts go at once, retries wait');
    // What is due is done before time goes on: a slow database does not make the retries late.
    await until(async () => {
      const open = await store.read.selectFrom('outbox').select('run_at').where('state', '!=', 'done').execute();
      const isDue = open.some((row) => (row['run_at'] as number) <= clock.now());
      await clock.advance(isDue ? 25 : 1_000);
      return open.length === 0;
    });
    assert.ok(started.every((time) => time <= start + 45_000));
    assert.ok(new Set(started).size > 15, 'at different times');
  });

  test('a long queue delays no other group', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const order: string[] = [];
    const kind = makeKind(async (job) => {
      order.push(job.group);
      return DONE;
    });
    const runner = makeRunner(t, { store, kinds: [kind], config: { concurrency: 8 } });
    const outbox = createOutbox({ store, clock: createManualClock(), wake: () => {} });
    await store.write(async (tx) => {
      await runner.enqueue(tx, newJobs(1_500, { group: 'long', runAt: 1 }));
      await runner.enqueue(
        tx,
        newJobs(30, (index) => ({ key: `short-${index}`, group: `short-${index}`, runAt: 1_000 })),
      );
    });
    await runner.start();
    await until(async () => (await outbox.count({ kind: KIND, states: ['done'] })) === 1_530);
    const last = order.findLastIndex((group) => group !== 'long');
    assert.ok(last < 200, `the last job of a short queue was number ${last}`);
  });

  test('an ordered group goes one by one, past a retry and never around it', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const clock = createManualClock();
    const order: string[] = [];
    let running = 0;
    const kind = makeKind(async ({ key, attempts }) => {
      running += 1;
      assert.equal(running, 1);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      order.push(`${key}/${attempts}`);
      if (key === 'key-2' && attempts < 2) return { kind: 'retry', runAt: clock.now() + 60_000, error: 'later' };
      return key === 'key-1' ? { kind: 'failed', error: 'final' } : DONE;
    });
    const runner = makeRunner(t, { store, kinds: [kind], clock });
    const outbox = createOutbox({ store, clock, wake: () => {} });
    // Put in backwards: the position counts.
    const jobs = newJobs(5, (index) => ({ position: index })).reverse();
    await store.write((tx) => runner.enqueue(tx, jobs));
    await runner.start();
    await until(async () => {
      await clock.advance(1_000);
      return (await outbox.count({ kind: KIND, states: ['done', 'failed'] })) === 5;
    });
    assert.deepEqual(order, ['key-0/0', 'key-1/0', 'key-2/0', 'key-2/1', 'key-2/2', 'key-3/0', 'key-4/0']);
  });
});
