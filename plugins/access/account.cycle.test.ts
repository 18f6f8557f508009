import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cycleOf } from './account.ts';

const at = (text: string) => Date.parse(text);
const spanAt = (billingDay: number, text: string) => {
  const { start, end } = cycleOf(billingDay, at(text));
  return `${start} ${end}`;
};

test('a cycle begins on the billing day at 00:00 UTC; months without it begin on their last day', () => {
  for (const [day, moment, span] of [
    [15, '2026-03-14T23:59:59.999Z', '2026-02-15 2026-03-15'],
    [15, '2026-03-15T00:00:00Z', '2026-03-15 2026-04-15'],
    [31, '2026-01-31T12:00:00Z', '2026-01-31 2026-02-28'],
    [31, '2026-02-27T23:59:59Z', '2026-01-31 2026-02-28'],
    [31, '2026-02-28T00:00:00Z', '2026-02-28 2026-03-31'],
    [31, '2026-03-30T00:00:00Z', '2026-02-28 2026-03-31'],
    [31, '2026-04-30T00:00:00Z', '2026-04-30 2026-05-31'],
    [30, '2024-02-29T00:00:00Z', '2024-02-29 2024-03-30'],
    [29, '2025-02-28T01:00:00Z', '2025-02-28 2025-03-29'],
    [1, '2026-12-31T23:59:59Z', '2026-12-01 2027-01-01'],
    [31, '2026-12-30T00:00:00Z', '2026-11-30 2026-12-31'],
    [31, '2026-12-31T00:00:00Z', '2026-12-31 2027-01-31'],
  ] as const)
    assert.equal(spanAt(day, moment), span, `${day} ${moment}`);
});

test('cycles follow each other without a hole, hold their moment, and begin on the billing day or on the last of a month', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 31 }),
      fc.integer({ min: at('2000-01-01T00:00:00Z'), max: at('2100-01-01T00:00:00Z') }),
      (day, moment) => {
        const cycle = cycleOf(day, moment);
        assert.ok(cycle.startMs <= moment && moment < cycle.endMs);
        assert.deepEqual(cycleOf(day, cycle.startMs), cycle);
        assert.deepEqual(cycleOf(day, cycle.endMs - 1), cycle);
        assert.equal(cycleOf(day, cycle.endMs).startMs, cycle.endMs);
        const began = new Date(cycle.startMs).getUTCDate();
        const isLast = new Date(cycle.startMs + 86_400_000).getUTCDate() === 1;
        assert.ok(began === day || (isLast && began < day));
        assert.equal(cycle.startMs % 86_400_000, 0);
      },
    ),
  );
});
