/** A JSON Schema as the documents have it. */
export type Schema = Readonly<Record<string, unknown>>;

const STRINGS: Readonly<Record<string, string>> = {
  uuid: '5e1a3c1e-4f0b-4b6f-9d55-0c8a2f6f7d11',
  'date-time': '2026-11-23T18:40:00.000Z',
  date: '2026-11-23',
  uri: 'https://example.org/hook',
};

/**
 * An example of a schema: the one that it names, or one that is put together from those of its parts. Plugins name examples where a
 * value has a form that cannot be guessed.
 */
export function exampleOf(schema: Schema): unknown {
  const { examples, type, enum: values, anyOf, allOf } = schema;
  if (Array.isArray(examples) && examples.length > 0) return examples[0];
  if ('const' in schema) return schema['const'];
  if ('default' in schema) return schema['default'];
  if (Array.isArray(values)) return values[0];
  const [first] = (anyOf ?? schema['oneOf'] ?? []) as readonly Schema[];
  if (first !== undefined) return exampleOf(first);
  if (Array.isArray(allOf)) return Object.assign({}, ...(allOf as readonly Schema[]).map(exampleOf));
  const [kind] = [type].flat();
  if (kind === 'object') return objectExample(schema);
  if (kind === 'array') return arrayExample(schema);
  if (kind === 'string') return STRINGS[String(schema['format'])] ?? textExample(schema['pattern']);
  if (kind === 'integer' || kind === 'number') return schema['minimum'] ?? 1;
  if (kind === 'boolean') return true;
  return kind === 'null' ? null : {};
}

/** Of a pattern without an example at least its beginning, if that is a text of this form. */
function textExample(pattern: unknown): string {
  if (typeof pattern !== 'string') return 'text';
  const [, beginning = ''] = /^\^([\w/ -]+)/.exec(pattern) ?? [];
  return ['text', beginning, '1', '1-1', '2026-11-23'].find((one) => new RegExp(pattern, 'u').test(one)) ?? 'text';
}

function objectExample({ properties = {}, patternProperties }: Schema): Record<string, unknown> {
  const own = Object.entries(properties as Record<string, Schema>).map(([name, value]) => [name, exampleOf(value)]);
  if (own.length > 0 || patternProperties === undefined) return Object.fromEntries(own);
  const [value] = Object.values(patternProperties as Record<string, Schema>);
  return value === undefined ? {} : { name: exampleOf(value) };
}

function arrayExample({ items, prefixItems, minItems = 1 }: Schema): unknown[] {
  const tuple = Array.isArray(items) ? items : prefixItems;
  if (Array.isArray(tuple)) return (tuple as readonly Schema[]).map(exampleOf);
  if (items === undefined) return [];
  return Array.from({ length: Math.max(1, minItems as number) }, () => exampleOf(items as Schema));
}
