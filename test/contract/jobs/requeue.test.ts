/** Changes of jobs from outside beside runners that claim them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createSystemClock } from '../../../src/adapters/clock.ts';
import { claimJobs } from '../../../src/jobs/claim.ts';
import { createOutbox, insertJobs } from '../../../src/jobs/outbox.ts';
import type { JobOutcome } from '../../../src/plugin/plugin.ts';
import { DONE, makeKind, makeRunner, migrateJobs, newJobs } from '../../helpers/jobs.ts';
import { eachStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';

const KIND = 'test.job';
const clock = createSystemClock();

eachStore('jobs that are changed from outside', (engine) => {
  test('requeued for one attempt: its kind knows, also when it comes again without having had one', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const outcomes: JobOutcome[] = [
      { kind: 'failed', error: 'no' },
      { kind: 'retry', runAt: 0, error: 'not now', uncounted: true },
      { kind: 'retry', runAt: 0, error: 'its kind insists' },
    ];
    const seen: [boolean | undefined, number][] = [];
    const kind = makeKind(async ({ once, attempts }) => {
      seen.push([once, attempts]);
      const outcome = outcomes.shift();
      if (outcome === undefined) throw new Error('thrown');
      return outcome;
    });
    const runner = makeRunner(t, { store, kinds: [kind] });
    const outbox = createOutbox({ store, clock, wake: runner.wake });
    const stateOf = async () => (await outbox.get(KIND, 'key-0'))?.state;
    await store.write((tx) => runner.enqueue(tx, newJobs(1)));
    await runner.start();
    await until(async () => (await stateOf()) === 'failed');
    const requeue = () => store.write((tx) => outbox.requeue(tx, { kind: KIND, keys: ['key-0'] }, { once: true }));
    assert.equal(await requeue(), 1);
    // A throw has another attempt in a while, as the first one was counted as a retry of its kind.
    await until(() => seen.length === 4);
    assert.deepEqual(seen, [
      [false, 0],
      [true, 0],
      [true, 0],
      [false, 1],
    ]);
    await store.write((tx) => tx.db.updateTable('outbox').set({ state: 'failed' }).execute());
    assert.equal(await requeue(), 1);
    await until(async () => (await stateOf()) === 'failed');
    assert.deepEqual(seen.slice(4), [[true, 0]], 'a throw is the end of it');
  });

  test('jobs that are claimed at this moment are left alone', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    await store.write((tx) => insertJobs(tx, newJobs(3), 1_000));
    const outbox = createOutbox({ store, clock, wake: () => {} });
    const room = { total: 2, kind: () => 2, slow: 0, slowOfKind: () => 0, lastServed: () => 0 };
    const ahead = { total: 0, reserved: 0, kind: () => 0, isOwn: () => false };
    const options = {
      kinds: new Map([[KIND, makeKind(async () => DONE)]]),
      room,
      ahead,
      walk: new Map(),
      now: 2_000,
      owner: null,
    };
    let dropped: Promise<number> = Promise.resolve(-1);
    const claim = await store.write(async (tx) => {
      const found = await claimJobs(tx, options);
      // Begins while the rows are locked, and reads them as they were.
      dropped = store.write((other) => outbox.discard(other, { kind: KIND, group: 'group' }, 'off'));
      await new Promise((resolve) => setTimeout(resolve, 200));
      return found;
    });
    assert.equal(claim.jobs.length, 2);
    assert.equal(await dropped, 1);
    const rows = await outbox.list({ kind: KIND });
    assert.deepEqual(rows.map(({ state }) => state).sort(), ['discarded', 'running', 'running']);
  });
});
