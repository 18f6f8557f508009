import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createValidator } from '../../../src/http/validation.ts';
import { encode, encode32 } from '../../../src/lib/base58.ts';
import { RpcError } from '../../../src/plugin/plugin.ts';
import { cursor, type Fields, integer, key32, limit, listField, objectOf, optional, signature64 } from './fields.ts';
import { createParamsReader, type ParamsForm, paramsSchema } from './method.ts';

const KEY = encode32(new Uint8Array(32).fill(7));

/** `code details` of the refusal, or the values. */
function outcome<F extends Fields>(form: ParamsForm<F>, params: unknown): unknown {
  try {
    return createParamsReader(form)(params);
  } catch (error) {
    assert.ok(error instanceof RpcError);
    assert.deepEqual([error.message, error.status], ['Invalid params', 200]);
    return `${error.rpcCode} ${error.details}`;
  }
}

const owner = { fields: { owner: key32('owner'), limit: limit(), cursor: cursor(32) } };
const hashes = {
  fields: { hashes: listField(key32('hash'), { items: 'hashes', empty: 'No hashes provided' }) },
  bare: 'hashes',
} as const;
const pairs = {
  fields: { addresses: listField(objectOf({ address: key32('a'), tree: key32('t') }), { items: 'addresses' }) },
  bare: 'addresses',
} as const;

describe('refusals', () => {
  const many = new Array<string>(1001).fill(KEY);
  const cases: readonly (readonly [ParamsForm<Fields>, unknown, string])[] = [
    [owner, {}, "field 'owner' is required"],
    [owner, undefined, "field 'owner' is required"],
    [owner, [], "field 'owner' is required"],
    [owner, { owner: null }, "field 'owner' is required"],
    [owner, { owner: 7 }, "field 'owner' must be a base58 string of 32 bytes"],
    [owner, { owner: `${KEY}1` }, "field 'owner' must be a base58 string of 32 bytes"],
    [owner, { owner: KEY.replace(/.$/, '0') }, "field 'owner' must be a base58 string of 32 bytes"],
    [owner, { owner: KEY, limit: 0 }, 'limit must be between 1 and 1000'],
    [owner, { owner: KEY, limit: 1001 }, 'limit must be between 1 and 1000'],
    [owner, { owner: KEY, limit: 1.5 }, 'limit must be between 1 and 1000'],
    [owner, { owner: KEY, limit: '5' }, 'limit must be between 1 and 1000'],
    [owner, { owner: KEY, cursor: 'abc' }, 'Invalid cursor length. Expected 32. Received 3.'],
    [owner, { owner: KEY, cursor: '' }, 'Invalid cursor length. Expected 32. Received 0.'],
    [owner, { owner: KEY, cursor: 'not base58!' }, 'Invalid cursor'],
    [owner, { owner: KEY, cursor: 5 }, 'Invalid cursor'],
    [owner, { owner: KEY, cursor: '1'.repeat(100_000) }, 'Invalid cursor'],
    [owner, { owner: KEY, extra: 1 }, "unknown field 'extra'"],
    [owner, { owner: KEY, toString: 1 }, "unknown field 'toString'"],
    [owner, JSON.parse(`{"owner":"${KEY}","__proto__":{}}`), "unknown field '__proto__'"],
    [owner, { owner: KEY, minContextSlot: -1 }, "field 'minContextSlot' must be an integer of at least 0"],
    [owner, { owner: KEY, minContextSlot: '3' }, "field 'minContextSlot' must be an integer of at least 0"],
    [owner, [KEY], 'params must be an object, or an array that holds one object'],
    [owner, [{ owner: KEY }, {}], 'params must be an object, or an array that holds one object'],
    [owner, [[]], 'params must be an object, or an array that holds one object'],
    [hashes, [], 'No hashes provided'],
    [hashes, { hashes: [] }, 'No hashes provided'],
    [hashes, many, 'Too many hashes requested 1001. Maximum allowed: 1000'],
    [hashes, { hashes: many }, 'Too many hashes requested 1001. Maximum allowed: 1000'],
    [hashes, [KEY, 'x'], "field 'hashes[1]' must be a base58 string of 32 bytes"],
    [hashes, { hashes: KEY }, "field 'hashes' must be an array"],
    [hashes, [{ hashes: [] }], 'No hashes provided'],
    [pairs, [{ address: KEY }], "field 'addresses[0].tree' is required"],
    [pairs, [{ address: KEY, tree: KEY, more: 1 }], "unknown field 'addresses[0].more'"],
    [pairs, [KEY], "field 'addresses[0]' must be an object"],
    [pairs, new Array(1001).fill({}), 'Too many addresses requested 1001. Maximum allowed: 1000'],
    [
      { fields: { n: integer({ least: 1, most: 5, description: '' }) } },
      { n: 6 },
      "field 'n' must be an integer between 1 and 5",
    ],
    [
      { fields: { signature: signature64('') } },
      { signature: KEY },
      "field 'signature' must be a base58 string of 64 bytes",
    ],
    [
      { fields: { signature: signature64('') } },
      { signature: 1 },
      "field 'signature' must be a base58 string of 64 bytes",
    ],
  ];
  for (const [form, params, details] of cases)
    test(`${JSON.stringify(params)?.slice(0, 70)}: ${details}`, () => {
      assert.equal(outcome(form, params), `-32602 ${details}`);
    });
});

test('null means absent, also for an optional list', () => {
  const form = {
    fields: { owner: key32(''), filter: optional(key32('')), list: optional(listField(key32(''), { items: 'x' })) },
  };
  const read = { owner: new Uint8Array(32).fill(7), filter: null, list: null, minContextSlot: null };
  for (const params of [
    { owner: KEY },
    { owner: KEY, filter: null, list: null, minContextSlot: null },
    [{ owner: KEY }],
  ])
    assert.deepEqual(outcome(form, params), read);
});

test('a tolerant method accepts unknown members, and minContextSlot too', () => {
  const form = { fields: { hash: key32('') }, tolerant: true };
  assert.deepEqual(outcome(form, { hash: KEY, commitment: 'confirmed', minContextSlot: 9 }), {
    hash: new Uint8Array(32).fill(7),
    minContextSlot: 9,
  });
});

test('a list may be bare, in an object, or in an object in a list', () => {
  const list = [new Uint8Array(32).fill(7)];
  for (const params of [[KEY], { hashes: [KEY] }, [{ hashes: [KEY] }]])
    assert.deepEqual(outcome(hashes, params), { hashes: list, minContextSlot: null });
  const pair = { address: KEY, tree: KEY };
  const bytes = { address: list[0], tree: list[0] };
  for (const params of [[pair], { addresses: [pair] }, [{ addresses: [pair] }]])
    assert.deepEqual(outcome(pairs, params), { addresses: [bytes], minContextSlot: null });
});

test('methods without fields accept empty params in every form', () => {
  for (const params of [undefined, null, [], {}, [{}]])
    assert.deepEqual(outcome({ fields: {} }, params), { minContextSlot: null });
});

test('any input is read or refused, and never throws', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(owner, hashes, pairs), (params, form) => {
      const result = outcome(form as ParamsForm<Fields>, params);
      assert.ok(typeof result === 'string' ? result.startsWith('-32602 ') : typeof result === 'object');
    }),
    { numRuns: 500 },
  );
});

test('keys are returned as bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 0, maxLength: 70 }), (bytes) => {
      const text = encode(bytes);
      const key = outcome({ fields: { key: key32('') } }, { key: text });
      if (bytes.length === 32) assert.deepEqual(key, { key: bytes, minContextSlot: null });
      else assert.equal(key, "-32602 field 'key' must be a base58 string of 32 bytes");
      const signature = outcome({ fields: { s: signature64('') } }, { s: text });
      if (bytes.length === 64) assert.deepEqual(signature, { s: { text, bytes }, minContextSlot: null });
      else assert.equal(signature, "-32602 field 's' must be a base58 string of 64 bytes");
    }),
  );
});

test('the documented schema accepts what the reader accepts', () => {
  const check = createValidator().compile(paramsSchema(hashes), 'params');
  for (const params of [[KEY], { hashes: [KEY], minContextSlot: 3 }]) assert.equal(check(params), null);
  assert.notEqual(check({ hashes: KEY }), null);
});
