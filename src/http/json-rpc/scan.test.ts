import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type CallSpan, recoverCall, type ScanResult, scanRpcBody } from './scan.ts';

const LIMITS = { maxDepth: 64, maxItems: 1_000 };
const scan = (text: string | Buffer): ScanResult => scanRpcBody(Buffer.from(text as string), LIMITS);
const single = (text: string): CallSpan => {
  const result = scan(text);
  assert.equal(result.kind, 'single', `${text}: ${JSON.stringify(result)}`);
  return (result as { call: CallSpan }).call;
};
const cut = (text: string, span: { start: number; end: number } | null) =>
  span === null ? undefined : Buffer.from(text).toString('utf8', span.start, span.end);

/** Any JSON value, with numbers and strings in unusual but legal spellings, and odd white space. */
const jsonText = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom('0', '-0', '1e5', '-1.5E-3', '18446744073709551615', 'true', 'false', 'null', '0.0', '9e+99'),
    fc.string({ unit: 'binary' }).map((s) => JSON.stringify(s)),
    fc.string().map((s) => escapeAll(s)),
    fc.array(tie('value'), { maxLength: 4 }).map((items) => `[${items.join(' ,\t')}]`),
    fc
      .array(fc.tuple(fc.string(), tie('value')), { maxLength: 4 })
      .map((members) => `{\n${members.map(([name, value]) => `${JSON.stringify(name)} :\r${value}`).join(',')} }`),
  ),
})).value;

function escapeAll(text: string): string {
  return `"${[...text].map((c) => [...Array(c.length).keys()].map((i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')).join('')}"`;
}

function accepts(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const valid = (result: ScanResult) => result.kind !== 'syntax';

describe('the scanner and JSON.parse agree', () => {
  test('on every generated value, also cut off or with one byte changed', () => {
    fc.assert(
      fc.property(jsonText, fc.nat(), fc.constantFrom(...'{}[]",:\\ue0-.+ tfn1\u0001'), (text, at, byte) => {
        assert.equal(valid(scan(text)), true, text);
        const short = text.slice(0, at % (text.length + 1));
        assert.equal(valid(scan(short)), accepts(short), short);
        const position = at % Math.max(1, text.length);
        const changed = text.slice(0, position) + byte + text.slice(position + 1);
        // Half of a surrogate pair becomes a replacement character on the wire.
        const onWire = Buffer.from(changed).toString();
        assert.equal(valid(scan(onWire)), accepts(onWire), onWire);
      }),
      { numRuns: 2_000 },
    );
  });
  test('on arbitrary text', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'{}[]",:\\u00e0-.+ \n1truefalsn') }), (text) => {
        assert.equal(valid(scan(text)), accepts(text), text);
      }),
      { numRuns: 3_000 },
    );
  });
  test('bytes that are no UTF-8 are no JSON', () => {
    assert.equal(scan(Buffer.from([0x5b, 0x22, 0xc3, 0x28, 0x22, 0x5d])).kind, 'syntax');
  });
});

describe('members', () => {
  test('are found with any spelling, order and white space, and cut without change', () => {
    const name = (plain: string) => fc.constantFrom(JSON.stringify(plain), escapeAll(plain));
    const member = (plain: string, value: fc.Arbitrary<string>) => fc.tuple(name(plain), value);
    const id = fc.constantFrom('0', 'null', '"a"', '18446744073709551616', '-1.50', '"\\u0041"', '"é"');
    const params = fc.oneof(
      fc.array(jsonText, { maxLength: 3 }).map((items) => `[ ${items.join(', ')} ]`),
      jsonText.map((value) => `{"a": ${value} }`),
    );
    const call = fc
      .tuple(
        member('jsonrpc', name('2.0')),
        member('method', name('getSlot')),
        member('id', id),
        member('params', params),
      )
      .chain((members) => fc.shuffledSubarray(members, { minLength: 4 }).map((order) => ({ members, order })));
    fc.assert(
      fc.property(call, ({ members, order }) => {
        const text = ` {${order.map(([key, value]) => `${key} :\n ${value}`).join(' , ')}}\t`;
        const found = single(text);
        assert.equal(found.problem, null);
        assert.equal(found.method, 'getSlot');
        assert.equal(found.id, members[2][1]);
        assert.equal(cut(text, found.params), members[3][1]);
        assert.equal(cut(text, found), text.trim());
      }),
      { numRuns: 500 },
    );
  });
  test('absent members differ from null', () => {
    assert.equal(single('{"jsonrpc":"2.0","method":"a"}').id, undefined);
    assert.equal(single('{"jsonrpc":"2.0","method":"a","id":null}').id, 'null');
    assert.equal(single('{"jsonrpc":"2.0","method":"a"}').params, null);
  });
  for (const [text, id] of [
    ['{"jsonrpc":"2.0","method":"a","method":"b","id":1}', '1'],
    ['{"jsonrpc":"2.0","method":"a","meth\\u006fd":"b","id":1}', '1'],
    ['{"jsonrpc":"2.0","method":"a","x":1,"x":2,"id":1}', '1'],
    ['{"jsonrpc":"2.0","method":"a","id":1,"id":2}', 'null'],
    ['{"jsonrpc":"2.0","method":"a","__proto__":1,"__proto__":2,"id":1}', '1'],
    ['{"jsonrpc":"1.0","method":"a","id":1}', '1'],
    ['{"jsonrpc":2.0,"method":"a","id":1}', '1'],
    ['{"method":"a","id":1}', '1'],
    ['{"jsonrpc":"2.0","id":"x"}', '"x"'],
    ['{"jsonrpc":"2.0","method":["a"],"id":1}', '1'],
    ['{"jsonrpc":"2.0","method":"a","id":{}}', 'null'],
    ['{"jsonrpc":"2.0","method":"a","id":[1]}', 'null'],
    ['{"jsonrpc":"2.0","method":"a","id":true}', 'null'],
    ['{}', 'null'],
  ] as const) {
    test(`${text} is no valid request`, () => {
      const call = single(text);
      assert.equal(typeof call.problem, 'string');
      assert.equal(call.id, id);
    });
  }
});

describe('batches', () => {
  test('items are cut out byte for byte', () => {
    const item = fc.oneof(
      jsonText,
      jsonText.map((value) => `{"jsonrpc":"2.0","method":"m","id":1,"params":[${value}]}`),
    );
    fc.assert(
      fc.property(fc.array(item, { minLength: 1, maxLength: 6 }), (items) => {
        const text = `[ ${items.join('\n,')} ]`;
        const result = scan(text);
        assert.equal(result.kind, 'batch');
        const { calls } = result as Extract<ScanResult, { kind: 'batch' }>;
        assert.deepEqual(
          calls.map((call) => cut(text, call)),
          items.map((one) => one.trim()),
        );
      }),
      { numRuns: 500 },
    );
  });
  test('only the first maxItems are kept, all are counted', () => {
    const result = scanRpcBody(Buffer.from(`[${'1,'.repeat(49)}1]`), { maxDepth: 64, maxItems: 10 });
    assert.deepEqual(result.kind === 'batch' ? [result.calls.length, result.count] : null, [10, 50]);
  });
  test('an empty array, scalars and a comma too much', () => {
    assert.deepEqual(scan('[]'), { kind: 'batch', calls: [], count: 0 });
    assert.equal(scan('7').kind, 'invalid');
    assert.equal(scan('"text"').kind, 'invalid');
    for (const text of ['[1,]', '[,1]', '{"a":1,}', '{,}', '[1]]', '{} {}', ''])
      assert.equal(scan(text).kind, 'syntax', text);
  });
});

test('the depth limit counts containers of the whole body and survives hostile nesting', () => {
  const nested = (depth: number) =>
    `{"jsonrpc":"2.0","method":"a","id":1,"params":${'['.repeat(depth)}${']'.repeat(depth)}}`;
  assert.equal(scan(nested(63)).kind, 'single');
  assert.equal(scan(nested(64)).kind, 'invalid');
  assert.equal(scan(`[${nested(62)}]`).kind, 'batch');
  assert.equal(scan(`[${nested(63)}]`).kind, 'invalid');
  assert.equal(scan('['.repeat(1_000_000)).kind, 'invalid');
  assert.equal(scan(`{"a":${'{"a":'.repeat(300_000)}`).kind, 'invalid');
});

describe('recovery of an id from a body that may be cut off', () => {
  test('gives the id of every whole request and never a wrong one', () => {
    const text = '{"jsonrpc":"2.0", "params":{"id":5,"method":"x"}, "id": 12345 , "method":"getSlot"}';
    for (let end = 0; end <= text.length; end += 1) {
      const { id, method } = recoverCall(Buffer.from(text.slice(0, end)));
      assert.ok(id === undefined || id === '12345', `${end}: ${id}`);
      assert.ok(method === undefined || method === 'getSlot', `${end}: ${method}`);
    }
    assert.deepEqual(recoverCall(Buffer.from(text)), { id: '12345', method: 'getSlot' });
  });
  test('never throws and finds nothing in batches', () => {
    fc.assert(fc.property(fc.uint8Array(), (bytes) => void recoverCall(Buffer.from(bytes))));
    assert.deepEqual(recoverCall(Buffer.from('[{"id":1}]')), { id: undefined, method: undefined });
  });
});
