import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { bySeed } from '../../test/helpers/run-part.ts';
import { JsonCursor, Unusual } from './json-cursor.ts';

/** Whether the walk accepts the text as exactly one value. */
function isTaken(text: string): boolean {
  const cursor = new JsonCursor(Buffer.from(text));
  try {
    cursor.value();
    cursor.peek();
    return cursor.at === cursor.bytes.length;
  } catch (error) {
    assert.ok(error instanceof Unusual, String(error));
    return false;
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

bySeed(300, ({ length: numRuns }) => {
  test('output of JSON.stringify is accepted', () => {
    fc.assert(
      fc.property(fc.json({ stringUnit: 'binary' }), fc.constantFrom(0, 2), (text, indent) => {
        const spaced = JSON.stringify(JSON.parse(text), null, indent);
        assert.ok(isTaken(spaced), spaced);
      }),
      { numRuns },
    );
  });
});

bySeed(30_000, ({ length: numRuns }) => {
  test('everything that JSON.parse rejects is refused', () => {
    const pieces = [
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '\\',
      'a',
      '\\u00',
      '\\n',
      '0',
      '01',
      '1',
      '-',
      '.',
      '.5',
      'e',
      'E+1',
    ];
    const more = [
      'null',
      'true',
      'false',
      'nul',
      ' ',
      '\n',
      '\u0001',
      '\u000b',
      'é',
      '"a":',
      '"x"',
      '[]',
      '{}',
      '\u007f',
    ];
    let taken = 0;
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...pieces, ...more), { maxLength: 9 }), (parts) => {
        const text = parts.join('');
        if (!isTaken(text)) return;
        taken++;
        assert.ok(isJson(text), JSON.stringify(text));
      }),
      { numRuns },
    );
    assert.ok(taken > numRuns / 400, `${taken}`);
  });
});

bySeed(30_000, ({ length: numRuns }) => {
  test('numbers and strings are accepted exactly as by JSON.parse', () => {
    const number = fc.array(fc.constantFrom('0', '1', '9', '-', '+', '.', 'e', 'E', ' '), {
      minLength: 1,
      maxLength: 6,
    });
    const string = fc
      .array(fc.constantFrom('"', '\\', 'u', '0', 'f', 'G', 'n', '/', '\u001f', '\u0020', '\u0080', 'abcd', '😀'), {
        maxLength: 9,
      })
      .map((parts) => ['"', ...parts, '"']);
    fc.assert(
      fc.property(fc.oneof(number, string), (parts) => {
        const text = parts.join('');
        assert.equal(isTaken(text), isJson(text), JSON.stringify(text));
      }),
      { numRuns },
    );
  });
});

test('control characters and non-ASCII bytes are handled at every position of a string', () => {
  for (let code = 0; code < 256; code++) {
    for (let before = 0; before < 9; before++) {
      const body = Buffer.concat([Buffer.from(`"${'x'.repeat(before)}`), Buffer.of(code), Buffer.from('yyyyyyy"')]);
      const cursor = new JsonCursor(body);
      let end = -1;
      try {
        cursor.value();
        end = cursor.at;
      } catch (error) {
        assert.ok(error instanceof Unusual);
      }
      const expected = code < 0x20 || code === 0x5c ? -1 : code === 0x22 ? before + 2 : body.length;
      assert.equal(end, expected, `${code} behind ${before}`);
    }
  }
});

bySeed(3_000, ({ length: numRuns }) => {
  test('lists of integers are counted, and refused with anything else in them', () => {
    const item = fc.oneof(
      fc.nat().map(String),
      fc.constantFrom('0', '-1', '1.5', ' 2', '3 ', '00', '', 'null', '1e3', '[1]'),
    );
    fc.assert(
      fc.property(fc.array(item, { maxLength: 6 }), fc.constantFrom(']', '', ' ]', ']]'), (items, end) => {
        const text = `[${items.join(',')}${end}`;
        const run = (count: (cursor: JsonCursor) => number) => {
          const cursor = new JsonCursor(Buffer.from(text));
          try {
            return [count(cursor), cursor.at];
          } catch (error) {
            assert.ok(error instanceof Unusual);
            return 'refused';
          }
        };
        const counted = run((cursor) => cursor.integers());
        const isPlain = items.every((one) => /^ *(0|-?[1-9]\d*) *$/.test(one) || one.trim() === '');
        if (isPlain)
          assert.deepEqual(
            counted,
            run((cursor) => cursor.elements()),
          );
        else assert.equal(counted, 'refused');
        if (!isPlain) return;
        if (isJson(text)) assert.deepEqual(counted, [(JSON.parse(text) as unknown[]).length, text.length]);
      }),
      { numRuns },
    );
  });
});
