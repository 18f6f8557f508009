import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import fc from 'fast-check';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { handleSignals } from './signals.ts';
import { createStageRunner } from './stages.ts';

test('stages: whichever fails, the started ones are undone in reverse, once, and its error is thrown', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 8 }),
      fc.option(fc.nat(7), { nil: null }),
      fc.array(fc.nat(7)),
      async (count, at, badStops) => {
        const failing = at === null ? null : at % count;
        const calls: string[] = [];
        const stages = Array.from({ length: count }, (_, n) => ({
          name: `s${n}`,
          start: async () => {
            calls.push(`start ${n}`);
            if (n === failing) throw new Error(`stage ${n}`);
          },
          stop: async () => {
            calls.push(`stop ${n}`);
            if (badStops.includes(n)) throw new Error('stop failed');
          },
        }));
        const runner = createStageRunner(stages, createMemoryLog(), createManualClock());
        const last = failing ?? count - 1;
        if (failing === null) await runner.start();
        else await assert.rejects(runner.start(), { message: `stage ${failing}` });
        await Promise.all([runner.stop(), runner.stop()]);
        const reached = Array.from({ length: last + 1 }, (_, n) => n);
        assert.deepEqual(calls, [...reached.map((n) => `start ${n}`), ...reached.toReversed().map((n) => `stop ${n}`)]);
      },
    ),
  );
});

test('a stop while a stage starts: no further stage starts', async () => {
  const calls: string[] = [];
  let finish = () => {};
  const runner = createStageRunner(
    [
      {
        name: 'slow',
        start: () => new Promise<void>((resolve) => (finish = resolve)),
        stop: () => void calls.push('stop slow'),
      },
      { name: 'next', start: () => void calls.push('start next') },
    ],
    createMemoryLog(),
    createManualClock(),
  );
  const started = assert.rejects(runner.start(), { code: 'DAEMON_STOPPED' });
  const stopped = runner.stop();
  finish();
  await Promise.all([started, stopped]);
  assert.deepEqual(calls, ['stop slow', 'stop slow']);
});

test('signals: the first stops, the second forces, SIGHUP reloads, and no listener remains', () => {
  const source = new EventEmitter();
  const calls: string[] = [];
  const release = handleSignals(source, {
    stop: (signal) => void calls.push(`stop ${signal}`),
    force: (signal) => void calls.push(`force ${signal}`),
    reload: () => void calls.push('reload'),
  });
  source.emit('SIGHUP');
  source.emit('SIGINT');
  source.emit('SIGTERM');
  assert.deepEqual(calls, ['reload', 'stop SIGINT', 'force SIGTERM']);
  release();
  assert.deepEqual(source.eventNames(), []);
});
