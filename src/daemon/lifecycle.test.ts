import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { Type } from '@sinclair/typebox';
import fc from 'fast-check';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import type { Contribution } from '../plugin/host.ts';
import { API_VERSION, CodedError } from '../plugin/plugin.ts';
import type { UpstreamPool } from '../ports/upstream.ts';
import { createLifecycle, createStageRunner, handleSignals } from './lifecycle.ts';
import type { ProvisionedPlugin } from './provision.ts';

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

const START_MS = 1_000;
const STOP_MS = 500;
const never = () => new Promise<void>(() => undefined);

function plugin(
  id: string,
  contribution: Contribution,
  section: unknown = {},
  pools: UpstreamPool[] = [],
): ProvisionedPlugin {
  const definition = {
    id,
    apiVersion: API_VERSION,
    summary: id,
    config: Type.Object({}),
    provision: () => {},
  };
  return { id, definition, section, contribution, pools };
}

function setUp(plugins: readonly ProvisionedPlugin[]) {
  const clock = createManualClock();
  const log = createMemoryLog();
  const lifecycle = createLifecycle({
    plugins,
    clock,
    log,
    limits: { startTimeoutMs: START_MS, drainTimeoutMs: 700, stopTimeoutMs: STOP_MS },
  });
  return { clock, log, lifecycle };
}

/** A plugin that records its calls. */
function witness(id: string, calls: string[], extra: Contribution = {}): ProvisionedPlugin {
  return plugin(id, {
    start: () => void calls.push(`start ${id}`),
    drain: () => void calls.push(`drain ${id}`),
    stop: () => void calls.push(`stop ${id}`),
    ...extra,
  });
}

test('plugins start in order, drain and stop in reverse, stop runs once', async () => {
  const calls: string[] = [];
  const { lifecycle } = setUp(['a', 'b', 'c'].map((id) => witness(id, calls)));
  await lifecycle.start();
  await lifecycle.drain();
  await Promise.all([lifecycle.stop(), lifecycle.stop()]);
  await lifecycle.stop();
  assert.deepEqual(calls, [
    'start a',
    'start b',
    'start c',
    'drain c',
    'drain b',
    'drain a',
    'stop c',
    'stop b',
    'stop a',
  ]);
});

test('a plugin starts only after the previous one has started', async () => {
  const calls: string[] = [];
  let finish = () => {};
  const slow = witness('slow', calls, { start: () => new Promise<void>((resolve) => (finish = resolve)) });
  const { lifecycle, clock } = setUp([slow, witness('next', calls)]);
  const started = lifecycle.start();
  await clock.advance(START_MS - 1);
  assert.deepEqual(calls, []);
  finish();
  await started;
  assert.deepEqual(calls, ['start next']);
});

test('whichever plugin fails: it and the started ones stop in reverse, the others are never touched, the error names it', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 6 }), fc.nat(5), fc.boolean(), async (count, at, synchronous) => {
      const failing = at % count;
      const calls: string[] = [];
      const fail = () => {
        calls.push(`start p${failing}`);
        if (synchronous) throw new Error('no luck');
        return Promise.reject(new Error('no luck'));
      };
      const plugins = Array.from({ length: count }, (_, n) =>
        witness(`p${n}`, calls, n === failing ? { start: fail } : {}),
      );
      const { lifecycle } = setUp(plugins);
      await assert.rejects(lifecycle.start(), {
        code: 'PLUGIN_START_FAILED',
        message: `plugin p${failing} failed to start: no luck`,
      });
      const reached = Array.from({ length: failing + 1 }, (_, n) => `p${n}`);
      assert.deepEqual(calls, [
        ...reached.map((id) => `start ${id}`),
        ...reached.toReversed().map((id) => `stop ${id}`),
      ]);
    }),
    { numRuns: 40 },
  );
});

test('a plugin that does not start in time is named, its signal aborts, and it is stopped', async () => {
  const calls: string[] = [];
  let signal: AbortSignal | undefined;
  const stuck = witness('stuck', calls, {
    start: (given) => {
      signal = given;
      return never();
    },
  });
  const { lifecycle, clock } = setUp([witness('a', calls), stuck, witness('c', calls)]);
  const started = assert.rejects(lifecycle.start(), {
    code: 'PLUGIN_START_TIMEOUT',
    message: 'plugin stuck did not start within 1000 ms',
    exitCode: 75,
  });
  await clock.advance(START_MS - 1);
  assert.equal(signal?.aborted, false);
  await clock.advance(1);
  await started;
  assert.equal(signal?.aborted, true);
  assert.deepEqual(calls, ['start a', 'stop stuck', 'stop a']);
});

test('each plugin has a separate time limit', async () => {
  const { lifecycle, clock } = setUp(
    ['a', 'b', 'c'].map((id) => plugin(id, { start: () => clock_.sleep(START_MS - 1) })),
  );
  const clock_ = clock;
  const started = lifecycle.start();
  for (let n = 0; n < 3; n++) await clock.advance(START_MS - 1);
  await started;
});

test('the exit code of the cause is kept', async () => {
  const refused = new CodedError('STORE_UNREACHABLE', 'gone', { exitCode: 75 });
  const { lifecycle } = setUp([plugin('a', { start: () => Promise.reject(refused) })]);
  await assert.rejects(lifecycle.start(), { code: 'PLUGIN_START_FAILED', exitCode: 75 });
});

test('stopping continues after failures and hangs, under one deadline for all', async () => {
  const calls: string[] = [];
  let signal: AbortSignal | undefined;
  const hang = (given: AbortSignal) => {
    calls.push('stop hang');
    signal = given;
    return never();
  };
  const throwing = () => {
    calls.push('stop throwing');
    throw new Error('no');
  };
  const { lifecycle, clock, log } = setUp([
    witness('a', calls),
    witness('b', calls, { stop: throwing }),
    witness('c', calls, { stop: hang }),
  ]);
  await lifecycle.start();
  calls.length = 0;
  const stopped = lifecycle.stop();
  await clock.advance(STOP_MS - 1);
  assert.equal(signal?.aborted, false);
  assert.deepEqual(calls, ['stop hang']);
  await clock.advance(1);
  await stopped;
  assert.equal(signal?.aborted, true);
  assert.deepEqual(calls, ['stop hang', 'stop throwing', 'stop a']);
  assert.deepEqual(
    log.lines.filter(({ level }) => level === 'error').map(({ fields }) => fields['plugin']),
    ['c', 'b'],
  );
  assert.equal(clock.pending, 0);
});

test('a stop during start aborts the start and then stops the started plugins', async () => {
  const calls: string[] = [];
  const { lifecycle, clock } = setUp([witness('a', calls), witness('b', calls, { start: never }), witness('c', calls)]);
  const started = assert.rejects(lifecycle.start(), { code: 'PLUGIN_START_FAILED' });
  await clock.advance(0);
  await lifecycle.stop();
  await started;
  assert.deepEqual(calls, ['start a', 'stop b', 'stop a']);
});

test('pools of a plugin start before it and stop after it', async () => {
  const calls: string[] = [];
  const pool = {
    start: async () => void calls.push('start pool'),
    stop: async () => void calls.push('stop pool'),
  } as unknown as UpstreamPool;
  const { contribution } = witness('a', calls);
  const { lifecycle } = setUp([plugin('a', contribution, {}, [pool])]);
  await lifecycle.start();
  await lifecycle.stop();
  assert.deepEqual(calls, ['start pool', 'start a', 'stop a', 'stop pool']);
});

test('a drain that fails or hangs does not block the others', async () => {
  const calls: string[] = [];
  const { lifecycle, clock } = setUp([
    witness('a', calls),
    witness('b', calls, { drain: never }),
    witness('c', calls, { drain: () => Promise.reject(new Error('no')) }),
  ]);
  await lifecycle.start();
  const drained = lifecycle.drain();
  await clock.advance(700);
  await drained;
  assert.ok(calls.includes('drain a'));
});
