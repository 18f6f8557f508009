/** Decoded instructions beside those of Anchor, over random values of public interfaces and of every type. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import anchor, { type Idl } from '@coral-xyz/anchor';
import { PublicKey } from '@solana/web3.js';
import fc from 'fast-check';
import { readIdl, snakeName } from '../../../src/solana/idl/read-idl.ts';
import { readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { idlText } from '../../helpers/parsed-cases.ts';

const { BN, BorshInstructionCoder } = anchor;

/** What Anchor decoded in the form of our answers. */
function written(value: unknown, type: Type, types: ReadonlyMap<string, Definition>): unknown {
  if (BN.isBN(value)) return String(value);
  if (value instanceof PublicKey) return value.toBase58();
  if (typeof type === 'string') return type === 'bytes' ? [...(value as Buffer)] : value;
  if ('option' in type || 'coption' in type)
    return value === null ? null : written(value, (type.option ?? type.coption)!, types);
  if ('vec' in type) return Array.from(value as unknown[], (item) => written(item, type.vec!, types));
  if ('array' in type) return Array.from(value as unknown[], (item) => written(item, type.array![0], types));
  const definition = types.get(type.defined!.name)!;
  if (definition.type.kind === 'type') return written(value, definition.type.alias!, types);
  const members = value as Readonly<Record<string, unknown>>;
  if (definition.type.kind === 'struct') return fieldsOf(members, definition.type.fields ?? [], types);
  const [[name, body] = assert.fail()] = Object.entries(members);
  const variant = definition.type.variants!.find((one) => one.name === name)!;
  return { [snakeName(name)!]: fieldsOf(body as Readonly<Record<string, unknown>>, variant.fields ?? [], types) };
}

function fieldsOf(
  members: Readonly<Record<string, unknown>>,
  fields: readonly Field[],
  types: ReadonlyMap<string, Definition>,
): unknown {
  return Object.fromEntries(
    fields.map((field, at) => {
      const isNamed = typeof field === 'object' && 'name' in field;
      const name = isNamed ? field.name : String(at);
      return [
        isNamed ? snakeName(name)! : name,
        written(members[name], isNamed ? (field as { type: Type }).type : (field as Type), types),
      ];
    }),
  );
}

type Type =
  | string
  | {
      readonly vec?: Type;
      readonly option?: Type;
      readonly coption?: Type;
      readonly array?: readonly [Type, number];
      readonly defined?: { readonly name: string };
    };
type Field = Type | { readonly name: string; readonly type: Type };
interface Definition {
  readonly name: string;
  readonly generics?: unknown;
  readonly type: {
    readonly kind: 'struct' | 'enum' | 'type';
    readonly fields?: readonly Field[];
    readonly alias?: Type;
    readonly variants?: readonly { readonly name: string; readonly fields?: readonly Field[] }[];
  };
}
interface AnchorIdl {
  readonly instructions: readonly {
    readonly name: string;
    readonly discriminator: number[];
    readonly args: readonly Field[];
  }[];
  readonly types?: readonly Definition[];
}

const lastOf = (args: unknown): unknown => Object.values(args as Readonly<Record<string, unknown>>).at(-1);

/** Bytes that are likely to be a value: small tags and lengths, then anything. */
const dataArbitrary = fc
  .array(
    fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom([0], [1], [2], [1, 0, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]) },
      fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 1, maxLength: 32 }),
    ),
    { maxLength: 24 },
  )
  .map((parts) => Uint8Array.from(parts.flat()));

/** Values in the form that Anchor encodes; deep lists are empty. */
function valueFor(type: Type, types: ReadonlyMap<string, Definition>, depth = 0): fc.Arbitrary<unknown> {
  const inner = (one: Type) => valueFor(one, types, depth + 1);
  if (typeof type === 'string') return plainValue(type);
  if ('option' in type || 'coption' in type) return fc.option(inner((type.option ?? type.coption)!), { nil: null });
  if ('vec' in type) return fc.array(inner(type.vec!), { maxLength: depth > 3 ? 0 : 3 });
  if ('array' in type) return fc.array(inner(type.array![0]), { minLength: type.array![1], maxLength: type.array![1] });
  const definition = types.get(type.defined!.name)!;
  if (definition.type.kind === 'type') return inner(definition.type.alias!);
  const record = (fields: readonly Field[]) =>
    fc.record(
      Object.fromEntries(
        fields.map((field, at) => {
          const isNamed = typeof field === 'object' && 'name' in field;
          return [isNamed ? field.name : String(at), inner(isNamed ? (field as { type: Type }).type : (field as Type))];
        }),
      ),
      { noNullPrototype: true },
    );
  if (definition.type.kind === 'struct') return record(definition.type.fields ?? []);
  return fc.oneof(
    ...definition.type.variants!.map(({ name, fields }) => record(fields ?? []).map((body) => ({ [name]: body }))),
  );
}

function plainValue(type: string): fc.Arbitrary<unknown> {
  if (type === 'bool') return fc.boolean();
  if (type === 'string') return fc.string({ maxLength: 12, unit: 'binary' });
  if (type === 'bytes') return fc.uint8Array({ maxLength: 12 }).map((bytes) => Buffer.from(bytes));
  if (type === 'pubkey') return fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => new PublicKey(bytes));
  if (type === 'f32') return fc.float({ noNaN: true, noDefaultInfinity: true });
  if (type === 'f64') return fc.double({ noNaN: true, noDefaultInfinity: true });
  const bits = Number(type.slice(1));
  const isSigned = type.startsWith('i');
  const [min, max] = isSigned
    ? [-(2n ** BigInt(bits - 1)), 2n ** BigInt(bits - 1) - 1n]
    : [0n, 2n ** BigInt(bits) - 1n];
  const any = fc.oneof(fc.bigInt({ min, max }), fc.constantFrom(min, max, 0n, 1n));
  return bits < 64 ? any.map(Number) : any.map((value) => new BN(value.toString()));
}

test('data of public interfaces decodes as Anchor encodes and decodes it', { skip: skipWithoutFixtures }, () => {
  const { interfaces } = readJsonFixture<{ interfaces: { address: string; format: string }[] }>('parsed/manifest.json');
  let encoded = 0;
  let random = 0;
  for (const { address } of interfaces.filter(({ format }) => format === 'anchor-0.30')) {
    const text = idlText(address);
    const idl = JSON.parse(text) as AnchorIdl;
    const types = new Map((idl.types ?? []).map((type) => [type.name, type]));
    // Anchor writes generics in another way, and encodes no option of a fixed size; the recorded cases have them.
    if ([...types.values()].some(({ generics }) => generics !== undefined)) continue;
    const coder = new BorshInstructionCoder(idl as unknown as Idl);
    const ours = readIdl(text)!;
    const expected = (data: Buffer, args: readonly Field[]) => {
      const theirs = coder.decode(data)!;
      return [snakeName(theirs.name), fieldsOf(theirs.data as Readonly<Record<string, unknown>>, args, types)];
    };
    const call = fc.constantFrom(...idl.instructions).chain((instruction) => {
      const fields = instruction.args as readonly { readonly name: string; readonly type: Type }[];
      const args = fc.record(Object.fromEntries(fields.map(({ name, type }) => [name, valueFor(type, types)])), {
        noNullPrototype: true,
      });
      return args.map((values) => ({ instruction, values }));
    });
    fc.assert(
      fc.property(call, dataArbitrary, ({ instruction, values }, body) => {
        const { name, args, discriminator } = instruction;
        let data: Buffer | null = null;
        try {
          data = coder.encode(name, values);
        } catch {
          // Its buffer has 1,000 bytes.
        }
        if (data !== null) {
          const found = ours.decode(data, [], address);
          assert.deepEqual([found?.name, found?.args], expected(data, args));
          const cut = ours.decode(data.subarray(0, data.length - 1), [], address);
          // Anchor wants the byte of an option that is absent. We do not: callers may leave out options at the end.
          if (cut !== null) assert.deepEqual([cut.args, lastOf(cut.args)], [found?.args, null]);
          encoded += 1;
        }
        // Anchor allocates what a false length asks for: it sees only what is decoded here.
        const noise = Buffer.from([...discriminator, ...body]);
        const found = ours.decode(noise, [], address);
        if (found === null) return;
        let theirs: unknown[] | null = null;
        try {
          theirs = expected(noise, args);
        } catch (error) {
          assert.ok(error instanceof RangeError, String(error));
        }
        if (theirs === null) assert.equal(lastOf(found.args), null);
        else assert.deepEqual([found.name, found.args], theirs);
        random += 1;
      }),
      { numRuns: 40, includeErrorInReport: true },
    );
  }
  assert.ok(encoded > 200 && random > 50, `${encoded} encoded, ${random} random`);
});
