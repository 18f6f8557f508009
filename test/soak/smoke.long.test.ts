import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chainMissing } from '../helpers/chain.ts';
import { QUANTITIES, type Sample } from './samples.ts';
import { runSoak } from './soak.ts';
import { trendsOf } from './verdict.ts';

const skip = (await chainMissing()) ?? false;

test('half a minute of the soak: everything is measured, everything happens', { skip }, async (t) => {
  const report = await runSoak({ seconds: 30, sampleSeconds: 2 });
  for (const trend of report.trends) t.diagnostic(JSON.stringify(trend));
  assert.ok(report.samples.length >= 4);
  for (const sample of report.samples)
    for (const quantity of QUANTITIES) assert.ok(Number.isFinite(sample[quantity]), `${quantity} ${sample[quantity]}`);
  const { calls, refused, sockets, notices, webhooks, reloads, answers, errors } = report.counts;
  assert.deepEqual(errors, [], 'reloads hurt nobody');
  assert.deepEqual(Object.keys(answers).sort(), ['200', '404'], 'unknown leaves and wallets without a name are 404');
  for (const count of [calls, refused, sockets, notices, webhooks, reloads, report.delivered])
    assert.ok(count > 0, JSON.stringify(report.counts));
  assert.equal(report.exitCode, 0);
  // Loose: what is leaked at each call, socket or delivery would show even here.
  const last = report.samples.at(-1) as Sample;
  assert.ok(last.rssMb < 900, `${last.rssMb} MB`);
  assert.ok(last.descriptors < 400, `${last.descriptors} descriptors`);
});

test('the verdict: a line that rises is not flat, noise and a warm-up are', () => {
  const made = (rss: (index: number) => number, disk = (index: number) => 20 + index): Sample[] =>
    Array.from({ length: 60 }, (_, index) => ({
      atSeconds: index * 10,
      rssMb: rss(index),
      heapMb: 50,
      descriptors: 40,
      threads: 11,
      loopLagMs: 12,
      chainLagSlots: 1,
      openDeliveries: 5,
      callMs: 8,
      diskMb: disk(index),
    }));
  const isFlat = (rss: (index: number) => number) => trendsOf(made(rss)).every((trend) => trend.isFlat);
  assert.equal(
    isFlat(() => 150),
    true,
  );
  assert.equal(
    isFlat((index) => 150 + (index % 7) * 9),
    true,
  );
  assert.equal(
    isFlat((index) => (index < 10 ? 100 + index * 10 : 200)),
    true,
  );
  assert.equal(
    isFlat((index) => 150 + index),
    false,
  );
  const isEven = (disk: (index: number) => number) => trendsOf(made(() => 150, disk)).every((trend) => trend.isFlat);
  assert.equal(
    isEven((index) => 20 + 3 * index),
    true,
  );
  assert.equal(
    isEven((index) => 20 + index * index),
    false,
  );
  const [rss] = trendsOf(made((index) => 150 + index));
  assert.equal(Math.round(rss?.perHour ?? 0), 360);
});
