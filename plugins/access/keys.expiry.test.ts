import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseExpiry } from './keys.ts';

const now = Date.parse('2026-03-01T10:00:00Z');

test('days count from now; a date is its first moment in UTC; a full date is what it says', () => {
  assert.equal(parseExpiry('1d', now), now + 86_400_000);
  assert.equal(parseExpiry('2026-03-02', now), Date.parse('2026-03-02T00:00:00Z'));
  assert.equal(parseExpiry('2026-03-01T13:30+02:00', now), Date.parse('2026-03-01T11:30:00Z'));
  fc.assert(
    fc.property(fc.date({ min: new Date(now + 1), max: new Date('2200-01-01'), noInvalidDate: true }), (date) => {
      const text = `${date.toISOString().slice(0, 19)}Z`;
      fc.pre(Date.parse(text) > now);
      assert.equal(parseExpiry(text, now), Date.parse(text));
    }),
  );
});

test('a text that is not a future time is refused with exit code 64', () => {
  for (const text of [
    '',
    'x',
    '0d',
    '-1d',
    '1.5d',
    '90',
    '1e3d',
    '2026-02-31',
    '2026-13-01',
    '2026-03-01',
    '2026-03-01T09:59:59Z',
    '2030-01-31T12:00',
    '2030-01-31T25:00Z',
    '2030-02-30T12:00Z',
    'tomorrow',
    '123456d',
  ])
    assert.throws(() => parseExpiry(text, now), { code: 'ACCESS_BAD_EXPIRY', exitCode: 64 }, text);
});
