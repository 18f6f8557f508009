import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ProgramInterface, readIdl } from './read-idl.ts';

type Arg = { readonly name: string; readonly type: unknown };

const TYPES = [
  { name: 'OptionBool', type: { kind: 'struct', fields: ['bool'] } },
  { name: 'NamedBool', type: { kind: 'struct', fields: [{ name: 'value', type: 'bool' }] } },
  { name: 'TwoBools', type: { kind: 'struct', fields: ['bool', 'bool'] } },
  {
    name: 'Extras',
    type: {
      kind: 'struct',
      fields: [
        { name: 'a', type: { option: 'u8' } },
        { name: 'b', type: { defined: { name: 'OptionBool' } } },
      ],
    },
  },
  { name: 'Loop', type: { kind: 'struct', fields: [{ name: 'next', type: { defined: { name: 'Loop' } } }] } },
];
const defined = (name: string) => ({ defined: { name } });

/** One instruction whose data begin with the byte 9. */
const programWith = (...args: Arg[]): ProgramInterface =>
  readIdl(
    JSON.stringify({
      address: '',
      metadata: { name: 'p', version: '0', spec: '0.1.0' },
      types: TYPES,
      instructions: [{ name: 'createV2', discriminator: [9], accounts: [{ name: 'user' }], args }],
    }),
  )!;

/** Arguments of the data behind the first byte; null when they do not fit. */
const argsOf = (program: ProgramInterface, ...data: number[]) =>
  program.decode(Uint8Array.of(9, ...data), [], 'x')?.args ?? null;

test('arguments that callers left out at the end are null where their types allow it', () => {
  const n = { name: 'n', type: 'u8' };
  const lastOf = (type: unknown) => programWith(n, { name: 'last', type });
  for (const type of [{ option: 'u64' }, { coption: 'u8' }, ...['OptionBool', 'NamedBool', 'Extras'].map(defined)])
    assert.deepEqual(argsOf(lastOf(type), 7), { n: 7, last: null }, JSON.stringify(type));
  assert.deepEqual(argsOf(lastOf(defined('OptionBool')), 7, 1), { n: 7, last: { '0': true } });
  const two = programWith(n, { name: 'a', type: { option: 'u8' } }, { name: 'b', type: defined('OptionBool') });
  assert.deepEqual(argsOf(two, 7), { n: 7, a: null, b: null });
  assert.deepEqual(argsOf(two, 7, 1, 2), { n: 7, a: 2, b: null });
});

test('data that end elsewhere do not fit', () => {
  const n = { name: 'n', type: 'u8' };
  const last = (type: unknown) => ({ name: 'last', type });
  for (const type of ['bool', 'u8', 'string', { vec: 'u8' }, defined('TwoBools'), { array: [{ option: 'u8' }, 1] }])
    assert.equal(argsOf(programWith(n, last(type)), 7), null, JSON.stringify(type));
  assert.equal(argsOf(programWith(n, last(defined('Loop'))), 7), null);
  const option = { option: 'u8' };
  // An argument that is missing has none behind it, and none within.
  assert.equal(argsOf(programWith(n, { name: 'a', type: option }, last('u8')), 7), null);
  assert.equal(argsOf(programWith(n, last(option)), 7, 1), null);
  assert.equal(argsOf(programWith(n, last(defined('Extras'))), 7, 0), null);
  // Where nothing has to be there, nothing says that the rest was left out.
  assert.equal(argsOf(programWith(last(option))), null);
  assert.equal(argsOf(programWith(last(defined('OptionBool')))), null);
});

test('data whose arguments do not fit are still a call of the instruction', () => {
  const account = { pubkey: 'user', isSigner: true, isWritable: false };
  const misfits = programWith({ name: 'n', type: 'bool' });
  const call = (program: ProgramInterface, ...data: number[]) => program.callOf(Uint8Array.of(...data), [account], 'x');
  for (const data of [[9], [9, 2]]) {
    assert.equal(misfits.decode(Uint8Array.from(data), [account], 'x'), null);
    assert.deepEqual(call(misfits, ...data), { name: 'create_v2', accounts: [{ ...account, name: 'user' }] });
  }
  assert.equal(call(misfits), null);
  assert.equal(call(misfits, 8), null);
  // A type that nobody can read.
  assert.equal(call(programWith({ name: 'n', type: 'no such type' }), 9)?.name, 'create_v2');
  const several = (...instructions: { name: string; discriminator: number[] }[]) =>
    readIdl(
      JSON.stringify({
        metadata: { name: 'p' },
        instructions: instructions.map((one) => ({ ...one, accounts: [], args: [{ name: 'n', type: 'u8' }] })),
      }),
    )!;
  const [a, b] = [
    { name: 'a', discriminator: [9] },
    { name: 'b', discriminator: [9] },
  ];
  // Two that fit: nobody knows which one it is.
  assert.equal(call(several(a, b), 9), null);
  assert.equal(call(several(a, a), 9)?.name, 'a');
  // One without a discriminator takes all data, and says nothing.
  assert.equal(call(several({ name: 'any', discriminator: [] }), 9)?.name, undefined);
  assert.equal(call(several({ name: 'any', discriminator: [] }, a), 9)?.name, 'a');
});

test('generic types of Anchor 0.29', () => {
  const types = [
    {
      name: 'Pair',
      generics: ['T', 'N'],
      type: {
        kind: 'struct',
        fields: [
          { name: 'first', type: { generic: 'T' } },
          { name: 'rest', type: { genericLenArray: ['u8', 'N'] } },
        ],
      },
    },
    {
      name: 'Outer',
      generics: ['U', 'M'],
      type: {
        kind: 'struct',
        fields: [
          { name: 'pair', type: { definedWithTypeArgs: { name: 'Pair', args: [{ generic: 'U' }, { generic: 'M' }] } } },
        ],
      },
    },
  ];
  const value = { definedWithTypeArgs: { name: 'Outer', args: [{ type: 'u16' }, { value: '3' }] } };
  const instructions = [{ name: 'create', accounts: [], args: [{ name: 'value', type: value }] }];
  const program = readIdl(JSON.stringify({ version: '0.1.0', name: 'p', instructions, types }))!;
  // sha256("global:create")[..8]
  const tag = [24, 30, 200, 40, 5, 28, 7, 119];
  const found = program.decode(Uint8Array.of(...tag, 1, 2, 7, 8, 9), [], 'x');
  const args = { value: { pair: { first: 513, rest: [7, 8, 9] } } };
  assert.deepEqual(found, { name: 'create', args, accounts: [] });
});
