import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { createOutbox } from '../../../src/jobs/outbox.ts';
import type { FinishedJob, Job, JobKind, JobOutcome } from '../../../src/plugin/plugin.ts';
import type { JobState, Outbox } from '../../../src/ports/outbox.ts';
import type { Store } from '../../../src/ports/store.ts';
import { DONE, makeKind, makeRunner, migrateJobs, newJobs } from '../../helpers/jobs.ts';
import { eachStore, type StoreEngine } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';

const KIND = 'test.job';

async function openJobs(engine: StoreEngine, t: TestContext): Promise<{ store: Store; outbox: Outbox }> {
  const store = await engine.store(t);
  await migrateJobs(store);
  return { store, outbox: createOutbox({ store, clock: createSystemClock(), wake: () => {} }) };
}

const countOf = (outbox: Outbox, ...states: JobState[]) => outbox.count({ kind: KIND, states });

eachStore('job runner', (engine) => {
  test('runs every job once, and writes the outcomes with what the kind writes', async (t) => {
    const { store, outbox } = await openJobs(engine, t);
    await store.write((tx) =>
      tx.db.schema
        .createTable('results')
        .addColumn('job', 'bigint', (c) => c.primaryKey())
        .execute(),
    );
    const runs = new Map<number, number>();
    const kind = makeKind(
      async (job: Job<{ index: number }> | Job) => {
        runs.set(job.id, (runs.get(job.id) ?? 0) + 1);
        await new Promise((resolve) => setImmediate(resolve));
        return DONE;
      },
      {
        ack: async (tx, finished: readonly FinishedJob[]) => {
          await tx.insertMany(
            'results',
            ['job'],
            finished.map(({ job }) => [job.id]),
          );
        },
      },
    );
    const runner = makeRunner(t, { store, kinds: [kind] });
    await runner.start();
    assert.equal(
      await store.write((tx) =>
        runner.enqueue(
          tx,
          newJobs(500, (index) => ({ group: `g${index % 7}` })),
        ),
      ),
      500,
    );
    await until(async () => (await countOf(outbox, 'done')) === 500);
    assert.deepEqual(new Set(runs.values()), new Set([1]));
    assert.equal((await store.read.selectFrom('results').selectAll().execute()).length, 500);
    const row = await outbox.get(KIND, 'key-3');
    assert.equal(row?.state, 'done');
    assert.equal(row.attempts, 1);
    assert.deepEqual(row.payload, { index: 3 });
    assert.ok(row.finishedAt !== null && row.finishedAt >= row.createdAt);
  });

  test('a key is taken once, and jobs of a rolled back transaction never run', async (t) => {
    const { store, outbox } = await openJobs(engine, t);
    let ran = 0;
    const runner = makeRunner(t, {
      store,
      kinds: [
        makeKind(async () => {
          ran += 1;
          return DONE;
        }),
      ],
    });
    await runner.start();
    await assert.rejects(
      store.write(async (tx) => {
        await runner.enqueue(tx, newJobs(5));
        throw new Error('no');
      }),
    );
    assert.equal(await store.write((tx) => runner.enqueue(tx, newJobs(3))), 3);
    assert.equal(await store.write((tx) => runner.enqueue(tx, newJobs(4))), 1);
    await until(async () => (await countOf(outbox, 'done')) === 4);
    assert.equal(ran, 4);
    assert.equal(await store.write((tx) => runner.enqueue(tx, newJobs(4))), 0, 'also after it is done');
  });

  test('retries at the given time, fails after the last throw, and keeps other outcomes', async (t) => {
    const { store, outbox } = await openJobs(engine, t);
    const seen: string[] = [];
    const outcomes: Record<string, (job: Job) => JobOutcome> = {
      'key-0': ({ attempts }) =>
        attempts < 3 ? { kind: 'retry', runAt: Date.now() + 5, error: `no ${attempts}` } : DONE,
      'key-1': () => {
        throw new Error('broken');
      },
      'key-2': () => ({ kind: 'failed', error: 'final' }),
      'key-3': () => ({ kind: 'discarded', error: 'useless' }),
      'key-4': () => ({ kind: 'held', reason: 'later' }),
      'key-5': () =>
        seen.filter((key) => key === 'key-5').length < 3
          ? { kind: 'retry', runAt: Date.now(), error: 'not counted', uncounted: true }
          : DONE,
    };
    const kind = makeKind(async (job) => {
      seen.push(job.key);
      return outcomes[job.key]!(job);
    });
    const runner = makeRunner(t, { store, kinds: [kind], config: { maxAttempts: 1, pollMs: 20 } });
    await runner.start();
    await store.write((tx) => runner.enqueue(tx, newJobs(6)));
    // Each state is counted for itself: a job that goes back to pending meanwhile would be in neither.
    await until(async () => (await countOf(outbox, 'done', 'failed', 'discarded', 'held')) === 6);
    const rows = (await outbox.list({ kind: KIND })).sort((a, b) => a.id - b.id);
    assert.deepEqual(
      rows.map(({ state, attempts, error, holdReason }) => [state, attempts, error ?? holdReason]),
      [
        ['done', 4, null],
        ['failed', 1, 'broken'],
        ['failed', 1, 'final'],
        ['discarded', 1, 'useless'],
        ['held', 1, 'later'],
        ['done', 1, null],
      ],
    );
  });

  test('several runners share the work: no job runs twice, no group above its limit', async (t) => {
    const database = await engine.database(t);
    const stores = await Promise.all([database.open(), database.open(), database.open()]);
    await migrateJobs(stores[0]!);
    const running = new Map<string, number>();
    const runs = new Map<number, number>();
    let highest = 0;
    const kind = makeKind(
      async (job) => {
        const now = (running.get(job.group) ?? 0) + 1;
        running.set(job.group, now);
        highest = Math.max(highest, now);
        runs.set(job.id, (runs.get(job.id) ?? 0) + 1);
        await new Promise((resolve) => setTimeout(resolve, 3));
        running.set(job.group, now - 1 < 0 ? 0 : (running.get(job.group) ?? 1) - 1);
        return DONE;
      },
      { groupConcurrency: () => 2 },
    );
    const runners = stores.map((store) =>
      makeRunner(t, { store, kinds: [kind], config: { concurrency: 8, pollMs: 10 } }),
    );
    await stores[0]!.write((tx) =>
      runners[0]!.enqueue(
        tx,
        newJobs(300, (index) => ({ group: `g${index % 5}` })),
      ),
    );
    await Promise.all(runners.map((runner) => runner.start()));
    const outbox = createOutbox({ store: stores[0]!, clock: createSystemClock(), wake: () => {} });
    await until(async () => (await countOf(outbox, 'done')) === 300);
    assert.deepEqual(new Set(runs.values()), new Set([1]));
    assert.ok(highest <= 2, `${highest} of one group ran at once`);
  });

  test('a kind whose ack fails for one job spoils only that one', async (t) => {
    const { store, outbox } = await openJobs(engine, t);
    const kind = makeKind(async () => DONE, {
      ack: async (_tx, finished) => {
        if (finished.some(({ job }) => job.key === 'key-13')) throw new Error('bad luck');
      },
    });
    const runner = makeRunner(t, { store, kinds: [kind] });
    await runner.start();
    await store.write((tx) => runner.enqueue(tx, newJobs(40)));
    await until(async () => (await countOf(outbox, 'done', 'failed')) === 40);
    const failed = await outbox.list({ kind: KIND, states: ['failed'] });
    assert.deepEqual(
      failed.map(({ key, error }) => [key, error]),
      [['key-13', 'JOB_ACK_FAILED: bad luck']],
    );
  });

  test('drain lets running jobs finish and claims nothing more; stop aborts and gives back', async (t) => {
    const { store, outbox } = await openJobs(engine, t);
    const gates: (() => void)[] = [];
    const slow = makeKind(() => new Promise((resolve) => gates.push(() => resolve(DONE))));
    const first = makeRunner(t, { store, kinds: [slow], config: { concurrency: 4 } });
    await first.start();
    await store.write((tx) => first.enqueue(tx, newJobs(10)));
    await until(() => gates.length === 4);
    const drained = first.drain();
    for (const open of gates) open();
    await drained;
    assert.equal(await countOf(outbox, 'done'), 4);
    assert.equal(await countOf(outbox, 'pending'), 6);
    await first.stop();
    assert.equal(gates.length, 4);

    const reasons: unknown[] = [];
    let started = 0;
    const stubborn = makeKind(
      (_job, signal) =>
        new Promise((_, reject) => {
          started += 1;
          signal.addEventListener('abort', () => {
            reasons.push(signal.reason);
            reject(signal.reason as Error);
          });
        }),
    );
    const second = makeRunner(t, { store, kinds: [stubborn], config: { concurrency: 4 } });
    await second.start();
    await until(() => started === 4);
    assert.equal(await countOf(outbox, 'running'), 6, 'two were claimed ahead');
    await second.stop();
    assert.equal(reasons.length, 4);
    assert.equal(await countOf(outbox, 'pending'), 6);
    const rows = await outbox.list({ kind: KIND, states: ['pending'] });
    assert.deepEqual(new Set(rows.map(({ attempts }) => attempts)), new Set([0]));

    const deaf = makeKind(() => {
      started += 1;
      return new Promise<JobOutcome>(() => {});
    });
    const third = makeRunner(t, { store, kinds: [deaf], config: { concurrency: 4 } });
    await third.start();
    await until(() => started === 8);
    await third.stop(AbortSignal.timeout(20));
    assert.equal(await countOf(outbox, 'pending'), 6);
  });

  test('prepare is asked once per claim, and its failure is a retry', async (t) => {
    const { store, outbox } = await openJobs(engine, t);
    const asked: number[] = [];
    const seen: unknown[] = [];
    const kind: JobKind = {
      ...makeKind(async () => DONE),
      prepare: async (jobs) => {
        asked.push(jobs.length);
        if (asked.length === 1) throw new Error('not now');
        return 'prepared';
      },
      run: async (_job, prepared) => {
        seen.push(prepared);
        return DONE;
      },
    };
    const runner = makeRunner(t, { store, kinds: [kind] });
    await runner.start();
    await store.write((tx) => runner.enqueue(tx, newJobs(3)));
    await until(async () => (await outbox.list({ kind: KIND })).every(({ attempts }) => attempts === 1));
    assert.equal((await outbox.get(KIND, 'key-0'))?.error, 'not now');
    await store.write((tx) =>
      runner.enqueue(
        tx,
        newJobs(2, (index) => ({ key: `more-${index}` })),
      ),
    );
    await until(async () => (await countOf(outbox, 'done')) === 2);
    assert.deepEqual(asked, [3, 2]);
    assert.deepEqual(seen, ['prepared', 'prepared']);
  });

  test('a kind that does not come back from loading loses its time, and the runner goes on', async (t) => {
    const { store, outbox } = await openJobs(engine, t);
    let asked = 0;
    const kind: JobKind = {
      ...makeKind(async () => DONE, { timeoutMs: 100 }),
      prepare: () => {
        asked += 1;
        return asked === 1 ? new Promise(() => {}) : Promise.resolve(null);
      },
    };
    const runner = makeRunner(t, { store, kinds: [kind] });
    await runner.start();
    await store.write((tx) => runner.enqueue(tx, newJobs(1)));
    await until(async () => (await outbox.get(KIND, 'key-0'))?.attempts === 1);
    await store.write((tx) => runner.enqueue(tx, newJobs(1, { key: 'other' })));
    await until(async () => (await countOf(outbox, 'done')) === 1);
  });
});
