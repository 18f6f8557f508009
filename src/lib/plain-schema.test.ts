import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from '@sinclair/typebox';
import { Ajv } from 'ajv';
import fc from 'fast-check';
import { isPlainSchema, matches } from './plain-schema.ts';

const FORMATS = new Map([['even', (text: string) => text.length % 2 === 0]]);

const scalar = fc.oneof(
  fc.constantFrom(null, true, false, 'a', 'ab', '𝒳', '', 0, 1, 2, -1, 0.5),
  fc.string({ maxLength: 4 }),
  fc.double(),
);
const name = fc.constantFrom('a', 'b', 'ab', '');
// Ajv also finds what a schema names and each object inherits.
const key = fc.oneof(name, fc.constant('toString'));
const value = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(key, tie('value'), { maxKeys: 4 }),
  ),
})).value;
const small = fc.integer({ min: 0, max: 3 });
const type = fc.constantFrom('string', 'number', 'integer', 'boolean', 'null', 'object', 'array');
const schema = fc.letrec((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3 },
    fc.record({ type: fc.oneof(type, fc.uniqueArray(type, { minLength: 1, maxLength: 3 })) }),
    fc.record({ not: tie('schema') }),
    fc.record({ const: fc.constantFrom(null, 'a', 1, true) }),
    fc.record({ enum: fc.uniqueArray(fc.constantFrom(null, 'a', 1, true), { minLength: 1 }) }),
    fc.record(
      {
        minLength: small,
        maxLength: small,
        pattern: fc.constantFrom('^a', 'b$', '.'),
        format: fc.constantFrom('even', 'odd'),
      },
      { requiredKeys: [] },
    ),
    fc.record(
      { minimum: small, maximum: small, exclusiveMinimum: small, exclusiveMaximum: small },
      { requiredKeys: [] },
    ),
    fc.record({ items: tie('schema'), minItems: small, maxItems: small }, { requiredKeys: [] }),
    fc.record({ anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 3 }) }),
    fc.record(
      {
        type: fc.constant('object'),
        properties: fc.dictionary(name, tie('schema'), { maxKeys: 3 }),
        patternProperties: fc.dictionary(fc.constantFrom('^a', 'b$'), tie('schema'), { maxKeys: 2 }),
        additionalProperties: fc.oneof(fc.boolean(), tie('schema')),
        required: fc.uniqueArray(name, { maxLength: 2 }),
        minProperties: small,
        maxProperties: small,
      },
      { requiredKeys: [] },
    ),
  ),
})).schema;

test('it accepts exactly what Ajv accepts', () => {
  let valid = 0;
  fc.assert(
    fc.property(schema, fc.array(value, { minLength: 1, maxLength: 8 }), (one, values) => {
      assert.equal(isPlainSchema(one), true, JSON.stringify(one));
      const ajv = new Ajv({ strict: false, logger: false, allErrors: true });
      for (const [format, holds] of FORMATS) ajv.addFormat(format, holds);
      const check = ajv.compile(one as object);
      for (const each of values) {
        const expected = check(each);
        if (expected) valid += 1;
        assert.equal(
          matches(one as object, each, FORMATS),
          expected,
          `${JSON.stringify(one)} of ${JSON.stringify(each)}`,
        );
      }
    }),
    { numRuns: 150 },
  );
  assert.ok(valid > 50, `only ${valid} values were valid`);
});

test('a schema with another keyword is not plain, wherever it stands', () => {
  const others = [
    { allOf: [{}] },
    { type: ['string', 'thing'] },
    { type: [] },
    { items: [{}] },
    { pattern: '(' },
    { $ref: '#' },
    { const: {} },
    true,
  ];
  for (const other of others) {
    assert.equal(isPlainSchema(other), false, JSON.stringify(other));
    for (const around of [
      { items: other },
      { properties: { a: other } },
      { anyOf: [{}, other] },
      { not: other },
      { patternProperties: { a: other } },
    ])
      assert.equal(isPlainSchema(around), false, JSON.stringify(around));
  }
  assert.equal(
    isPlainSchema(Type.Record(Type.String(), Type.Union([Type.Null(), Type.Integer({ minimum: 1 })]))),
    true,
  );
});
