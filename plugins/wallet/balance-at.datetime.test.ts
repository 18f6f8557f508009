import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readDatetime } from './balance-at.ts';

test('dates of the calendar are read as UTC unless they name a zone', () => {
  for (const [text, iso] of [
    ['2025-01-10', '2025-01-10T00:00:00Z'],
    ['2025-01-10 19:20:00', '2025-01-10T19:20:00Z'],
    ['2025-01-10T19:20', '2025-01-10T19:20:00Z'],
    ['2025-01-10T19:20:30.123456789Z', '2025-01-10T19:20:30Z'],
    ['2025-01-10T19:20:00+02:00', '2025-01-10T17:20:00Z'],
    ['2025-01-10T19:20:00 02:00', '2025-01-10T17:20:00Z'],
    ['2025-01-10T19:20:00-05:00', '2025-01-11T00:20:00Z'],
    ['2024-02-29', '2024-02-29T00:00:00Z'],
  ] as const)
    assert.equal(readDatetime(text), Date.parse(iso) / 1_000, text);
});

test('invalid calendar dates are refused', () => {
  for (const text of [
    '01/10/2025',
    '2025-13-10',
    '2025-02-30',
    '2025-02-29',
    '2025-00-01',
    '2025-01-00',
    '',
    '2025',
    '2025-1-1',
    '2025-01-10 24:00',
    '2025-01-10 10:60',
    '2025-01-10T10:00:60Z',
    '2025-01-10T10:00:00+14:01',
    '2025-01-10Z',
    '2025-01-10T10:00:00+02:60',
    '2025-01-10T10:00:00.Z',
    '2025-01-10T10:00:00 0200',
    ' 2025-01-10',
    '0099-01-01x',
  ])
    assert.equal(readDatetime(text), null, text);
});

test('dates printed by programs are read', () => {
  const day = fc.date({ min: new Date('1970-01-01'), max: new Date('9999-12-31'), noInvalidDate: true });
  fc.assert(
    fc.property(day, (date) => {
      assert.equal(readDatetime(date.toISOString()), Math.floor(date.getTime() / 1_000));
    }),
  );
});
