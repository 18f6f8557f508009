import { isPlainObject } from '../../lib/plain-object.ts';
import { TEXT_FORMATS } from './formats.ts';
import type { SchemaNode } from './node.ts';

/** What a schema wants, in words: `an integer between 0 and 65535`. */
export function describeSchema(schema: SchemaNode): string {
  if (schema.anyOf !== undefined) return orList(schema.anyOf.map(describeSchema));
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return orList(schema.enum.map((value) => JSON.stringify(value)));
  switch (schema.type) {
    case 'integer':
      return 'an integer' + range(schema);
    case 'number':
      return 'a number' + range(schema);
    case 'string':
      return formatWords(schema) ?? ((schema.minLength ?? 0) > 0 ? 'text that is not empty' : 'text');
    case 'boolean':
      return 'true or false';
    case 'null':
      return 'null';
    case 'array':
      return `a list${range({ minimum: schema.minItems, maximum: schema.maxItems })}`;
    case 'object':
      return 'a section';
    default:
      return 'another value';
  }
}

/** The class of a value, never the value: it may be a secret. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (isPlainObject(value)) return 'a section';
  if (typeof value === 'number') return Number.isInteger(value) ? 'an integer' : 'a number';
  return typeof value === 'boolean' ? 'true or false' : 'text';
}

const formatWords = (schema: SchemaNode) => TEXT_FORMATS.get(schema.format ?? '')?.words;

function range({
  minimum,
  maximum,
}: {
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
}): string {
  if (minimum !== undefined && maximum !== undefined) return ` between ${minimum} and ${maximum}`;
  if (minimum !== undefined) return ` of at least ${minimum}`;
  return maximum === undefined ? '' : ` of at most ${maximum}`;
}

function orList(words: readonly string[]): string {
  if (words.length < 2) return words[0] ?? '';
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}
