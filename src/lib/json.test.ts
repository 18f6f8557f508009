import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { stringify } from './json.ts';

/** Any JSON-like value, with undefined, dates and odd keys in it. */
const plain = fc.anything({ withDate: true, withNullPrototype: true, maxDepth: 4 });

test('without bigints it is JSON.stringify', () => {
  fc.assert(
    fc.property(plain, (value) => assert.equal(stringify(value), JSON.stringify(value) ?? 'null')),
    { numRuns: 1_000 },
  );
});

test('with a bigint, everything else is still written like JSON.stringify', () => {
  fc.assert(
    fc.property(plain, fc.bigInt(), (value, big) => {
      assert.equal(stringify([value, big]), `[${JSON.stringify([value]).slice(1, -1)},${big}]`);
      assert.equal(stringify({ big, value }), JSON.stringify({ big: '#', value }).replace('"#"', String(big)));
    }),
    { numRuns: 1_000 },
  );
});

test('bigints of any size stay exact and bare', () => {
  assert.equal(stringify({ a: 18_446_744_073_709_551_615n, b: [-1n, 0n] }), '{"a":18446744073709551615,"b":[-1,0]}');
  assert.equal(stringify(7n), '7');
  assert.equal(stringify(undefined), 'null');
});

test('members that JSON leaves out stay out, and holes of arrays are null', () => {
  const value = { a: undefined, b: () => 1, c: Symbol('c'), d: 1n, e: [undefined, () => 1, 2n], f: Number.NaN };
  assert.equal(stringify(value), '{"d":1,"e":[null,null,2],"f":null}');
});

test('a cycle is refused, with and without a bigint', () => {
  const cycle: Record<string, unknown> = { big: 1n };
  cycle['self'] = cycle;
  assert.throws(() => stringify(cycle), TypeError);
  const arrays: unknown[] = [];
  arrays.push(arrays);
  assert.throws(() => stringify(arrays), TypeError);
});
