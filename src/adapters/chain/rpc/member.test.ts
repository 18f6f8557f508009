/** Effect of an upstream's answers on later calls. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testCore } from '../../../../test/helpers/http-front.ts';
import { createManualClock } from '../../../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../../../test/helpers/memory-log.ts';
import type { UpstreamOutcome } from '../../../ports/upstream.ts';
import { createMetricsRegistry } from '../../../runtime/metrics.ts';
import { createUpstreamPool, type OutageLog } from './index.ts';
import {
  applyOutcome,
  byPreference,
  isHealthy,
  markBehind,
  newHealth,
  RATE_LIMITED,
  type UpstreamHealth,
  unhealthyReasonOf,
} from './member.ts';

const core = testCore();
const { coolDownMs, distrustMs } = core.upstream;
const apply = (health: UpstreamHealth, now: number, ...outcomes: UpstreamOutcome[]) => {
  for (const outcome of outcomes) applyOutcome(health, outcome, now, core);
  return health;
};
const failed: UpstreamOutcome = { kind: 'failed', reason: 'UPSTREAM_TIMEOUT' };
const ok: UpstreamOutcome = { kind: 'ok' };

test('one failure has no effect, several in a row start a cool-down, and a good answer ends both', () => {
  assert.ok(isHealthy(apply(newHealth(0), 0, failed), 0));
  assert.ok(isHealthy(apply(newHealth(0), 0, failed, ok, failed), 0));
  const resting = apply(newHealth(0), 0, failed, failed);
  assert.deepEqual([isHealthy(resting, 0), isHealthy(resting, coolDownMs)], [false, true]);
  assert.match(unhealthyReasonOf(resting, 0) ?? '', /UPSTREAM_TIMEOUT/);
  assert.ok(isHealthy(apply(resting, 1, ok), 1));
});

test('a cool-down that the upstream asked for, or for a contradiction, is not ended by a good answer', () => {
  const limited = apply(newHealth(0), 0, { kind: 'limited', retryAfterMs: 7_000 }, ok);
  assert.deepEqual([isHealthy(limited, 6_999), isHealthy(limited, 7_000)], [false, true]);
  assert.deepEqual([limited.limitedUntil, unhealthyReasonOf(limited, 0)], [7_000, RATE_LIMITED]);
  const liar = apply(newHealth(0), 0, { kind: 'contradicted', reason: 'another parent' }, ok);
  assert.deepEqual([isHealthy(liar, distrustMs - 1), isHealthy(liar, distrustMs)], [false, true]);
  const denied = apply(newHealth(0), 0, { kind: 'denied', status: 403 });
  assert.deepEqual([isHealthy(denied, coolDownMs - 1), isHealthy(denied, coolDownMs)], [false, true]);
});

test('an upstream far behind the others is excluded, one that lags a little is asked later', () => {
  const all = [newHealth(0), newHealth(1), newHealth(2), newHealth(3)] as const;
  const states = (slots: number | null, slotMs: number | null) => {
    for (const [index, slot] of [900, 985, 1_000, null].entries()) all[index]!.slot = slot;
    markBehind(all, { seconds: 20, slots }, slotMs);
    return all.map((health) => [isHealthy(health, 0), health.late]);
  };
  const behind = [
    [false, true],
    [true, true],
    [true, false],
    [true, false],
  ];
  assert.deepEqual(states(null, 400), behind);
  all[0].slotRoseAt = -29_999;
  assert.equal(unhealthyReasonOf(all[0], 0), 'behind the others');
  all[0].slotRoseAt = -30_000;
  assert.equal(unhealthyReasonOf(all[0], 0), 'stalled at slot 900, behind the others');
  assert.deepEqual(states(null, null), behind, 'not measured: no shorter than it may be');
  const nearer = [
    [true, true],
    [true, false],
    [true, false],
    [true, false],
  ];
  assert.deepEqual(states(null, 190), nearer, '100 slots are 19 s, 15 slots are 3 s');
  assert.deepEqual(states(50, 190)[0], [false, true], 'a configuration that still counts slots');
});

test('order of upstreams: healthy, with room, at the tip, preferred, and then as configured', () => {
  const order = (
    prefer: number | null,
    change: (all: readonly UpstreamHealth[]) => void,
    full: readonly number[] = [],
  ) => {
    const all = [newHealth(0), newHealth(1), newHealth(2)];
    change(all);
    return all
      .map((health) => ({ health, full: full.includes(health.order) }))
      .sort(byPreference(createManualClock(), prefer))
      .map(({ health }) => health.order);
  };
  const nothing = () => undefined;
  assert.deepEqual(order(null, nothing), [0, 1, 2]);
  assert.deepEqual(order(2, nothing), [2, 0, 1]);
  assert.deepEqual(
    order(0, (all) => void apply(all[0]!, 0, failed, failed)),
    [1, 2, 0],
  );
  assert.deepEqual(order(null, nothing, [0, 1]), [2, 0, 1]);
  const isLate = (all: readonly UpstreamHealth[]) => {
    all[0]!.late = true;
  };
  assert.deepEqual(order(0, isLate), [1, 2, 0]);
});

test('an outage is one warning and one line at its end, however often the upstream fails and cools down', async () => {
  const clock = createManualClock();
  const log = createMemoryLog();
  const book = (): OutageLog => {
    const open = new Set<string>();
    return { begin: (one) => !open.has(one) && open.add(one).size > 0, end: (one) => open.delete(one) };
  };
  const shared = book();
  const pools = ['first', 'second'].map((role) =>
    createUpstreamPool({
      label: 'main',
      core,
      clock,
      log: log.child({ role }),
      outages: shared,
      upstreams: [{ url: 'http://127.0.0.1:9' }, { url: 'http://127.0.0.1:10' }],
      metrics: createMetricsRegistry().scope(role),
    }),
  );
  const said = () =>
    log.lines
      .filter(({ message }) => /^upstream /.test(message))
      .map(({ level, message, fields }) => `${level} ${String(fields['upstream'])} ${message}`);
  const report = (outcome: UpstreamOutcome) => {
    for (const pool of pools) pool.report(pool.candidates().find(({ label }) => label === 'main-0')!, outcome);
  };
  for (let round = 0; round < 12; round += 1) {
    report(failed);
    report(failed);
    // From time to time it answers once, and fails again.
    if (round % 3 === 0) report(ok);
    await clock.advance(round % 2 === 0 ? coolDownMs + 1 : 1_000);
  }
  assert.deepEqual(said(), ['warn main-0 upstream is cooling down']);
  report(ok);
  assert.equal(said().length, 1, 'one good answer may be luck');
  await clock.advance(coolDownMs);
  report(ok);
  report(ok);
  assert.deepEqual(said(), ['warn main-0 upstream is cooling down', 'info main-0 upstream is back']);
  const back = log.lines.find(({ message }) => message === 'upstream is back');
  assert.ok(Number(back?.fields['outageMs']) > 6 * coolDownMs);
  report({ kind: 'denied', status: 403 });
  assert.equal(said().length, 3, 'the next outage');
  for (const pool of pools) await pool.stop();
});
