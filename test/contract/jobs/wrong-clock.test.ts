import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOutbox } from '../../../src/jobs/outbox.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Store } from '../../../src/ports/store.ts';
import { DONE, makeKind, makeRunner, migrateJobs, newJobs } from '../../helpers/jobs.ts';
import { createManualClock, type ManualClock } from '../../helpers/manual-clock.ts';
import { eachStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';

const KIND = 'test.job';
const HOUR_MS = 3_600_000;
const RETRY_MS = 20_000;
/** Two sweeps, and what the clock goes on by while a real store answers: much less than clocks are wrong by here. */
const LATE_MS = 10 * 60_000;

/** The same clock with its wall time shifted by what `byMs` says at each reading. */
const shifted = (clock: ManualClock, byMs: () => number): Clock => ({ ...clock, now: () => clock.now() + byMs() });

eachStore('jobs under a clock that was wrong', (engine) => {
  const bed = async (store: Store) => {
    await migrateJobs(store);
    const clock = createManualClock();
    const outbox = createOutbox({ store, clock, wake: () => {} });
    const kind = (ran: string[], wall: Clock) =>
      makeKind(
        async ({ key, attempts }) => {
          ran.push(`${key}/${attempts}`);
          const isFirst = attempts === 0 && key.endsWith('retried');
          return isFirst ? { kind: 'retry', runAt: wall.now() + RETRY_MS, error: 'later' } : DONE;
        },
        { longestDelayMs: RETRY_MS },
      );
    const done = (count: number) => async () => {
      await clock.advance(1_000);
      return (await outbox.count({ kind: KIND, states: ['done'] })) === count;
    };
    return { clock, outbox, kind, done };
  };

  test('jobs made, planned and leased by a process with a fast clock are done soon after it ends', async (t) => {
    const store = await engine.store(t);
    const { clock, kind, done, outbox } = await bed(store);
    const ahead = shifted(clock, () => HOUR_MS);
    const ran: string[] = [];
    const first = makeRunner(t, { store, kinds: [kind(ran, ahead)], clock: ahead });
    await store.write((tx) =>
      first.enqueue(
        tx,
        newJobs(2, (index) => ({ key: index === 0 ? 'a' : 'retried' })),
      ),
    );
    await first.start();
    await until(() => ran.length === 2);
    await until(async () => (await outbox.get(KIND, 'retried'))?.attempts === 1);
    await first.stop();
    await store.write(async (tx) => {
      await first.enqueue(
        tx,
        newJobs(3, (index) => ({ key: ['b', 'late', 'leased'][index] as string })),
      );
      const { db } = tx;
      await db.updateTable('outbox').set({ created_at: clock.now() }).where('key', '=', 'retried').execute();
      // With a delay of its own, which it keeps.
      const delayed = clock.now() + HOUR_MS + 10_000;
      await db.updateTable('outbox').set({ run_at: delayed }).where('key', '=', 'late').execute();
      const lease = { state: 'running', claims: 1, lease_until: clock.now() + HOUR_MS } as const;
      await db.updateTable('outbox').set(lease).where('key', '=', 'leased').execute();
    });
    const second = makeRunner(t, { store, kinds: [kind(ran, clock)], clock });
    await second.start();
    await until(async () => (await outbox.get(KIND, 'b'))?.state === 'done');
    assert.equal((await outbox.get(KIND, 'late'))?.state, 'pending');
    const start = clock.now();
    await until(done(5));
    assert.ok(clock.now() - start < 120_000, `${clock.now() - start} ms of the clock`);
    assert.deepEqual([...ran].sort(), ['a/0', 'b/0', 'late/0', 'leased/0', 'retried/0', 'retried/1']);
  });

  test('a clock that is set back while the daemon runs holds nothing up', async (t) => {
    const store = await engine.store(t);
    const { clock, kind, done } = await bed(store);
    let byMs = HOUR_MS;
    const wall = shifted(clock, () => byMs);
    const ran: string[] = [];
    const runner = makeRunner(t, { store, kinds: [kind(ran, wall)], clock: wall });
    await runner.start();
    await store.write((tx) =>
      runner.enqueue(
        tx,
        newJobs(4, (index) => ({ key: `${index}-retried` })),
      ),
    );
    await until(() => ran.length === 4);
    await until(async () => {
      const rows = await store.read.selectFrom('outbox').select('state').execute();
      return rows.every((row) => row['state'] === 'pending');
    });
    byMs = 0;
    const start = clock.now();
    await until(done(4));
    assert.ok(clock.now() - start < 120_000, `${clock.now() - start} ms of the clock`);
  });

  test('jobs of a running process with a fast clock are late by at most two sweeps', async (t) => {
    const store = await engine.store(t);
    const { clock, kind, done } = await bed(store);
    const ahead = shifted(clock, () => HOUR_MS);
    const ran: string[] = [];
    const maker = makeRunner(t, { store, kinds: [], clock: ahead });
    const runner = makeRunner(t, { store, kinds: [kind(ran, clock)], clock });
    await runner.start();
    await clock.advance(40_000);
    await store.write((tx) => maker.enqueue(tx, newJobs(3)));
    const start = clock.now();
    await until(done(3));
    assert.ok(clock.now() - start < LATE_MS, `${clock.now() - start} ms of the clock`);
  });

  test('retries that were planned in a moment when the clock was ahead are not late, however long its kind may wait', async (t) => {
    const store = await engine.store(t);
    const { clock, outbox } = await bed(store);
    let byMs = 0;
    const wall = shifted(clock, () => byMs);
    const patient = (delayMs: number) => ({ kind: 'retry', runAt: wall.now() + delayMs, error: 'later' }) as const;
    const kind = makeKind(
      async ({ key, attempts }) => (attempts > 0 ? DONE : patient(key === 'patient' ? 10 * HOUR_MS : RETRY_MS)),
      { longestDelayMs: 24 * HOUR_MS },
    );
    const runner = makeRunner(t, { store, kinds: [kind], clock: wall });
    await runner.start();
    const tried = async (key: string, attempts: number) => (await outbox.get(KIND, key))?.attempts === attempts;
    const make = (key: string) => store.write((tx) => runner.enqueue(tx, newJobs(1, { key })));
    await make('patient');
    await until(() => tried('patient', 1));
    const planned = async () => {
      const row = await store.read
        .selectFrom('outbox')
        .select('run_at')
        .where('key', '=', 'patient')
        .executeTakeFirst();
      return Number(row?.['run_at']) - clock.now();
    };
    await clock.advance(40_000);
    byMs = HOUR_MS;
    await make('hasty');
    await until(() => tried('hasty', 1));
    byMs = 0;
    const start = clock.now();
    await until(async () => {
      await clock.advance(1_000);
      return await tried('hasty', 2);
    });
    assert.ok(clock.now() - start < LATE_MS, `${clock.now() - start} ms of the clock`);
    const left = await planned();
    assert.ok(left > 8 * HOUR_MS && left < 10 * HOUR_MS, `the patient one comes in ${left} ms`);
  });

  test('plans of a clock that was right stay as they are', async (t) => {
    const store = await engine.store(t);
    const { clock, kind } = await bed(store);
    const rows = () => store.read.selectFrom('outbox').select(['key', 'run_at', 'state']).orderBy('id').execute();
    const ran: string[] = [];
    const first = makeRunner(t, { store, kinds: [kind(ran, clock)], clock });
    const plans = (index: number) => ({ key: `${index}`, runAt: clock.now() + index * 1_000 + 5_000 });
    await store.write((tx) => first.enqueue(tx, newJobs(10, plans)));
    const before = await rows();
    await first.start();
    await first.stop();
    assert.deepEqual(await rows(), before);
  });
});
