/** Random values of published schemas, and values that are damaged in one place. */
import type { Options as AjvOptions } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { decode, decode32, encode } from '../../src/lib/base58.ts';

export type Schema = Readonly<Record<string, unknown>>;

export interface SchemaDocument {
  readonly components: { readonly schemas: Record<string, Schema> };
}

/**
 * Compiles schemas of a document, each of its components once. Optimizing the generated code would take longer than everything that is
 * checked with it.
 */
export function createCompiler(document: SchemaDocument, options: AjvOptions = {}) {
  const ajv = new Ajv2020({
    strict: false,
    logger: false,
    inlineRefs: false,
    code: { optimize: false },
    schemas: [{ $id: 'document', components: document.components }],
    ...options,
  });
  const compile = (schema: Schema): ((value: unknown) => boolean) =>
    ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"document#/components')) as object);
  return { ajv, compile };
}

/** Reads the schemas of a document; references lead to its components. */
export function createSchemaReader(document: SchemaDocument) {
  const { ajv, compile: compileIn } = createCompiler(document);
  ajv.addFormat('base58-32', (text) => text.length <= 44 && decode32(text) !== null);
  ajv.addFormat('base58-64', (text) => text.length <= 88 && decode(text)?.length === 64);
  const compile = (schema: Schema) => compileIn(resolve(schema));

  function resolve(schema: Schema): Schema {
    const name = String(schema['$ref'] ?? '').replace('#/components/schemas/', '');
    return name === '' ? schema : (document.components.schemas[name] as Schema);
  }

  const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length }).map((key) => encode(key));

  /** Values of a schema. Of a text with a pattern only its examples are known. */
  function valuesOf(given: Schema): fc.Arbitrary<unknown> {
    const schema = resolve(given);
    const { anyOf, type, properties, patternProperties, items, prefixItems, examples, format, pattern } = schema;
    if ('const' in schema) return fc.constant(schema['const']);
    if (Array.isArray(schema['enum'])) return fc.constantFrom(...(schema['enum'] as unknown[]));
    if (Array.isArray(anyOf)) return fc.oneof(...(anyOf as Schema[]).map(valuesOf));
    if (Array.isArray(type)) return fc.jsonValue({ maxDepth: 1 });
    if (properties !== undefined) return objectsOf(properties as Record<string, Schema>, schema['required']);
    if (patternProperties !== undefined) {
      const [of] = Object.values(patternProperties as Record<string, Schema>) as [Schema];
      return fc.dictionary(fc.stringMatching(/^[a-z]{1,10}$/), valuesOf(of), { maxKeys: 4, noNullPrototype: true });
    }
    if (Array.isArray(prefixItems)) return fc.tuple(...(prefixItems as Schema[]).map(valuesOf));
    if (type === 'array') {
      const { minItems: least = 0, maxItems = 4 } = schema as { minItems?: number; maxItems?: number };
      return fc.array(valuesOf(items as Schema), {
        minLength: least,
        maxLength: Math.max(least, Math.min(4, maxItems)),
      });
    }
    if (format === 'base58-32') return bytes(32);
    if (format === 'base58-64') return bytes(64);
    if (type === 'integer') {
      const { minimum = 0, maximum = 2_000_000_000 } = schema as { minimum?: number; maximum?: number };
      return fc.integer({ min: minimum, max: Math.min(maximum, 2_000_000_000) });
    }
    if (type === 'boolean') return fc.boolean();
    if (type === 'null') return fc.constant(null);
    if (Array.isArray(examples) && examples.length > 0) return fc.constantFrom(...(examples as unknown[]));
    return pattern === undefined ? fc.string({ maxLength: 20 }) : fc.constant('');
  }

  function objectsOf(properties: Record<string, Schema>, required: unknown): fc.Arbitrary<unknown> {
    const members = Object.entries(properties).filter(([, schema]) => !('not' in schema));
    return fc.record(Object.fromEntries(members.map(([name, schema]) => [name, valuesOf(schema)])), {
      requiredKeys: ((required ?? []) as string[]).filter((name) => members.some(([other]) => other === name)),
      noNullPrototype: true,
    });
  }

  /** A value with one place of it replaced by anything. */
  function damaged(values: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
    return fc.tuple(values, fc.nat(), fc.jsonValue({ maxDepth: 1 })).map(([value, at, other]) => {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return other;
      const names = Object.keys(value);
      const name = names[at % (names.length + 1)];
      return name === undefined ? other : { ...value, [name]: other };
    });
  }

  /** Values of the schema, each with one of `ODD` at one of its places: every place that some value has. */
  function oddAtEachPlace(schema: Schema): unknown[] {
    const samples = fc.sample(valuesOf(schema), { numRuns: 30, seed: 1 });
    const places = new Map(samples.flatMap((sample) => placesOf(sample, '')));
    return [...places.values()].flatMap((put) => ODD.map((odd) => put(odd)));
  }
  return { resolve, compile, valuesOf, damaged, oddAtEachPlace };
}

/** Values that JavaScript cannot convert to text or to a number, the name of a member that every object has, and odd lengths and numbers. */
const ODD: readonly unknown[] = JSON.parse(
  '[{"toString":false,"valueOf":false},[{"toString":null}],{"__proto__":{"a":1}},"constructor",{"length":-1},1e308]',
);

/** For each place of a JSON value, the root included: its path, and a function that puts something else there. The items of a list share a path. */
function placesOf(value: unknown, path: string): [path: string, put: (other: unknown) => unknown][] {
  if (typeof value !== 'object' || value === null) return [[path, (other) => other]];
  const inner = Object.entries(value).flatMap(([name, member]) =>
    placesOf(member, `${path}/${Array.isArray(value) ? '' : name}`).map(
      ([place, put]): [string, (other: unknown) => unknown] => [
        place,
        (other) => (Array.isArray(value) ? value.with(Number(name), put(other)) : { ...value, [name]: put(other) }),
      ],
    ),
  );
  return [[path, (other) => other], ...inner];
}
