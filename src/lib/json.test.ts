import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { JsonNumber, objectMembers, parseExact, parseVerbatim, stringify, withoutBlanks } from './json.ts';
import { readRpcReply, withId } from './json-rpc.ts';

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

const blank = fc.array(fc.constantFrom(' ', '\n', '\t', '\r'), { maxLength: 3 }).map((list) => list.join(''));

/** JSON text with odd blanks and escapes, and the value it stands for. */
const loose: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom('null', 'true', 'false', '18446744073709551615', '-0.5e+10', '0'),
    text(),
    fc
      .tuple(fc.array(tie('value'), { maxLength: 4 }), blank)
      .map(([items, b]) => `[${b}${items.join(`${b},${b}`)}${b}]`),
    fc
      .tuple(fc.array(fc.tuple(text(), tie('value')), { maxLength: 4 }), blank)
      .map(([items, b]) => `{${b}${items.map(([name, value]) => `${name}${b}:${b}${value}`).join(`,${b}`)}${b}}`),
  ),
})).value;

/** String literals: plain, with each kind of escape, and longer than the scanner's short path. */
function text(): fc.Arbitrary<string> {
  const piece = fc.constantFrom(
    'a',
    'é',
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '\\"',
    '\\\\',
    '\\u00e9',
    '\\n',
    '😀',
    'x'.repeat(70),
  );
  return fc.array(piece, { maxLength: 8 }).map((pieces) => `"${pieces.join('')}"`);
}

test('members are where JSON.parse sees them', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(text(), loose), { maxLength: 6 }), blank, (pairs, b) => {
      const json = `${b}{${pairs.map(([name, value]) => `${b}${name}${b}:${b}${value}${b}`).join(',')}}${b}`;
      const bytes = Buffer.from(json);
      const members = objectMembers(bytes);
      assert.ok(members !== null, json);
      assert.deepEqual(
        members.map(({ name, start, end }) => [name, bytes.toString('utf8', start, end)]),
        pairs.map(([name, value]) => [JSON.parse(name), value]),
      );
    }),
    { numRuns: 500 },
  );
});

test('no proper prefix of an object is an object, nor is an object with trailing bytes', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(text(), loose), { minLength: 1, maxLength: 3 }), fc.nat(), (pairs, at) => {
      const bytes = Buffer.from(`{${pairs.map(([name, value]) => `${name}:${value}`).join(',')}}`);
      assert.equal(objectMembers(bytes.subarray(0, at % bytes.length)), null);
      assert.equal(objectMembers(Buffer.concat([bytes, Buffer.from('x')])), null);
      assert.equal(objectMembers(Buffer.concat([bytes, Buffer.from('{}')])), null);
    }),
    { numRuns: 500 },
  );
});

test('arbitrary bytes never throw, and whatever object JSON.parse takes is found', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('{', '}', '[', ']', '"', '\\', ':', ',', 'a', '1', ' '), { maxLength: 24 }),
      (list) => {
        const json = list.join('');
        const members = objectMembers(Buffer.from(json));
        if (members === null) {
          let value: unknown = null;
          try {
            value = JSON.parse(json);
          } catch {
            return;
          }
          assert.ok(typeof value !== 'object' || value === null || Array.isArray(value), json);
        }
      },
    ),
    { numRuns: 2_000 },
  );
});

test('a range inside other bytes is scanned on its own', () => {
  const bytes = Buffer.from('{"params":{"a":1,"b":"}"},"z":2}');
  const params = objectMembers(bytes)!.find(({ name }) => name === 'params')!;
  assert.deepEqual(
    objectMembers(bytes, params.start, params.end)!.map(({ name }) => name),
    ['a', 'b'],
  );
  assert.equal(objectMembers(bytes, params.start, params.end - 1), null);
});

test('blanks between tokens go, blanks in strings stay', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      assert.equal(withoutBlanks(JSON.stringify(value, null, 3)), JSON.stringify(value));
    }),
  );
  assert.equal(withoutBlanks('[ "a \\" b" ,\n1 ]'), '["a \\" b",1]');
});

test('a response is recognised by exactly one of result and error', () => {
  const read = (json: string) => readRpcReply(Buffer.from(json));
  assert.ok(read('{"jsonrpc":"2.0","result":null,"id":1}')?.result);
  assert.ok(read('{"jsonrpc":"2.0","error":{"code":1},"id":1}')?.error);
  assert.ok(read('{"result":5,"error":null,"id":1}')?.result);
  assert.ok(read('{"result":null,"error":{"code":1},"id":1}')?.error);
  for (const broken of [
    '{"jsonrpc":"2.0","id":1}',
    '{"result":1,"error":{"code":1},"id":1}',
    '{"result":1,"result":2,"id":1}',
    '{"result":1,"id":1,"id":2}',
    '[{"result":1,"id":1}]',
    '<html></html>',
    '{"result":1,"id":1',
    '\ufeff{"result":1,"id":1}',
    '',
  ]) {
    assert.equal(read(broken), null, broken);
  }
});

test('replacing the id changes no other byte', () => {
  const bytes = Buffer.from('{ "id" : "old" , "result":{"id":18446744073709551615,"s":"\\u00e9"} }');
  const parts = readRpcReply(bytes)!;
  assert.equal(
    withId(bytes, parts.id!, '12345678901234567890').toString(),
    '{ "id" : 12345678901234567890 , "result":{"id":18446744073709551615,"s":"\\u00e9"} }',
  );
});

/** Numbers of JSON in every form, most of them near what a double holds. */
const numbers = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.oneof(
      fc.constantFrom(
        '0',
        '1',
        '9007199254740991',
        '9007199254740993',
        '18446744073709551615',
        '100000000000000000000',
      ),
      fc.bigInt({ min: 0n, max: 10n ** 30n }).map(String),
    ),
    fc.oneof(
      fc.constantFrom('', '.0', '.1', '.10', '.5'),
      fc.bigInt({ min: 0n, max: 10n ** 25n }).map((n) => `.${n}`),
    ),
    fc.constantFrom(
      '',
      'e0',
      'E+2',
      'e-2',
      'e22',
      'e-7',
      'e300',
      'e400',
      'e-400',
      'e00000000000000000001',
      'e99999999999999999999',
    ),
  )
  .map((parts) => parts.join(''));

/** A number as a fraction of integers would be: digits without zeros at the ends, and a power of ten. */
function exactValue(text: string): string {
  const [, sign, whole, fraction = '', power = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text)!;
  const digits = BigInt(whole! + fraction);
  if (digits === 0n) return `${sign}0`;
  let [value, exponent] = [digits, BigInt(power) - BigInt(fraction.length)];
  for (; value % 10n === 0n; value /= 10n) exponent += 1n;
  return `${sign}${value}e${exponent}`;
}

test('numbers of any form are written with the value that they were read with', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), numbers), { minLength: 1 }), blank, (items, b) => {
      const text = `{${items.map(([name, value], at) => `${JSON.stringify(`${name}${at}`)}${b}:${b}[${value}${b}]`).join(`${b},`)}}`;
      const parsed = parseVerbatim(text) as Record<string, readonly unknown[]>;
      for (const [at, [name, value]] of items.entries()) {
        const found = parsed[`${name}${at}`]![0];
        assert.equal(exactValue(stringify(found)), exactValue(value));
        // What a double holds is one.
        if (found instanceof JsonNumber) assert.equal(found.text, value);
        else
          assert.equal(
            typeof found === 'bigint' ? String(found) : found,
            typeof found === 'bigint' ? value : Number(value),
          );
      }
      assert.deepEqual(parseVerbatim(stringify(parsed)), parsed);
    }),
    { numRuns: 500 },
  );
});

test('exact numbers change nothing else: any texts and names, and invalid JSON', () => {
  const big = '12345678901234567890';
  for (const parse of [parseExact, parseVerbatim]) {
    const values = ['\0', '\0n1', '\0t', `\0n${big}`, `${big}`, 'a"\\'];
    const text = `[${big},${values.map((value) => `{${JSON.stringify(value)}:${JSON.stringify(value)}}`).join()}]`;
    const [first, ...rest] = parse(text) as [unknown, ...Record<string, string>[]];
    assert.equal(stringify(first), big);
    assert.deepEqual(
      rest,
      values.map((value) => ({ [value]: value })),
    );
    for (const wrong of [
      `{${big}:1}`,
      `{${big}  :1}`,
      `[0${big}]`,
      `[-0${big}]`,
      `[${big}.]`,
      `[${big}`,
      `"${big}`,
      `[+${big}]`,
    ])
      assert.throws(() => parse(wrong), SyntaxError, wrong);
  }
  assert.throws(() => JSON.stringify(parseVerbatim('1e400')), TypeError);
});

test('a long integer is exact wherever a value can stand', () => {
  const blanks = fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 3 });
  const integer = fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n }).filter((n) => n > 2n ** 53n || n < -(2n ** 53n));
  const shapes = [
    (n: string, b: string) => `${b}${n}${b}`,
    (n: string, b: string) => `{"a"${b}:${b}${n}${b}}`,
    (n: string, b: string) => `[${b}${n}${b}]`,
    (n: string, b: string) => `["Program ${'1'.repeat(32)} invoke"${b},${b}${n}${b}]`,
    (n: string, b: string) => `{"a":1,${b}"b"${b}:${b}[[${b}${n}]]}`,
  ];
  fc.assert(
    fc.property(integer, blanks, fc.constantFrom(...shapes), (number, blank, shape) => {
      const read = parseExact(shape(String(number), blank));
      assert.equal(stringify(read), withoutBlanks(shape(String(number), blank)));
    }),
  );
});

test('hostile texts are parsed in time', () => {
  const many = 300_000;
  const [zeros, quotes] = ['0'.repeat(many), '"\\"",'.repeat(many / 5)];
  const same = (text: string) => [text, text] as const;
  const written: readonly (readonly [text: string, written: string])[] = [
    [`0.${zeros}1e${many}`, '0.1'],
    [`1e${zeros}1`, '10'],
    ...[`1${zeros}1`, `1e${'9'.repeat(many)}`, `[12345678901234567,${quotes}1e400]`].map(same),
  ];
  for (const [text, expected] of written)
    assert.ok(stringify(parseVerbatim(text)) === expected, `${text.slice(0, 50)} of ${text.length} characters`);
  assert.throws(() => parseVerbatim(`12345678901234567,"${'\\"'.repeat(many)}`), SyntaxError);
});
