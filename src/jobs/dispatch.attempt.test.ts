import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createSystemRandom } from '../adapters/clock.ts';
import { CodedError } from '../lib/coded-error.ts';
import type { Job, JobKind } from '../plugin/plugin.ts';
import { createStopper, GRACE_MS, runAttempt } from './dispatch.ts';

const TIMEOUT_MS = 1_000;
const job: Job = {
  id: 1,
  kind: 'test.job',
  key: 'k',
  group: 'g',
  payload: null,
  slot: null,
  attempts: 0,
  createdAt: 0,
};

function setUp(more: Partial<JobKind>) {
  const clock = createManualClock();
  const stopper = createStopper();
  const signals: AbortSignal[] = [];
  const kind: JobKind = {
    kind: 'test.job',
    summary: 'a job of a test',
    concurrency: 1,
    timeoutMs: TIMEOUT_MS,
    run: (_job, _prepared, signal) => {
      signals.push(signal);
      return new Promise(() => {});
    },
    ...more,
  };
  const options = {
    kind,
    claimed: { job, lane: 0, claim: 1, runAt: 0, lost: 0 } as const,
    prepared: null,
    timeoutMs: TIMEOUT_MS,
    stopper,
    clock,
    random: createSystemRandom(),
    maxAttempts: 3,
  };
  return { clock, stop: stopper.stop, signals, run: () => runAttempt(options) };
}

test('a job has a signal of its own, which aborts when its time is over', async () => {
  const { clock, signals, run } = setUp({});
  const outcomes = Promise.all([run(), run()]);
  assert.equal(new Set(signals).size, 2);
  await clock.advance(TIMEOUT_MS);
  assert.ok(signals.every(({ aborted }) => aborted));
  await clock.advance(GRACE_MS);
  assert.deepEqual(
    (await outcomes).map(({ kind }) => kind),
    ['retry', 'retry'],
  );
});

test('jobs that keep their time share a signal; one that does not keep it is given up all the same', async () => {
  const { clock, signals, run } = setUp({ keepsTime: true });
  const first = run();
  const second = run();
  assert.equal(new Set(signals).size, 1);
  await clock.advance(TIMEOUT_MS);
  assert.equal(signals[0]?.aborted, false, 'the other jobs go on');
  await clock.advance(GRACE_MS);
  const outcome = await first;
  assert.ok(outcome.kind === 'retry' && outcome.error.includes('did not end within'), JSON.stringify(outcome));
  await second;
});

test('the shared signal aborts when the daemon stops, and the attempt is not counted', async () => {
  const { clock, stop, signals, run } = setUp({ keepsTime: true });
  const running = run();
  stop();
  assert.equal(signals[0]?.aborted, true);
  await clock.advance(GRACE_MS);
  const outcome = await running;
  assert.ok(outcome.kind === 'retry' && outcome.uncounted === true);
  assert.equal((await run()).kind, 'retry', 'nothing begins any more');
  assert.equal(signals.length, 1);
});

test('a handler that throws before it promises anything counts as one that rejects', async () => {
  const thrower = () => {
    throw new Error('at once');
  };
  for (const run of [thrower, async () => thrower()]) {
    const outcome = await setUp({ run }).run();
    assert.ok(outcome.kind === 'retry' && outcome.error === 'at once');
  }
});

test('trouble of the store is no attempt of the job; what it refuses is', async () => {
  const outcomes = [];
  for (const code of ['STORE_BUSY', 'STORE_FULL', 'STORE_CONSTRAINT']) {
    const error = new CodedError(code, 'not now');
    const outcome = await setUp({ run: async () => Promise.reject(error) }).run();
    outcomes.push(outcome.kind === 'retry' && outcome.uncounted);
  }
  assert.deepEqual(outcomes, [true, true, false]);
});
