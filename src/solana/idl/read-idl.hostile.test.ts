import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { bySeed } from '../../../test/helpers/run-part.ts';
import { MAX_IDL_BYTES, readIdl } from './read-idl.ts';

const TAG = [1];

/** An interface with one instruction, whose only argument has this type. */
function idlOf(type: unknown, types: readonly unknown[] = []): string {
  const args = [{ name: 'value', type }];
  return JSON.stringify({
    address: 'x',
    metadata: { name: 'hostile' },
    types,
    instructions: [{ name: 'call', discriminator: TAG, accounts: [], args }],
  });
}

const struct = (name: string, ...fields: unknown[]) => ({ name, type: { kind: 'struct', fields } });
const enumeration = (name: string, variants: unknown[]) => ({ name, type: { kind: 'enum', variants } });

/** Milliseconds that nothing here may take, on a machine that does other things. */
const LONG_MS = 2_000;

function decode(text: string, data: readonly number[] | Uint8Array = []): unknown {
  const started = performance.now();
  const program = readIdl(text);
  const found = program?.decode(Uint8Array.of(...TAG, ...data), [], '') ?? null;
  assert.ok(performance.now() - started < LONG_MS, text.slice(0, 100));
  return found === null ? null : (found.args as { value: unknown }).value;
}

test('a type that contains itself without an end is not decoded', () => {
  const ref = (name: string) => ({ defined: { name } });
  assert.equal(decode(idlOf(ref('A'), [struct('A', ref('A'))]), [1, 2, 3]), null);
  assert.equal(decode(idlOf(ref('A'), [struct('A', ref('B'), ref('B')), struct('B', ref('A'), ref('A'))])), null);
  assert.equal(decode(idlOf(ref('A'), [{ name: 'A', type: { kind: 'type', alias: ref('A') } }])), null);
  assert.equal(
    decode(idlOf(ref('A'), [enumeration('A', [{ name: 'More', fields: [ref('A')] }])]), new Uint8Array(500)),
    null,
  );
  // Each instance makes a new one.
  const grows = {
    ...struct('G', { defined: { name: 'G', generics: [{ kind: 'type', type: { vec: { generic: 'T' } } }] } }),
    generics: [{ kind: 'type', name: 'T' }],
  };
  assert.equal(decode(idlOf({ defined: { name: 'G', generics: [{ kind: 'type', type: 'u8' }] } }, [grows])), null);
});

test('a type that contains itself is decoded as far as its data go', () => {
  const types = [struct('Tree', { name: 'children', type: { vec: { defined: { name: 'Tree' } } } })];
  const one = (children: unknown[]) => ({ children });
  assert.deepEqual(decode(idlOf({ defined: { name: 'Tree' } }, types), [1, 0, 0, 0, 0, 0, 0, 0]), one([one([])]));
  const deep = new Uint8Array(4_000).map((_, at) => (at % 4 === 0 ? 1 : 0));
  assert.equal(decode(idlOf({ defined: { name: 'Tree' } }, types), deep), null);
});

test('a false length costs nothing', () => {
  const most = [255, 255, 255, 255];
  assert.equal(decode(idlOf({ vec: 'u8' }), most), null);
  assert.equal(decode(idlOf({ vec: 'u64' }), most), null);
  assert.equal(decode(idlOf('string'), most), null);
  assert.equal(decode(idlOf({ vec: { defined: { name: 'Empty' } } }, [struct('Empty')]), most), null);
  assert.equal(decode(idlOf({ array: [{ defined: { name: 'Empty' } }, 4_294_967_295] }, [struct('Empty')])), null);
  assert.equal(decode(idlOf({ array: ['u8', 1e15] })), null);
  assert.equal(decode(idlOf({ array: ['u8', -1] })), null);
  // Twice as many values with each type, none of which has a byte.
  const types = Array.from({ length: 60 }, (_, at) =>
    struct(`T${at}`, ...[1, 2].map(() => (at === 59 ? { array: ['u8', 0] } : { defined: { name: `T${at + 1}` } }))),
  );
  assert.equal(decode(idlOf({ defined: { name: 'T0' } }, types)), null);
});

test('tags, bools and options have no other values than theirs', () => {
  assert.equal(decode(idlOf('bool'), [2]), null);
  assert.equal(decode(idlOf({ option: 'u8' }), [2, 1]), null);
  assert.equal(decode(idlOf({ coption: 'u8' }), [1, 1, 0, 0, 9]), null);
  assert.equal(decode(idlOf({ defined: { name: 'E' } }, [enumeration('E', [{ name: 'One' }])]), [1]), null);
  assert.deepEqual(decode(idlOf({ defined: { name: 'E' } }, [enumeration('E', [{ name: 'One' }])]), [0]), { one: {} });
});

test('interfaces of any size and depth are read or refused in time', () => {
  const variants = (length: number) =>
    enumeration(
      'E',
      Array.from({ length }, (_, at) => ({ name: `V${at}` })),
    );
  assert.deepEqual(decode(idlOf({ defined: { name: 'E' } }, [variants(30_000)]), [7]), { v7: {} });
  assert.equal(decode(idlOf({ defined: { name: 'E' } }, [variants(150_000)]), [7]), null);
  assert.equal(readIdl(' '.repeat(MAX_IDL_BYTES + 1)), null);
  assert.equal(decode(`${'['.repeat(1_000_000)}`), null);
  const nested = Array.from({ length: 60 }).reduce<unknown>((inner) => ({ vec: inner }), 'u8');
  assert.equal(decode(idlOf(nested), [0, 0, 0, 0]), null);
  const groups = Array.from({ length: 25 }).reduce<unknown>((inner) => [{ name: 'g', accounts: inner }], []);
  const idl = { name: 'x', instructions: [{ name: 'call', discriminator: [1], accounts: groups, args: [] }] };
  assert.notEqual(readIdl(JSON.stringify(idl))!.decode(Uint8Array.of(1), [], ''), null);
  assert.equal(readIdl(JSON.stringify({ instructions: Array.from({ length: 5_000 }, () => ({ name: 'a' })) })), null);
  // A long name may not multiply.
  assert.equal(
    decode(
      idlOf({ vec: { defined: { name: 'L' } } }, [struct('L', { name: 'n'.repeat(5_000), type: 'u8' })]),
      [1, 0, 0, 0, 1],
    ),
    null,
  );
});

test('names that objects have of their own are names like others', () => {
  const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty'];
  const text = idlOf({ defined: { name: 'P' } }, [struct('P', ...names.map((name) => ({ name, type: 'u8' })))]);
  assert.equal(
    JSON.stringify(decode(text, [1, 2, 3, 4])),
    '{"__proto__":1,"constructor":2,"to_string":3,"has_own_property":4}',
  );
  assert.equal(decode(idlOf({ defined: { name: 'toString' } })), null);
});

bySeed(2_000, ({ length: numRuns }) => {
  test('no input in the form of an interface makes a decoder throw', () => {
    const kinds = [
      'vec',
      'option',
      'array',
      'defined',
      'generic',
      'tuple',
      'kind',
      'name',
      'type',
      'fields',
      'variants',
    ];
    const { node } = fc.letrec((tie) => ({
      node: fc.oneof(
        { maxDepth: 6, withCrossShrink: true },
        fc.constantFrom(
          'u8',
          'u64',
          'string',
          'bytes',
          'pubkey',
          'bool',
          'A',
          'struct',
          'enum',
          'type',
          'alias',
          null,
          3,
          -1,
          1e9,
        ),
        fc.array(tie('node'), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom(...kinds), tie('node'), { maxKeys: 3 }),
        fc.record({
          kind: fc.constantFrom('struct', 'enum', 'type'),
          fields: tie('node'),
          variants: tie('node'),
          alias: tie('node'),
        }),
      ),
    }));
    const member = fc.oneof(node, fc.array(fc.record({ name: node, type: node, fields: node }), { maxLength: 3 }));
    const call = fc.record({
      name: fc.constant('call'),
      discriminator: fc.constant(TAG),
      accounts: member,
      args: member,
    });
    fc.assert(
      fc.property(
        fc.array(call, { maxLength: 2 }),
        member,
        fc.uint8Array({ maxLength: 60 }),
        (instructions, types, data) => {
          const program = readIdl(JSON.stringify({ name: 'x', instructions, types: [{ name: 'A', type: types }] }));
          program?.decode(Uint8Array.of(...TAG, ...data), [], 'x');
          program?.errorOf(6_000);
          program?.hasInstruction('call');
        },
      ),
      { numRuns },
    );
  });
});

bySeed(2_000, ({ length: numRuns }) => {
  test('no input in the form of a Codama tree makes a decoder throw', () => {
    const kinds = [
      'numberTypeNode',
      'structTypeNode',
      'optionTypeNode',
      'arrayTypeNode',
      'enumTypeNode',
      'tupleTypeNode',
      'mapTypeNode',
      'definedTypeLinkNode',
      'sizePrefixTypeNode',
      'fixedSizeTypeNode',
      'stringTypeNode',
      'bytesTypeNode',
      'preOffsetTypeNode',
      'sentinelTypeNode',
      'hiddenPrefixTypeNode',
      'zeroableOptionTypeNode',
      'remainderOptionTypeNode',
      'booleanTypeNode',
      'remainderCountNode',
      'fixedCountNode',
      'prefixedCountNode',
      'constantValueNode',
      'numberValueNode',
      'bytesValueNode',
    ];
    const { node } = fc.letrec((tie) => ({
      node: fc.oneof(
        { maxDepth: 5 },
        fc.constantFrom<unknown>(null, 4, 'u8', 'u32', 'A', 'le', 'base16', '00ff'),
        fc.array(tie('node'), { maxLength: 3 }),
        fc.record(
          {
            kind: fc.constantFrom(...kinds),
            name: fc.constantFrom('A', 'b'),
            format: fc.constantFrom('u8', 'u32', 'x'),
            item: tie('node'),
            items: tie('node'),
            fields: tie('node'),
            variants: tie('node'),
            type: tie('node'),
            prefix: tie('node'),
            size: tie('node'),
            count: tie('node'),
            value: tie('node'),
            number: fc.integer(),
            offset: fc.integer({ min: -9, max: 9 }),
            strategy: fc.constantFrom('relative', 'absolute', 'preOffset'),
            sentinel: tie('node'),
            data: fc.constant('00'),
            encoding: fc.constant('base16'),
            key: tie('node'),
          },
          { requiredKeys: ['kind'] },
        ),
      ),
    }));
    const list = fc.array(
      fc.record({ kind: fc.constant('x'), name: fc.constantFrom('A', 'b'), type: node, defaultValue: node }),
    );
    const call = fc.record({ name: fc.constant('call'), arguments: list, accounts: node, discriminators: node });
    fc.assert(
      fc.property(
        fc.array(call, { maxLength: 2 }),
        list,
        fc.uint8Array({ maxLength: 60 }),
        (instructions, definedTypes, data) => {
          const root = { kind: 'rootNode', program: { kind: 'programNode', name: 'x', instructions, definedTypes } };
          readIdl(JSON.stringify(root))?.decode(data, [], 'x');
        },
      ),
      { numRuns },
    );
  });
});

const codama = (definedTypes: readonly unknown[], ...args: readonly unknown[]) => ({
  kind: 'rootNode',
  program: {
    kind: 'programNode',
    name: 'hostile',
    publicKey: 'x',
    definedTypes,
    instructions: [
      {
        kind: 'instructionNode',
        name: 'call',
        accounts: [],
        arguments: args,
        discriminators: [
          {
            kind: 'constantDiscriminatorNode',
            constant: {
              type: { kind: 'bytesTypeNode' },
              value: { kind: 'bytesValueNode', data: '01', encoding: 'base16' },
            },
          },
        ],
      },
    ],
  },
});
const tag = {
  name: 'tag',
  type: { kind: 'numberTypeNode', format: 'u8', endian: 'le' },
  defaultValueStrategy: 'omitted',
};

test('links of Codama that multiply are not followed to their end', () => {
  const link = (name: string) => ({ kind: 'definedTypeLinkNode', name });
  const types = Array.from({ length: 15 }, (_, at) => ({
    name: `t${at}`,
    type: {
      kind: 'structTypeNode',
      fields: Array.from({ length: 10 }, (__, field) => ({
        name: `f${field}`,
        type: at === 14 ? { kind: 'numberTypeNode', format: 'u8', endian: 'le' } : link(`t${at + 1}`),
      })),
    },
  }));
  const type = {
    kind: 'optionTypeNode',
    fixed: true,
    item: link('t0'),
    prefix: { kind: 'numberTypeNode', format: 'u8' },
  };
  assert.equal(decode(JSON.stringify(codama(types, tag, { name: 'value', type })), [0]), null);
});

test('bytes that are read again and again are paid for each time', () => {
  const bytes = { kind: 'postOffsetTypeNode', strategy: 'preOffset', offset: 0, type: { kind: 'bytesTypeNode' } };
  const type = { kind: 'arrayTypeNode', item: bytes, count: { kind: 'fixedCountNode', value: 9_000 } };
  const text = JSON.stringify(codama([], tag, { name: 'value', type }));
  assert.equal(decode(text, new Uint8Array(10_000)), null);
  const base58 = { ...bytes, type: { kind: 'stringTypeNode', encoding: 'base58' } };
  assert.equal(decode(text.replace(JSON.stringify(bytes), JSON.stringify(base58)), new Uint8Array(10_000)), null);
});

test('a long name costs more than a short one', () => {
  const fields = (name: string) => Array.from({ length: 100 }, (_, at) => ({ name: `${name}${at}`, type: 'bool' }));
  const list = (name: string) =>
    idlOf({ vec: { defined: { name: 'S' } } }, [{ name: 'S', type: { kind: 'struct', fields: fields(name) } }]);
  const data = new Uint8Array(4 + 10_000);
  data[0] = 100;
  assert.notEqual(decode(list('is_open_'), data), null);
  assert.equal(decode(list('x'.repeat(120)), data), null);
});

test('values that have no text of their own are no reason to throw', () => {
  const odd = { toString: 1, valueOf: 1 };
  const u8 = { kind: 'numberTypeNode', format: 'u8', endian: 'le' };
  const texts = [
    JSON.stringify(codama([], { name: 'value', type: { kind: 'numberTypeNode', format: odd } })),
    JSON.stringify(codama([], { name: 'value', type: { kind: 'stringTypeNode', encoding: odd } })),
    JSON.stringify(
      codama([], { name: 'value', type: { kind: 'definedTypeLinkNode', name: 'a', program: { name: odd } } }),
    ),
    JSON.stringify(codama([], { name: 'value', type: u8 })).replace('"data":"01"', `"data":${JSON.stringify(odd)}`),
    JSON.stringify(codama([], { name: 'value', type: u8 })).replace(
      /"discriminators":\[.*?\]/,
      `"discriminators":[{"kind":"sizeDiscriminatorNode","size":${JSON.stringify(odd)},"offset":${JSON.stringify(odd)}}]`,
    ),
    idlOf({ generic: odd }),
    idlOf({ array: ['u8', { generic: odd }] }),
    idlOf({ defined: { name: 'G', generics: [{ kind: 'const', value: odd }] } }, [
      { ...struct('G', 'u8'), generics: [{ kind: 'const', name: odd }] },
    ]),
  ];
  for (const text of texts) assert.equal(decode(text, [1, 2, 3]), null, text);
});

test('more instructions or discriminators than any program has', () => {
  const one = { name: 'a', accounts: [], args: [] };
  assert.equal(readIdl(JSON.stringify({ instructions: Array.from({ length: 5_000 }, () => one) })), null);
  const many = codama([], tag);
  const [call] = many.program.instructions;
  Object.assign(call!, { discriminators: Array.from({ length: 17 }, () => call!.discriminators[0]) });
  assert.equal(readIdl(JSON.stringify(many))?.hasInstruction('call'), false);
});

test('more members and items than any program has', () => {
  const withNumbers = (count: number) =>
    readIdl(JSON.stringify({ name: 'a', instructions: [], docs: Array.from({ length: count }, () => 0) }));
  assert.equal(withNumbers(98_000)?.name, 'a');
  assert.equal(withNumbers(99_000), null);
});

test('two fields of one name: neither is lost', () => {
  const fields = [
    { name: 'fooBar', type: 'u8' },
    { name: 'foo_bar', type: 'u8' },
  ];
  assert.equal(
    decode(idlOf({ defined: { name: 'S' } }, [{ name: 'S', type: { kind: 'struct', fields } }]), [1, 2]),
    null,
  );
});

test('optional accounts that are left out: those after them move up, and none has the name of another', () => {
  const use = (pubkey: string) => ({ pubkey, isSigner: false, isWritable: false });
  const accounts = [{ name: 'a' }, { name: 'b', isOptional: true }, { name: 'c' }, { name: 'd', isOptional: true }];
  const namesOf = (text: string, count: number) =>
    readIdl(text)
      ?.decode(Uint8Array.of(1), ['A', 'B', 'C', 'D'].slice(0, count).map(use), 'P')
      ?.accounts.map(({ name }) => name);
  const instruction = { name: 'call', discriminant: { type: 'u8', value: 1 }, accounts, args: [] };
  const shank = JSON.stringify({ instructions: [{ ...instruction, legacyOptionalAccountsStrategy: true }] });
  const root = codama([], tag);
  Object.assign(root.program.instructions[0]!, { accounts, optionalAccountStrategy: 'omitted' });
  for (const text of [shank, JSON.stringify(root)]) {
    assert.deepEqual(namesOf(text, 4), ['a', 'b', 'c', 'd']);
    assert.deepEqual(namesOf(text, 2), ['a', 'c']);
    // One of the two is missing, and nobody knows which.
    assert.deepEqual(namesOf(text, 3), ['a', 'remaining_0', 'remaining_1']);
  }
});

test('a link within a program that comes along leads to the types of that program', () => {
  const u32 = { kind: 'numberTypeNode', format: 'u32', endian: 'le' };
  const u8 = { kind: 'numberTypeNode', format: 'u8', endian: 'le' };
  const outer = { kind: 'definedTypeLinkNode', name: 'outer', program: { kind: 'programLinkNode', name: 'other' } };
  const root = {
    ...codama([{ name: 'inner', type: u8 }], tag, { name: 'value', type: outer }),
    additionalPrograms: [
      {
        kind: 'programNode',
        name: 'other',
        definedTypes: [
          { name: 'outer', type: { kind: 'definedTypeLinkNode', name: 'inner' } },
          { name: 'inner', type: u32 },
        ],
      },
    ],
  };
  assert.equal(decode(JSON.stringify(root), [1, 1, 0, 0]), 257);
});

/** What `work` writes as JSON: the number of texts, and the longest of them. */
function jsonWritten(work: () => void): { readonly texts: number; readonly longest: number } {
  const { stringify } = JSON;
  let texts = 0;
  let longest = 0;
  JSON.stringify = ((...args: Parameters<typeof stringify>) => {
    texts += 1;
    const text = stringify(...args);
    longest = Math.max(longest, text.length);
    return text;
  }) as typeof stringify;
  try {
    work();
  } finally {
    JSON.stringify = stringify;
  }
  return { texts, longest };
}

test('generic arguments are not written further than a name of a type may be long, and a variant that does not compile is tried once', () => {
  const shapes = {
    numbers: Array.from({ length: 30_000 }, (_, at) => at + 0.123456789),
    'a long text': [{ kind: 'type', type: 'x'.repeat(500_000) }],
    'a long name': [{ ['x'.repeat(500_000)]: 1 }],
    'many members': [Object.fromEntries(Array.from({ length: 30_000 }, (_, at) => [`m${at}`, at]))],
    'many lists': Array.from({ length: 30_000 }, () => []),
  };
  for (const [name, generics] of Object.entries(shapes)) {
    const hostile = { defined: { name: 'G', generics } };
    const types = [enumeration('E', [{ name: 'One', fields: [hostile] }]), { ...struct('G'), generics: [] }];
    const program = readIdl(idlOf({ defined: { name: 'E' } }, types))!;
    const decoded = () => program.decode(Uint8Array.of(...TAG, 0), [], '');
    const first = jsonWritten(() => assert.equal(decoded(), null, name));
    assert.ok(first.texts <= 1 && first.longest <= 4_096, `${name}: ${JSON.stringify(first)}`);
    const again = jsonWritten(() => {
      for (let i = 0; i < 10; i += 1) assert.equal(decoded(), null);
    });
    assert.deepEqual(again, { texts: 0, longest: 0 }, name);
  }
});

test('a variant that does not compile leaves the others readable', () => {
  const types = [enumeration('E', [{ name: 'Bad', fields: ['nothing'] }, { name: 'Good' }])];
  const program = readIdl(idlOf({ defined: { name: 'E' } }, types))!;
  const value = (tag: number) =>
    (program.decode(Uint8Array.of(...TAG, tag), [], '')?.args as { value: unknown } | undefined)?.value ?? null;
  assert.deepEqual([value(0), value(1), value(0), value(1)], [null, { good: {} }, null, { good: {} }]);
});
