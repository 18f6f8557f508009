import fc from 'fast-check';

/** JSON Schema as far as the document uses it. */
export interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
}

const ADDRESS = 'So11111111111111111111111111111111111111112';
const UUID = '8c6e0d7c-1111-4111-8111-111111111111';
const PROTOTYPE_NAMES = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'then', 'toJSON'];

/** Text that has upset parsers before, and text that means something here. */
export const oddText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 20 }),
  fc.constantFrom(...PROTOTYPE_NAMES),
  fc.constantFrom(
    '',
    ' ',
    '\u0000',
    '\ud800',
    '\udfff\ud800',
    '\ufeff',
    '\u2028',
    'null',
    'true',
    '-1',
    '1e999',
    '0x10',
    'NaN',
  ),
  fc.constantFrom(
    ADDRESS,
    `${ADDRESS}1`,
    '11111111111111111111111111111111',
    UUID,
    UUID.toUpperCase(),
    '../..',
    "'; --",
    '%00',
  ),
  fc.integer({ min: 100, max: 20_000 }).map((length) => 'a'.repeat(length)),
);

export const wild: fc.Arbitrary<unknown> = fc.oneof(
  fc.jsonValue({ maxDepth: 3, noUnicodeString: false } as fc.JsonSharedConstraints),
  oddText,
  fc.constantFrom(null, true, false, 0, -1, 1e308, 2 ** 53, -0.5),
  fc.constantFrom([], {}, [[]], [null], [{}]),
  fc.dictionary(fc.constantFrom(...PROTOTYPE_NAMES, 'a'), oddText, { maxKeys: 3 }),
);

/** Mostly values of the schema, now and then something else. */
export function near(schema: Schema): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 4, arbitrary: valid(schema) }, { weight: 1, arbitrary: wild });
}

function valid(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  const options = schema.anyOf ?? schema.oneOf;
  if (options !== undefined && options.length > 0) return fc.oneof(...options.map(near));
  switch (schema.type) {
    case 'string':
      return oddText;
    case 'integer':
      return fc.integer({ min: (schema.minimum ?? 0) - 1, max: Math.min((schema.maximum ?? 1_000) + 1, 0x7fffffff) });
    case 'number':
      return fc.double();
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array':
      return fc.array(near(schema.items ?? {}), { maxLength: 5 });
    case 'object':
      return fc.record(
        Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, inner]) => [name, near(inner)])),
        { requiredKeys: [] },
      );
    default:
      return wild;
  }
}

/** Bodies for webhooks: the document leaves them open, because every field has its own sentence of refusal. */
export const webhookBody: fc.Arbitrary<unknown> = fc.record(
  {
    webhookURL: mostly(
      fc.constantFrom(
        'https://example.com/hook',
        'https://example.com/?a=%00&b=é',
        'https://exämple.com/',
        'https://example.com/\u0000',
        'https://example.com/\ud800',
      ),
    ),
    webhookType: mostly(fc.constantFrom('raw', 'rawDevnet', 'enhanced', 'discord')),
    accountAddresses: mostly(
      fc.array(fc.constantFrom(ADDRESS, '11111111111111111111111111111111', 'x'), { maxLength: 3 }),
    ),
    transactionTypes: mostly(fc.array(fc.constantFrom('ANY', 'any', 'SWAP', '__proto__'), { maxLength: 3 })),
    authHeader: mostly(fc.constantFrom('Bearer x', '', null, 'ÿ', 'a\r\nb')),
    txnStatus: mostly(fc.constantFrom('all', 'success', 'failed')),
    encoding: mostly(fc.constantFrom('json', 'jsonParsed', null)),
    active: mostly(fc.boolean()),
    matchTokenOwners: mostly(fc.boolean()),
    retryPreset: mostly(fc.constantFrom('durable', 'compat')),
    unknown: wild,
  },
  { requiredKeys: ['webhookURL', 'webhookType', 'accountAddresses'] },
);

function mostly(arbitrary: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 12, arbitrary }, { weight: 1, arbitrary: wild });
}
