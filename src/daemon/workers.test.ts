import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import type { Role } from '../ports/daemon-view.ts';
import type { ConfigValues, WorkerCommands, WorkerHandle } from '../ports/processes.ts';
import { createMetricsRegistry } from '../runtime/metrics.ts';
import { createWorkers, renderMetrics } from './workers.ts';

const LIFECYCLE = { startTimeoutMs: 1_000, drainTimeoutMs: 2_000, stopTimeoutMs: 3_000 };
const THREADS: readonly Role[] = ['indexer', 'deliverer'];
const silent = (role: Role) => new CodedError('ROLE_SILENT', `${role} is silent`);

interface FakeMember extends WorkerHandle {
  /** The received commands, with their time limits. */
  readonly asked: (readonly [keyof WorkerCommands, number | null])[];
  ended: number;
  fail(reason: unknown): void;
}

/** A worker whose commands are functions of this thread. */
function fakeMember(role: Role, commands: Partial<WorkerCommands>): FakeMember {
  let fail: (reason: unknown) => void = () => undefined;
  const worker: FakeMember = {
    name: role,
    role,
    asked: [],
    ended: 0,
    fail: (reason) => fail(reason),
    failed: new Promise((resolve) => {
      fail = resolve;
    }),
    async ask(command, timeoutMs, ...args) {
      worker.asked.push([command, timeoutMs]);
      const run = commands[command] as ((...all: unknown[]) => Promise<never>) | undefined;
      return (await run?.(...args)) as never;
    },
    async end() {
      worker.ended += 1;
    },
  };
  return worker;
}

function setUp(handles: readonly FakeMember[]) {
  const metrics = createMetricsRegistry();
  const log = createMemoryLog();
  const workers = createWorkers({
    handles,
    lifecycle: LIFECYCLE,
    metrics: metrics.scope('roles'),
    log,
    clock: createManualClock(),
  });
  return { workers, metrics, log };
}

const config = (n: number): ConfigValues => ({ core: { n }, values: {} });

test('a reload that any worker refuses, or does not answer, leaves all with the old configuration', async () => {
  const outcome = fc.constantFrom<'takes' | 'refuses' | 'takes in silence' | 'is silent'>(
    'takes',
    'takes',
    'refuses',
    'takes in silence',
    'is silent',
  );
  await fc.assert(
    fc.asyncProperty(fc.array(outcome, { minLength: 1, maxLength: 5 }), async (outcomes) => {
      const has = outcomes.map(() => 1);
      const handles = outcomes.map((kind, index) =>
        fakeMember('indexer', {
          async takeConfig(next) {
            const n = (next.core as { n: number }).n;
            if (n === 1) {
              has[index] = n;
              return;
            }
            if (kind === 'refuses') throw new CodedError('PLUGIN_RELOAD_REFUSED', 'no');
            if (kind !== 'is silent') has[index] = n;
            if (kind !== 'takes') throw silent('indexer');
          },
        }),
      );
      const { workers } = setUp(handles);
      const taken = workers.takeConfig(config(2), config(1)).then(
        () => true,
        (error: unknown) => {
          assert.equal(codeOf(error), 'PLUGIN_RELOAD_REFUSED');
          return false;
        },
      );
      const isGood = outcomes.every((kind) => kind === 'takes');
      assert.equal(await taken, isGood);
      assert.deepEqual(new Set(has), new Set([isGood ? 2 : 1]));
    }),
  );
});

test('readiness: the checks of a worker have its name; a silent or ended worker fails', async () => {
  const handles = [
    fakeMember('indexer', { checks: async () => [{ name: 'disk', ok: true, detail: 'fine' }] }),
    fakeMember('deliverer', { checks: () => Promise.reject(silent('deliverer')) }),
    fakeMember('api', { checks: () => Promise.reject(new CodedError('ROLE_ENDED', 'gone')) }),
  ];
  const { workers, metrics, log } = setUp(handles);
  await workers.start();
  assert.deepEqual(await workers.checks(), [
    { name: 'role indexer', ok: true, detail: 'answers' },
    { name: 'indexer: disk', ok: true, detail: 'fine' },
    { name: 'role deliverer', ok: false, detail: 'does not answer' },
    { name: 'role api', ok: false, detail: 'has ended' },
  ]);
  assert.match(await metrics.text(), /parhelion_roles_unanswered_total\{role="deliverer",command="checks"\} 1/);
  // An orderly stop may have commands in flight; a worker that ends by itself is already logged as fatal.
  assert.doesNotMatch(await metrics.text(), /unanswered_total\{role="api"/);
  assert.deepEqual(
    log.lines.map(({ fields }) => fields['worker']),
    ['deliverer'],
  );
});

test('metrics: a worker that does not answer within a second is left out and counted; heads come once', async () => {
  const own = createMetricsRegistry();
  const other = createMetricsRegistry();
  for (const [registry, value] of [
    [own, 1],
    [other, 2],
  ] as const) {
    registry.scope('a').counter('things_total', 'things', ['kind']).with('x"y\n').add(value);
    registry.scope('a').histogram('took_seconds', 'time', [0.1, 1]).record(value);
  }
  other.scope('b').gauge('only_there', 'of the other alone').set(5);
  const handles = [
    fakeMember('indexer', { metrics: async () => JSON.parse(JSON.stringify(await other.families())) }),
    fakeMember('deliverer', { metrics: () => Promise.reject(silent('deliverer')) }),
  ];
  const { workers } = setUp(handles);
  await workers.start();
  const parts = await workers.metrics();
  assert.deepEqual(
    parts.map(({ role }) => role),
    ['indexer'],
  );
  assert.deepEqual(handles[1]?.asked.slice(1), [['metrics', 1_000]]);
  const text = await renderMetrics([{ role: null, families: await own.families() }, ...parts]);
  const expected = [
    '# HELP parhelion_a_things_total things',
    '# TYPE parhelion_a_things_total counter',
    'parhelion_a_things_total{kind="x\\"y\\n"} 1',
    'parhelion_a_things_total{kind="x\\"y\\n",role="indexer"} 2',
    '# HELP parhelion_a_took_seconds time',
    '# TYPE parhelion_a_took_seconds histogram',
    'parhelion_a_took_seconds_bucket{le="0.1"} 0',
    'parhelion_a_took_seconds_bucket{le="1"} 1',
    'parhelion_a_took_seconds_bucket{le="+Inf"} 1',
    'parhelion_a_took_seconds_sum 1',
    'parhelion_a_took_seconds_count 1',
    'parhelion_a_took_seconds_bucket{le="0.1",role="indexer"} 0',
    'parhelion_a_took_seconds_bucket{le="1",role="indexer"} 0',
    'parhelion_a_took_seconds_bucket{le="+Inf",role="indexer"} 1',
    'parhelion_a_took_seconds_sum{role="indexer"} 2',
    'parhelion_a_took_seconds_count{role="indexer"} 1',
    '# HELP parhelion_b_only_there of the other alone',
    '# TYPE parhelion_b_only_there gauge',
    'parhelion_b_only_there{role="indexer"} 5',
  ];
  assert.deepEqual(
    text.split('\n').filter((line) => line !== ''),
    expected,
  );
  assert.equal(await renderMetrics([{ role: null, families: await own.families() }]), await own.text());
});

test('stop: all workers drain and then stop concurrently within the limits; silent ones are terminated too, once', async () => {
  const order: string[] = [];
  const handles = THREADS.map((role) =>
    fakeMember(role, {
      async drain() {
        order.push(`drain ${role}`);
        throw silent(role);
      },
      async stop() {
        order.push(`stop ${role}`);
        if (role === 'indexer') throw silent(role);
      },
    }),
  );
  const { workers } = setUp(handles);
  await workers.drain();
  await Promise.all([workers.stop(), workers.stop()]);
  assert.deepEqual(order, ['drain indexer', 'drain deliverer', 'stop indexer', 'stop deliverer']);
  for (const { asked, ended } of handles) {
    assert.equal(ended, 1);
    for (const [command, timeoutMs] of asked) {
      const limit = command === 'drain' ? LIFECYCLE.drainTimeoutMs : LIFECYCLE.stopTimeoutMs;
      assert.equal(timeoutMs, limit + 1_000);
    }
  }
});

test('the end of one worker ends all; a ping needs all of them; a start fails with the first error', async () => {
  const handles = THREADS.map((role) =>
    fakeMember(role, {
      async ping() {
        if (role === 'deliverer') throw silent(role);
      },
      async start() {
        if (role === 'indexer') throw new CodedError('STORE_WRONG_CHAIN', 'other chain', { exitCode: 78 });
      },
    }),
  );
  const { workers } = setUp(handles);
  await assert.rejects(workers.ping(), { code: 'ROLE_SILENT' });
  await assert.rejects(workers.start(), { code: 'STORE_WRONG_CHAIN', exitCode: 78 });
  handles[1]?.fail('why');
  assert.equal(await workers.failed, 'why');
  const { workers: nobody } = setUp([]);
  await nobody.start();
  await nobody.ping();
  assert.deepEqual(await nobody.checks(), []);
  await nobody.drain();
  await nobody.stop();
});
