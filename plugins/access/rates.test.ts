import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { GateRefusal } from '../../src/plugin/plugin.ts';
import {
  type Bucket,
  type Buckets,
  createBucket,
  createSlidingWindow,
  fill,
  learn,
  take,
  takeTokens,
} from './rates.ts';

const limitsOf = (rates: Record<string, number>, burstFactor = 2) => ({
  ratePerSecond: new Map(Object.entries(rates)),
  burstFactor,
});

function taker(rates: Record<string, number>) {
  const buckets: Buckets = new Map();
  const limits = limitsOf(rates);
  return (nowMs: number, groups: readonly string[], count = 1) =>
    takeTokens(
      buckets,
      limits,
      { groups, counts: new Map(groups.map((group) => [group, count])) },
      { nowMs, unixMs: 1_700_000_000_000 + nowMs },
    );
}

describe('token buckets', () => {
  test('twice the rate at once, then the plain rate; refused calls take nothing', () => {
    const ask = taker({ rpc: 10 });
    const passes = (nowMs: number) => !(ask(nowMs, ['rpc']) instanceof GateRefusal);
    for (let n = 0; n < 20; n += 1) assert.ok(passes(0), `call ${n}`);
    for (let n = 0; n < 50; n += 1) assert.equal(passes(0), false);
    assert.equal(passes(99), false);
    assert.equal(passes(100), true);
    assert.equal(passes(100), false);
    let passed = 0;
    for (let ms = 100; ms < 10_100; ms += 1) if (passes(ms)) passed += 1;
    assert.equal(passed, 99);
  });

  test('headers and the time to wait', () => {
    const ask = taker({ rpc: 10 });
    assert.deepEqual(ask(0, ['rpc']), {
      'x-ratelimit-limit': '10',
      'x-ratelimit-remaining': '19',
      'x-ratelimit-reset': '1700000001',
    });
    // A batch may overdraw: 100 calls from 19 tokens leave a debt of 81.
    assert.equal((ask(0, ['rpc'], 100) as Record<string, string>)['x-ratelimit-remaining'], '0');
    const refusal = ask(0, ['rpc']) as GateRefusal;
    assert.ok(refusal instanceof GateRefusal);
    assert.deepEqual([refusal.reason, refusal.retryAfterS], ['rate', 9]);
    assert.equal(refusal.headers['x-ratelimit-remaining'], '0');
    assert.ok(ask(8_100, ['rpc']) instanceof GateRefusal);
    assert.equal(ask(8_200, ['rpc']) instanceof GateRefusal, false);
  });

  test('groups are independent; a call of two groups needs both and takes from neither when one is empty', () => {
    const ask = taker({ rpc: 10, sendTransaction: 1 });
    const passes = (...groups: string[]) => !(ask(0, groups) instanceof GateRefusal);
    assert.ok(passes('rpc', 'sendTransaction') && passes('rpc', 'sendTransaction'));
    assert.equal(passes('rpc', 'sendTransaction'), false);
    for (let n = 0; n < 18; n += 1) assert.ok(passes('rpc'), `call ${n}`);
    assert.equal(passes('rpc'), false);
    assert.ok(passes('other'), 'a group that the plan does not name has no limit');
  });

  test('in any span no more than burst + rate x time, and nothing is refused that fits', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.array(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 300 }),
        (rate, gaps) => {
          const ask = taker({ g: rate });
          const passed: number[] = [];
          let now = 0;
          for (const gap of gaps) {
            now += gap;
            if (!(ask(now, ['g']) instanceof GateRefusal)) passed.push(now);
          }
          for (let i = 0; i < passed.length; i += 1)
            for (let j = i; j < passed.length; j += 1) {
              const most = 2 * rate + (rate * (passed[j]! - passed[i]!)) / 1_000;
              assert.ok(j - i + 1 <= most + 1e-6, `${j - i + 1} in ${passed[j]! - passed[i]!} ms at ${rate}/s`);
            }
          if (gaps.length <= 2 * rate) assert.equal(passed.length, gaps.length);
        },
      ),
      { numRuns: 50 },
    );
  });
});

test('the window holds at most its limit in any span of its length; refused calls do not count', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 500 }), { maxLength: 200 }), (gaps) => {
      const window = createSlidingWindow(5, 1_000);
      const passed: number[] = [];
      let now = 0;
      for (const gap of gaps) {
        now += gap;
        const inSpan = passed.filter((at) => now - at < 1_000).length;
        assert.equal(window.take(now), inSpan < 5);
        if (inSpan < 5) passed.push(now);
      }
    }),
  );
});

describe('several processes', () => {
  const RATE = 10;
  const FLUSH_MS = 1_000;

  /** Buckets of one group that tell each other what they took, each at its own moments. */
  function group(count: number) {
    let all = 0;
    const buckets: Bucket[] = Array.from({ length: count }, () => createBucket(RATE, 2, 0));
    return {
      call(i: number, nowMs: number): boolean {
        const bucket = buckets[i]!;
        fill(bucket, nowMs);
        if (bucket.tokens < 1) return false;
        take(bucket, 1);
        return true;
      },
      flush(i: number, nowMs: number): void {
        const bucket = buckets[i]!;
        fill(bucket, nowMs);
        const told = bucket.unwritten;
        if (told === 0) return;
        bucket.unwritten = 0;
        all += told;
        learn(bucket, all, told);
      },
    };
  }

  test('together they stay within the rate but for what they do not know of each other yet', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 4 }),
        fc.array(fc.tuple(fc.nat(3), fc.integer({ min: 0, max: 60 })), { minLength: 100, maxLength: 1_500 }),
        (count, calls) => {
          const processes = group(count);
          let now = 0;
          let flushed = 0;
          let passed = 0;
          for (const [who, gap] of calls) {
            now += gap;
            while (flushed + FLUSH_MS <= now) {
              flushed += FLUSH_MS;
              for (let i = 0; i < count; i += 1) processes.flush(i, flushed);
            }
            if (processes.call(who % count, now)) passed += 1;
          }
          const unknown = (count - 1) * (2 * RATE + (2 * RATE * FLUSH_MS) / 1_000);
          assert.ok(passed <= 2 * RATE + (RATE * now) / 1_000 + unknown + 1, `${passed} in ${now} ms`);
        },
      ),
      { numRuns: 100 },
    );
  });

  test('one that was idle is not held liable for what the others took in time', () => {
    const processes = group(2);
    assert.ok(processes.call(1, 0));
    processes.flush(1, 0);
    for (let second = 0; second < 3_600; second += 1) {
      for (let n = 0; n < 9; n += 1) assert.ok(processes.call(0, second * 1_000 + n * 100));
      processes.flush(0, second * 1_000 + 999);
    }
    assert.ok(processes.call(1, 3_600_000));
    processes.flush(1, 3_600_001);
    for (let n = 0; n < 10; n += 1) assert.ok(processes.call(1, 3_600_100), `call ${n}`);
  });
});
