import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOutboxGauges } from '../../../src/jobs/metrics.ts';
import { createOutbox, insertJobs } from '../../../src/jobs/outbox.ts';
import { createMetricsRegistry } from '../../../src/runtime/metrics.ts';
import { migrateJobs, newJobs } from '../../helpers/jobs.ts';
import { createManualClock } from '../../helpers/manual-clock.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { eachStore } from '../../helpers/store.ts';
import { until } from '../../helpers/until.ts';

eachStore('outbox gauges', (engine) => {
  test('depth and oldest age per kind, looked up again as time goes on, and no more once stopped', async (t) => {
    const store = await engine.store(t);
    await migrateJobs(store);
    const clock = createManualClock();
    const registry = createMetricsRegistry();
    const log = createMemoryLog();
    const outbox = createOutbox({ store, clock, wake: () => {} });
    const gauges = createOutboxGauges({
      store,
      clock,
      log,
      kinds: ['test.job', 'quiet'],
      metrics: registry.scope('jobs'),
    });
    const value = async (name: string, kind = 'test.job') => {
      const line = (await registry.text()).split('\n').find((text) => text.startsWith(`${name}{kind="${kind}"}`));
      return line === undefined ? null : Number(line.split(' ')[1]);
    };
    const depth = (kind?: string) => value('parhelion_jobs_pending_rows', kind);
    const age = (kind?: string) => value('parhelion_jobs_oldest_due_seconds', kind);

    await gauges.start();
    assert.deepEqual([await depth(), await age(), await depth('quiet')], [0, 0, 0]);

    await store.write((tx) => insertJobs(tx, newJobs(7), clock.now()));
    await store.write((tx) =>
      insertJobs(tx, [{ kind: 'test.job', key: 'later', group: 'g', payload: {}, runAt: clock.now() + 9_000_000 }], 0),
    );
    void clock.advance(15_000);
    await until(async () => (await depth()) === 8);
    assert.equal(await age(), 15);

    // Half a minute on; only the one that is due much later is left.
    await store.write((tx) => outbox.hold(tx, { kind: 'test.job', limit: 7 }, 'paused'));
    await until(() => clock.pending > 0);
    await clock.advance(15_000);
    await until(async () => (await depth()) === 1);
    assert.equal(await age(), 0, 'not due yet is no age');
    assert.equal(await depth('quiet'), 0);

    await until(() => clock.pending > 0);
    gauges.stop();
    assert.equal(clock.pending, 0);
    assert.deepEqual(log.lines, []);
  });
});
