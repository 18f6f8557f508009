import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createManualClock, type ManualClock } from '../../../test/helpers/manual-clock.ts';
import type { Webhook } from '../model.ts';
import { createPace, type Pace } from './pace.ts';

const GLOBAL = 16;
const hookOf = (id: string, patch: Partial<Webhook> = {}): Webhook =>
  ({ id, type: 'raw', ordered: false, batchSize: 1, ...patch }) as Webhook;

function make(ratePerSecond = 0): { pace: Pace; clock: ManualClock } {
  const clock = createManualClock();
  return {
    clock,
    pace: createPace({ clock, config: { concurrency: { global: GLOBAL, perWebhook: 4 }, ratePerSecond } }),
  };
}

test('an unknown webhook has one delivery in flight and is not claimed ahead; later as configured', () => {
  const { pace } = make();
  assert.deepEqual([pace.concurrency('a'), pace.ahead('a')], [1, false]);
  pace.learn(hookOf('a'));
  assert.deepEqual([pace.concurrency('a'), pace.ahead('a')], [4, true]);
  for (const patch of [{ ordered: true }, { type: 'discord' }, { type: 'discordDevnet' }] as const) {
    pace.learn(hookOf('b', patch));
    assert.equal(pace.concurrency('b'), 1);
  }
  pace.learn(hookOf('c', { batchSize: 5 }));
  assert.deepEqual([pace.concurrency('c'), pace.ahead('c')], [4, false]);
});

test('a throttled receiver gets one delivery at a time until its next success', () => {
  const { pace } = make();
  pace.learn(hookOf('a'));
  pace.throttle('a');
  assert.deepEqual([pace.concurrency('a'), pace.enter('a'), pace.enter('a')], [1, true, false]);
  pace.leave('a');
  pace.succeeded('a');
  assert.equal(pace.concurrency('a'), 4);
});

test('the rate refills with time, up to one second of it', async () => {
  const { pace, clock } = make(10);
  pace.learn(hookOf('a'));
  for (let at = 0; at < 10; at += 1) {
    assert.ok(pace.enter('a'));
    pace.leave('a');
  }
  assert.equal(pace.concurrency('a'), 0);
  await clock.advance(250);
  assert.equal(pace.concurrency('a'), 2);
  await clock.advance(60_000);
  assert.equal(pace.concurrency('a'), 4);
});

test('hanging receivers have at most a quarter of the slots, and unproven ones three quarters', () => {
  const step = fc.record({
    kind: fc.constantFrom('enter', 'leave', 'throttle', 'succeeded', 'learn'),
    hook: fc.nat({ max: 11 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
      const { pace } = make();
      const running: string[] = [];
      const standing = new Map<string, string>();
      for (const { kind, hook } of steps) {
        const id = `h${hook}`;
        if (kind === 'enter') {
          const room = pace.concurrency(id) - running.filter((one) => one === id).length;
          const entered = pace.enter(id);
          assert.equal(entered, room > 0, 'what is offered can be had, and nothing else');
          if (!entered) continue;
          running.push(id);
          // Deliveries that started before the receiver was known to be slow continue.
          const count = (want: readonly string[]) =>
            running.filter((one) => want.includes(standing.get(one) ?? 'unproven')).length;
          const own = standing.get(id) ?? 'unproven';
          if (own === 'throttled') assert.ok(count(['throttled']) <= GLOBAL / 4);
          if (own !== 'good') assert.ok(count(['throttled', 'unproven']) <= (GLOBAL * 3) / 4);
        } else if (kind === 'leave') {
          const at = running.indexOf(id);
          if (at < 0) continue;
          running.splice(at, 1);
          pace.leave(id);
        } else if (kind === 'learn') pace.learn(hookOf(id));
        else if (kind === 'throttle') {
          pace.throttle(id);
          standing.set(id, 'throttled');
        } else {
          pace.succeeded(id);
          standing.set(id, 'good');
        }
      }
    }),
  );
});
