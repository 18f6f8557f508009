import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createMemoryLog } from '../../test/helpers/memory-log.ts';
import { CodedError, codeOf } from '../lib/coded-error.ts';
import type { ConfigValues, CrewDuties, CrewMember } from '../ports/crew.ts';
import type { Role } from '../ports/daemon-view.ts';
import { createMetricsRegistry } from '../runtime/metrics.ts';
import { createCrew, renderMetrics } from './workers.ts';

const LIFECYCLE = { startTimeoutMs: 1_000, drainTimeoutMs: 2_000, stopTimeoutMs: 3_000 };
const THREADS: readonly Role[] = ['indexer', 'deliverer'];
const silent = (role: Role) => new CodedError('ROLE_SILENT', `${role} is silent`);

interface FakeMember extends CrewMember {
  /** The duties it was asked for, with their time limits. */
  readonly asked: (readonly [keyof CrewDuties, number | null])[];
  ended: number;
  fail(reason: unknown): void;
}

/** A member whose duties are functions of this thread. */
function fakeMember(role: Role, duties: Partial<CrewDuties>): FakeMember {
  let fail: (reason: unknown) => void = () => undefined;
  const member: FakeMember = {
    role,
    asked: [],
    ended: 0,
    fail: (reason) => fail(reason),
    failed: new Promise((resolve) => {
      fail = resolve;
    }),
    async ask(duty, timeoutMs, ...args) {
      member.asked.push([duty, timeoutMs]);
      const run = duties[duty] as ((...all: unknown[]) => Promise<never>) | undefined;
      return (await run?.(...args)) as never;
    },
    async end() {
      member.ended += 1;
    },
  };
  return member;
}

function setUp(members: readonly FakeMember[]) {
  const metrics = createMetricsRegistry();
  const log = createMemoryLog();
  const crew = createCrew({ members, lifecycle: LIFECYCLE, metrics: metrics.scope('roles'), log });
  return { crew, metrics, log };
}

const config = (n: number): ConfigValues => ({ core: { n }, values: {} });

test('a reload that any member refuses, or does not answer, leaves all with the old configuration', async () => {
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
      const members = outcomes.map((kind, index) =>
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
      const { crew } = setUp(members);
      const taken = crew.takeConfig(config(2), config(1)).then(
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

test('all are asked before one of them takes a configuration: a refusal then costs nothing', async () => {
  const members = THREADS.map((role) =>
    fakeMember(role, {
      async checkConfig() {
        if (role === 'deliverer') throw new CodedError('PLUGIN_RELOAD_REFUSED', 'no');
      },
    }),
  );
  const { crew } = setUp(members);
  await assert.rejects(crew.checkConfig(config(2)), { code: 'PLUGIN_RELOAD_REFUSED' });
  assert.ok(members.every(({ asked }) => asked.every(([duty]) => duty === 'checkConfig')));
});

test('readiness: the checks of a member bear its name; one that is silent, or has ended, fails', async () => {
  const members = [
    fakeMember('indexer', { checks: async () => [{ name: 'disk', ok: true, detail: 'fine' }] }),
    fakeMember('deliverer', { checks: () => Promise.reject(silent('deliverer')) }),
    fakeMember('api', { checks: () => Promise.reject(new CodedError('ROLE_ENDED', 'gone')) }),
  ];
  const { crew, metrics, log } = setUp(members);
  assert.deepEqual(await crew.checks(), [
    { name: 'role indexer', ok: true, detail: 'answers' },
    { name: 'indexer: disk', ok: true, detail: 'fine' },
    { name: 'role deliverer', ok: false, detail: 'does not answer' },
    { name: 'role api', ok: false, detail: 'has ended' },
  ]);
  assert.match(await metrics.text(), /parhelion_roles_unanswered_total\{role="deliverer",duty="checks"\} 1/);
  // Whoever ends a thread in order may have questions under way; one that ends by itself is a fatal line already.
  assert.doesNotMatch(await metrics.text(), /unanswered_total\{role="api"/);
  assert.deepEqual(
    log.lines.map(({ fields }) => fields['member']),
    ['deliverer'],
  );
});

test('metrics: a member that does not answer within a second is left out and counted; heads come once', async () => {
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
  const members = [
    fakeMember('indexer', { metrics: async () => JSON.parse(JSON.stringify(await other.families())) }),
    fakeMember('deliverer', { metrics: () => Promise.reject(silent('deliverer')) }),
  ];
  const { crew } = setUp(members);
  const parts = await crew.metrics();
  assert.deepEqual(
    parts.map(({ role }) => role),
    ['indexer'],
  );
  assert.deepEqual(members[1]?.asked, [['metrics', 1_000]]);
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

test('the end: drains and then stops are asked of all at once within the limits; silent ones are ended all the same, once', async () => {
  const order: string[] = [];
  const members = THREADS.map((role) =>
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
  const { crew } = setUp(members);
  await crew.drain();
  await Promise.all([crew.stop(), crew.stop()]);
  assert.deepEqual(order, ['drain indexer', 'drain deliverer', 'stop indexer', 'stop deliverer']);
  for (const { asked, ended } of members) {
    assert.equal(ended, 1);
    for (const [duty, timeoutMs] of asked) {
      const limit = duty === 'drain' ? LIFECYCLE.drainTimeoutMs : LIFECYCLE.stopTimeoutMs;
      assert.equal(timeoutMs, limit + 1_000);
    }
  }
});

test('what ends one member ends the crew; a ping needs all of them; a start fails with the first error', async () => {
  const members = THREADS.map((role) =>
    fakeMember(role, {
      async ping() {
        if (role === 'deliverer') throw silent(role);
      },
      async start() {
        if (role === 'indexer') throw new CodedError('STORE_WRONG_CHAIN', 'other chain', { exitCode: 78 });
      },
    }),
  );
  const { crew } = setUp(members);
  await assert.rejects(crew.ping(), { code: 'ROLE_SILENT' });
  await assert.rejects(crew.start(), { code: 'STORE_WRONG_CHAIN', exitCode: 78 });
  members[1]?.fail('why');
  assert.equal(await crew.failed, 'why');
  const { crew: nobody } = setUp([]);
  await nobody.start();
  await nobody.ping();
  assert.deepEqual(await nobody.checks(), []);
  await nobody.drain();
  await nobody.stop();
});
