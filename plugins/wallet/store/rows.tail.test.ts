import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { orderOf, packTail, partOf, sorted, tailRowsOf, unpackTail } from './rows.ts';
import { positionOf } from './tables.ts';

const number = fc.oneof(
  fc.integer({ min: 0, max: 2 ** 48 - 1 }),
  fc.integer({ min: 0, max: 3 }),
  fc.constant(2 ** 48 - 1),
);
const rowsOf = (slot: number) =>
  fc
    .uniqueArray(
      fc.record({ a: number, place: fc.integer({ min: 0, max: 65_535 }), flags: fc.integer({ min: 1, max: 15 }) }),
      {
        selector: ({ a, place }) => `${a}:${place}`,
        maxLength: 200,
      },
    )
    .map((rows) => rows.map(({ a, place, flags }) => ({ a, n: positionOf(slot, place), flags })));

test('the radix sort gives the order of a comparison, and is stable', () => {
  fc.assert(
    fc.property(fc.array(number, { maxLength: 300 }), (numbers) => {
      const expected = numbers
        .map((_, at) => at)
        .sort((l, r) => (numbers[l] as number) - (numbers[r] as number) || l - r);
      assert.deepEqual([...orderOf(Float64Array.from(numbers))], expected);
    }),
  );
});

test('a block is read back from its parts, as a whole and by address', () => {
  fc.assert(
    fc.property(rowsOf(77), (rows) => {
      const parts = packTail(77, rows);
      const expected = rows.toSorted((left, right) => left.a - right.a || left.n - right.n);
      assert.deepEqual(parts.flatMap(unpackTail), expected);
      assert.deepEqual(sorted(rows), expected);
      assert.equal(new Set(parts.map(({ part }) => part)).size, parts.length);
      for (const { a } of rows) {
        const mine = parts.filter(({ part }) => part === partOf(a)).flatMap((part) => tailRowsOf(part, a));
        assert.deepEqual(
          mine,
          expected.filter((row) => row.a === a).map(({ n, flags }) => ({ n, flags })),
        );
      }
      assert.deepEqual(
        parts.flatMap((part) => tailRowsOf(part, 123_456_789_123)).length,
        rows.filter(({ a }) => a === 123_456_789_123).length,
      );
    }),
  );
});
