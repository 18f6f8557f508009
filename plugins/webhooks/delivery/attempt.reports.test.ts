import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createManualClock } from '../../../test/helpers/manual-clock.ts';
import { createReports, type Report } from './attempt.ts';

function stage() {
  const reports = createReports(createManualClock());
  const settled: boolean[] = [];
  const put = (n: number, id = 1) => {
    const charge = n === 1 ? { finish: (charged: boolean) => void settled.push(charged) } : null;
    reports.put(id, { n, charge } as Report);
  };
  return { reports, settled, put };
}

test('a first attempt that is repeated was never written and is not charged', () => {
  const { reports, settled, put } = stage();
  put(1);
  put(1);
  assert.deepEqual(settled, [false]);
  assert.notEqual(reports.take(1), undefined);
});

test('a second attempt proves that the first one was written, although its commit was not confirmed', () => {
  const { settled, put } = stage();
  put(1);
  put(2);
  assert.deepEqual(settled, [true]);
});

test('a job that another process took over is charged there', async () => {
  const clock = createManualClock();
  const reports = createReports(clock);
  const settled: boolean[] = [];
  const charge = { finish: (charged: boolean) => void settled.push(charged) };
  for (let id = 0; id < 1_024; id += 1) reports.put(id, { n: 1, charge } as Report);
  await clock.advance(600_001);
  reports.put(5_000, { n: 1, charge } as Report);
  assert.deepEqual(new Set(settled), new Set([false]));
  assert.equal(settled.length, 1_024);
});
