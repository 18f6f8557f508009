import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { objectMembers, stringify, withoutBlanks } from './json.ts';
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
