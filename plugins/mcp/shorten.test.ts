import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseVerbatim } from '../../src/lib/json.ts';
import { shorten, visible } from './shorten.ts';

const SHORT = { items: 3, innerItems: 2, text: 5, expand: [] };

test('what is cut is listed with its path, what was shown and how much there is', () => {
  const { value, omitted } = shorten({ rows: [[1, 2, 3], [4], 'abcdefg', 0], name: 'x' }, SHORT);
  assert.deepEqual(value, { rows: [[1, 2], [4], 'abcde…'], name: 'x' });
  assert.deepEqual(omitted, [
    { path: 'rows', shown: 3, total: 4 },
    { path: 'rows.0', shown: 2, total: 3 },
    { path: 'rows.2', shown: 5, total: 7 },
  ]);
});

test('a path that is asked for is whole, with everything inside', () => {
  const given = { rows: [['abcdefg', 1, 2], 1, 2, 3], other: [1, 2, 3, 4] };
  const { value, omitted } = shorten(given, { ...SHORT, expand: ['rows'] });
  assert.deepEqual(value, { ...given, other: [1, 2, 3] });
  assert.deepEqual(omitted, [{ path: 'other', shown: 3, total: 4 }]);
});

test('numbers that a double cannot hold arrive as text, digit by digit', () => {
  const exact = parseVerbatim('{"a":18446744073709551615,"b":9007199254740991,"c":1.5,"d":123456789.123456789123}');
  assert.deepEqual(shorten(exact, SHORT).value, {
    a: '18446744073709551615',
    b: 9_007_199_254_740_991,
    c: 1.5,
    d: '123456789.123456789123',
  });
});

test('with everything expanded, any answer stays as it is but for unseen characters', () => {
  fc.assert(
    fc.property(fc.jsonValue({ noUnicodeString: true }), (value) => {
      const { value: shown, omitted } = shorten({ value }, { ...SHORT, expand: ['*'] });
      assert.deepEqual(omitted, []);
      assert.equal(
        JSON.stringify(shown),
        JSON.stringify({ value }, (_, one) =>
          typeof one === 'number' && Number.isInteger(one) && !Number.isSafeInteger(one) ? String(one) : one,
        ),
      );
    }),
  );
});

test('no character that a person does not see is left', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      assert.doesNotMatch(visible(text).replace(/[\n\t]/g, ''), /[\p{Cc}\p{Cf}\p{Co}\p{Cs}]/u);
    }),
  );
  assert.equal(visible('a\u202eb\u{e0041}\u200b'), 'a\\u{202e}b\\u{e0041}\\u{200b}');
});
