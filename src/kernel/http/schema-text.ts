import type { TSchema } from '@sinclair/typebox';

const MAX_DEPTH = 8;

/** A schema as people read it: `{ name: string, limit?: integer 1..100 = 10 }`. */
export function schemaText(schema: TSchema, indent = '', depth = 0): string {
  if (depth > MAX_DEPTH) return '…';
  const text = bareText(schema, indent, depth);
  return schema.default === undefined ? text : `${text} = ${JSON.stringify(schema.default)}`;
}

function bareText(schema: TSchema, indent: string, depth: number): string {
  const inner = (part: unknown) => schemaText(part as TSchema, indent, depth + 1);
  if (schema['const'] !== undefined) return JSON.stringify(schema['const']);
  if (Array.isArray(schema['enum'])) return schema['enum'].map((value) => JSON.stringify(value)).join(' | ');
  if (Array.isArray(schema['anyOf'])) return schema['anyOf'].map(inner).join(' | ');
  if (Array.isArray(schema['allOf'])) return schema['allOf'].map(inner).join(' & ');
  const type: unknown = schema['type'];
  if (type === 'object') return objectText(schema, indent, depth);
  if (type === 'array') return arrayText(schema, inner);
  const range = rangeText(schema['minimum'], schema['maximum']) + rangeText(schema['minLength'], schema['maxLength']);
  if (Array.isArray(type)) return `${type.join(' | ')}${range}`;
  return `${typeof type === 'string' ? type : 'any'}${range}`;
}

function objectText(schema: TSchema, indent: string, depth: number): string {
  const properties = Object.entries((schema['properties'] ?? {}) as Record<string, TSchema>);
  const required = new Set((schema['required'] ?? []) as string[]);
  if (properties.length === 0) return 'object';
  const deeper = `${indent}  `;
  const lines = properties.map(([name, property]) => {
    const note = property.description === undefined ? '' : `  // ${property.description}`;
    return `${deeper}${name}${required.has(name) ? '' : '?'}: ${schemaText(property, deeper, depth + 1)}${note}`;
  });
  return `{\n${lines.join('\n')}\n${indent}}`;
}

function arrayText(schema: TSchema, inner: (part: unknown) => string): string {
  const items: unknown = schema['items'];
  if (Array.isArray(items)) return `[${items.map(inner).join(', ')}]`;
  const range = rangeText(schema['minItems'], schema['maxItems']);
  return `array of ${items === undefined ? 'any' : inner(items)}${range === '' ? '' : ` (${range.trim()} items)`}`;
}

function rangeText(minimum: unknown, maximum: unknown): string {
  if (minimum === undefined && maximum === undefined) return '';
  return ` ${minimum ?? ''}..${maximum ?? ''}`;
}
