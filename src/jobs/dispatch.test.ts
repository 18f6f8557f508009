import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeKind } from '../../test/helpers/jobs.ts';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createSystemRandom } from '../adapters/clock.ts';
import { createMetricsRegistry } from '../runtime/metrics.ts';
import { AHEAD_WAIT_MS, type Claim, type ClaimedJob } from './claim.ts';
import { createDispatcher, createStopper } from './dispatch.ts';
import { createJobMetrics } from './metrics.ts';
import { createSlots } from './slots.ts';

const claimed = (id: number): ClaimedJob => ({
  job: { id, kind: 'test.job', key: `k${id}`, group: 'g', payload: null, slot: null, attempts: 0, createdAt: 0 },
  lane: 0,
  claim: 1,
  runAt: 0,
  lost: 0,
});

test('a job that was claimed ahead and finds no slot gives its lease back before others take it for lost', async () => {
  const clock = createManualClock();
  const kind = makeKind(() => new Promise(() => {}), { concurrency: 1, timeoutMs: 3_600_000 });
  const kinds = new Map([[kind.kind, kind]]);
  const slots = createSlots(kinds, 1);
  const givenBack: number[] = [];
  const dispatcher = createDispatcher({
    kinds,
    slots,
    clock,
    random: createSystemRandom(),
    stopper: createStopper(),
    config: { maxAttempts: 3 },
    metrics: createJobMetrics(createMetricsRegistry().scope('jobs'), slots),
    isOpen: () => true,
    finish: () => undefined,
    giveBack: (jobs) => void givenBack.push(...jobs.map(({ job }) => job.id)),
  });
  dispatcher.launch({ jobs: [claimed(1)], ahead: [claimed(2), claimed(3)] } as unknown as Claim, 0, clock.monotonic());
  await clock.advance(AHEAD_WAIT_MS - 1_000);
  dispatcher.pump();
  assert.deepEqual([givenBack, dispatcher.waiting], [[], 2]);
  await clock.advance(2_000);
  dispatcher.pump();
  assert.deepEqual([givenBack.sort(), dispatcher.waiting, slots.running.size], [[2, 3], 0, 1]);
});
