import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createSfc32 } from '../../test/helpers/sfc32.ts';
import { exceeds } from '../lib/json.ts';
import { LazySignal } from '../runtime/lazy-signal.ts';
import { createMetricsRegistry } from '../runtime/metrics.ts';
import { createRemoteAddress } from '../runtime/network-address.ts';
import { createDeadlines } from '../runtime/waiting.ts';
import { parseQuery } from './query.ts';
import { parseRequestTarget } from './router.ts';

describe('targets', () => {
  test('any text gives a path that starts as it should and never throws', () => {
    const piece = fc.constantFrom('/', '?', '%', '%2F', '%41', '%c3%a9', 'http://h', 'a', '..', '#', 'é', '&', '\\');
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 12 }).map((parts) => `/${parts.join('')}`),
        (raw) => {
          const target = parseRequestTarget(raw);
          const mark = raw.indexOf('?');
          assert.equal(target.query, mark < 0 ? '' : raw.slice(mark + 1));
          assert.ok(target.path.startsWith('/'));
          if (target.ok && target.path !== '/') {
            const path = mark < 0 ? raw : raw.slice(0, mark);
            const wanted = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
            assert.equal(target.path, wanted.split('/').map(decodeURIComponent).join('/'));
            assert.doesNotMatch(target.routable, /[?#]/);
          }
        },
      ),
      { numRuns: 1_000 },
    );
  });
  test('bytes that are illegal in a target, raw or escaped, make it invalid', () => {
    for (const segment of ['\u00e9', '\u0080', '\u007f', '%00', '%1f', '%2F', '%', '%zz', '%c3'])
      assert.equal(parseRequestTarget(`/v1/${segment}/x`).ok, false, JSON.stringify(segment));
    assert.equal(parseRequestTarget('/v1/%C3%A9/x').path, '/v1/\u00e9/x');
  });
});

describe('queries', () => {
  test('agree with URLSearchParams wherever that is defined', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string(), fc.string())), (pairs) => {
        const wellFormed = pairs.filter(([name, value]) => name !== '' || value !== '');
        const text = new URLSearchParams(wellFormed).toString();
        assert.deepEqual(parseQuery(text), [...new URLSearchParams(text)]);
      }),
    );
  });
});

test('the depth of a body is that of its value', () => {
  const depthOf = (value: unknown): number =>
    typeof value !== 'object' || value === null ? 0 : 1 + Math.max(0, ...Object.values(value).map(depthOf));
  fc.assert(
    fc.property(fc.jsonValue(), fc.integer({ min: 0, max: 6 }), (value, limit) => {
      assert.equal(exceeds(Buffer.from(JSON.stringify(value)), { depth: limit }), depthOf(value) > limit);
    }),
  );
});

test('the values of a text are its containers, and its members and items but the first of each', () => {
  const countOf = (value: unknown): number => {
    if (typeof value !== 'object' || value === null) return 0;
    const parts = Object.values(value);
    return 1 + Math.max(0, parts.length - 1) + parts.reduce((sum: number, one) => sum + countOf(one), 0);
  };
  fc.assert(
    fc.property(fc.jsonValue(), fc.nat(12), (value, limit) => {
      assert.equal(exceeds(Buffer.from(JSON.stringify(value)), { depth: 100, values: limit }), countOf(value) > limit);
    }),
  );
});

describe('client addresses', () => {
  const request = (remoteAddress: string, forwarded?: string) =>
    ({ socket: { remoteAddress }, headers: { 'x-forwarded-for': forwarded } }) as unknown as IncomingMessage;
  const behind = createRemoteAddress(() => ['10.0.0.0/8', '::1']);
  for (const [socket, forwarded, expected] of [
    ['203.0.113.9', '198.51.100.1', '203.0.113.9'],
    ['10.1.1.1', undefined, '10.1.1.1'],
    ['10.1.1.1', '198.51.100.1', '198.51.100.1'],
    ['10.1.1.1', '1.1.1.1, 198.51.100.1, 10.2.2.2', '198.51.100.1'],
    ['::ffff:10.1.1.1', '198.51.100.1:4711', '198.51.100.1'],
    ['::1', '[2001:db8::1]:80', '2001:db8::1'],
    ['10.1.1.1', '198.51.100.1, nonsense', '10.1.1.1'],
    ['10.1.1.1', '10.3.3.3', '10.3.3.3'],
    ['::ffff:203.0.113.9', '1.2.3.4', '203.0.113.9'],
  ] as const) {
    test(`${socket} with ${forwarded} is ${expected}`, () =>
      assert.equal(behind(request(socket, forwarded)), expected));
  }
  test('a malformed network is a configuration error', () => {
    for (const cidr of ['10.0.0.0/33', 'host', '10.0.0.0/x', ''])
      assert.throws(() => createRemoteAddress(() => [cidr]), { code: 'CONFIG_INVALID' });
  });
});

describe('lazy signals', () => {
  test('abort before and after first use, and follow their parent until released', () => {
    const early = new LazySignal();
    early.abort('why');
    assert.equal((early.signal.reason as Error).message, 'why');
    const parent = new LazySignal();
    const child = new LazySignal(parent);
    const free = new LazySignal(parent);
    assert.equal(child.signal.aborted || free.signal.aborted, false);
    free.release();
    parent.abort('gone');
    assert.equal((child.signal.reason as Error).message, 'gone');
    assert.equal(free.signal.aborted, false);
    assert.equal(new LazySignal(parent).signal.aborted, true);
  });

  test('as an AbortSignal of its own it does what a real one does, whatever is read of it and in which order', () => {
    const random = createSfc32(3);
    for (let round = 0; round < 500; round += 1) {
      const lazy = new LazySignal();
      const real = new AbortController();
      const heard: string[] = [];
      const listeners = [0, 1, 2].map((number) => ({
        lazy: () => heard.push(`lazy ${number}`),
        real: () => heard.push(`real ${number}`),
      }));
      for (let step = 0; step < 6; step += 1) {
        const pair = listeners[random.below(3)]!;
        const what = random.below(4);
        if (what === 0) {
          lazy.addEventListener('abort', pair.lazy);
          real.signal.addEventListener('abort', pair.real, { once: true });
        } else if (what === 1) {
          lazy.removeEventListener('abort', pair.lazy);
          real.signal.removeEventListener('abort', pair.real);
        } else if (what === 2) void lazy.signal;
        else if (random.below(3) === 0) {
          lazy.abort('the client has gone');
          real.abort(new Error('the client has gone'));
        }
        assert.equal(lazy.aborted, real.signal.aborted);
        assert.equal((lazy.reason as Error | undefined)?.message, (real.signal.reason as Error | undefined)?.message);
      }
      lazy.abort('the client has gone');
      real.abort();
      const of = (who: string) =>
        heard
          .filter((one) => one.startsWith(who))
          .map((one) => one.slice(5))
          .sort();
      assert.deepEqual(of('lazy'), of('real'));
    }
  });
});

test('deadlines expire once, canceled ones never, and no timer remains', async () => {
  const clock = createManualClock();
  const deadlines = createDeadlines(clock);
  const expired: string[] = [];
  deadlines.watch(1_000, () => expired.push('one'));
  const cancel = deadlines.watch(500, () => expired.push('never'));
  deadlines.watch(2_000, () => expired.push('two'));
  cancel();
  await clock.advance(900);
  assert.deepEqual(expired, []);
  await clock.advance(300);
  assert.deepEqual(expired, ['one']);
  await clock.advance(5_000);
  assert.deepEqual(expired, ['one', 'two']);
  assert.equal(clock.pending, 0);
});

describe('metrics', () => {
  test('histograms count as Prometheus does', async () => {
    const registry = createMetricsRegistry();
    const values = [0.5, 1, 1.5, 7, 100];
    const histogram = registry.scope('my-area').histogram('size_bytes', 'sizes', [1, 5, 10], ['kind']).with('a"b');
    for (const value of values) histogram.record(value);
    const text = await registry.text();
    for (const [le, count] of [
      ['1', 2],
      ['5', 3],
      ['10', 4],
      ['+Inf', 5],
    ])
      assert.ok(text.includes(`parhelion_my_area_size_bytes_bucket{kind="a\\"b",le="${le}"} ${count}`), text);
    assert.ok(text.includes('parhelion_my_area_size_bytes_sum{kind="a\\"b"} 110'));
    assert.ok(text.includes('parhelion_my_area_size_bytes_count{kind="a\\"b"} 5'));
  });
  test('one name is one metric; another kind or other labels are refused', () => {
    const registry = createMetricsRegistry();
    const scope = registry.scope('x');
    assert.equal(scope.counter('a_total', 'a'), registry.scope('x').counter('a_total', 'a'));
    assert.throws(() => scope.gauge('a_total', 'a'));
    assert.throws(() => scope.counter('a_total', 'a', ['label']));
    assert.throws(() => scope.counter('b_total', 'b', ['one']).with('1', '2'));
    assert.deepEqual(registry.names(), ['parhelion_x_a_total', 'parhelion_x_b_total']);
  });
});
