import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from '@sinclair/typebox/value';
import fc from 'fast-check';
import type { Random } from '../../../src/ports/clock.ts';
import { type WebhooksConfig, webhooksConfig } from '../config.ts';
import { type RetryHints, retryDelayMs } from './attempt.ts';

const { retry } = Value.Default(webhooksConfig, {}) as WebhooksConfig;
const fixed = (float: number): Random => ({ float: () => float, bytes: (n) => new Uint8Array(n), uuid: () => '' });
const calm: RetryHints = { retryAfterMs: null, overloaded: false };

test('durable: seven steps over more than a day, each with its jitter, then the end', () => {
  const seconds = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000];
  for (const [at, step] of seconds.entries()) {
    assert.equal(retryDelayMs(retry, 'durable', at + 1, calm, fixed(0.5)), step * 1_000);
    assert.equal(retryDelayMs(retry, 'durable', at + 1, calm, fixed(0)), step * 800);
    assert.ok((retryDelayMs(retry, 'durable', at + 1, calm, fixed(0.999999)) ?? 0) <= step * 1_200);
  }
  assert.equal(retryDelayMs(retry, 'durable', 8, calm, fixed(0.5)), null);
});

test('compat: three retries a second apart', () => {
  for (const n of [1, 2, 3]) assert.equal(retryDelayMs(retry, 'compat', n, calm, fixed(0)), 1_000);
  assert.equal(retryDelayMs(retry, 'compat', 4, calm, fixed(0)), null);
});

test('a slow or overloaded receiver gets a minute with durable', () => {
  const hints = { retryAfterMs: null, overloaded: true };
  assert.equal(retryDelayMs(retry, 'durable', 1, hints, fixed(0.5)), 60_000);
  assert.equal(retryDelayMs(retry, 'durable', 2, hints, fixed(0.5)), 300_000);
  assert.equal(retryDelayMs(retry, 'compat', 1, hints, fixed(0.5)), 1_000);
});

test('Retry-After moves the delay between one and two steps, whatever its value', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 7 }),
      fc.double({ min: 0, max: 1e15, noNaN: true }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (n, retryAfterMs, float) => {
        const plain = retryDelayMs(retry, 'durable', n, calm, fixed(float)) ?? 0;
        const moved = retryDelayMs(retry, 'durable', n, { retryAfterMs, overloaded: false }, fixed(float)) ?? 0;
        assert.ok(moved >= plain && moved <= 2 * plain + 1);
        if (retryAfterMs > plain && retryAfterMs < 2 * plain) assert.ok(Math.abs(moved - retryAfterMs) <= 1);
      },
    ),
  );
});
