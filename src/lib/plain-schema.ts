/**
 * Checks values against plain JSON schemas without compiling them. Ajv generates and compiles code per schema, which pays for a schema
 * that checks many values; of a start it took a third. Where a value is wrong, Ajv still describes the errors.
 */
import { isPlainObject } from './json.ts';

export interface PlainSchema {
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly PlainSchema[];
  readonly not?: PlainSchema;
  readonly items?: PlainSchema;
  readonly properties?: Readonly<Record<string, PlainSchema>>;
  readonly patternProperties?: Readonly<Record<string, PlainSchema>>;
  readonly additionalProperties?: unknown;
  readonly required?: readonly string[];
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: string;
}

/** By name; a format that is missing is documentation. */
export type Formats = ReadonlyMap<string, (text: string) => boolean>;

const CHECKED = new Set<string>([
  'type',
  'const',
  'enum',
  'anyOf',
  'not',
  'items',
  'properties',
  'patternProperties',
  'additionalProperties',
  'required',
  'minProperties',
  'maxProperties',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'minItems',
  'maxItems',
  'minLength',
  'maxLength',
  'pattern',
  'format',
]);
/** Keywords that check nothing: of JSON Schema, of the configuration, and of OpenAPI. */
const NOTES = new Set<string>([
  'title',
  'description',
  'default',
  'examples',
  'example',
  'deprecated',
  'readOnly',
  'writeOnly',
  'secret',
  'reloadable',
  'renamedTo',
]);
const TYPES = new Set(['object', 'array', 'string', 'integer', 'number', 'boolean', 'null']);

/** Whether `matches` understands each part of a schema. */
export function isPlainSchema(schema: unknown): schema is PlainSchema {
  if (!isPlainObject(schema)) return false;
  for (const [keyword, value] of Object.entries(schema)) {
    if (value === undefined || NOTES.has(keyword) || keyword.startsWith('x-')) continue;
    if (!CHECKED.has(keyword)) return false;
    if (!isUnderstood(keyword, value)) return false;
  }
  return true;
}

function isUnderstood(keyword: string, value: unknown): boolean {
  switch (keyword) {
    case 'type':
      return Array.isArray(value) ? value.length > 0 && value.every(isType) : isType(value);
    case 'const':
      return isScalar(value);
    case 'enum':
      return Array.isArray(value) && value.every(isScalar);
    case 'anyOf':
      return Array.isArray(value) && value.length > 0 && value.every(isPlainSchema);
    case 'not':
    case 'items':
      return isPlainSchema(value);
    case 'properties':
      return isPlainObject(value) && Object.values(value).every(isPlainSchema);
    case 'patternProperties':
      return isPlainObject(value) && Object.keys(value).every(isPattern) && Object.values(value).every(isPlainSchema);
    case 'additionalProperties':
      return typeof value === 'boolean' || isPlainSchema(value);
    case 'required':
      return Array.isArray(value) && value.every((name) => typeof name === 'string');
    case 'pattern':
      return isPattern(value);
    case 'format':
      return typeof value === 'string';
    default:
      return typeof value === 'number' && !Number.isNaN(value);
  }
}

const isType = (value: unknown): boolean => typeof value === 'string' && TYPES.has(value);
const isScalar = (value: unknown): boolean => value === null || ['string', 'number', 'boolean'].includes(typeof value);

function isPattern(value: unknown): boolean {
  try {
    return typeof value === 'string' && new RegExp(value, 'u') instanceof RegExp;
  } catch {
    return false;
  }
}

/** Whether a value is valid, as Ajv decides it. The schema must be one that `isPlainSchema` accepts. */
export function matches(schema: PlainSchema, value: unknown, formats: Formats): boolean {
  if (schema.type !== undefined && !hasType(schema.type, value)) return false;
  if ('const' in schema && value !== schema.const) return false;
  if (schema.enum !== undefined && !schema.enum.includes(value)) return false;
  if (schema.anyOf !== undefined && !schema.anyOf.some((branch) => matches(branch, value, formats))) return false;
  if (schema.not !== undefined && matches(schema.not, value, formats)) return false;
  if (typeof value === 'string') return textMatches(schema, value, formats);
  if (typeof value === 'number') return numberMatches(schema, value);
  if (Array.isArray(value)) return listMatches(schema, value, formats);
  return !isPlainObject(value) || objectMatches(schema, value, formats);
}

function hasType(type: string | readonly string[], value: unknown): boolean {
  if (typeof type !== 'string') return type.some((one) => hasType(one, value));
  if (type === 'object') return isPlainObject(value);
  if (type === 'array') return Array.isArray(value);
  if (type === 'null') return value === null;
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'number') return Number.isFinite(value);
  return typeof value === type;
}

function textMatches({ minLength, maxLength, pattern, format }: PlainSchema, text: string, formats: Formats): boolean {
  if (minLength !== undefined || maxLength !== undefined) {
    // Characters, not UTF-16 units.
    const length = [...text].length;
    if (length < (minLength ?? 0) || length > (maxLength ?? length)) return false;
  }
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(text)) return false;
  return format === undefined || formats.get(format)?.(text) !== false;
}

function numberMatches(schema: PlainSchema, value: number): boolean {
  const { minimum = value, maximum = value, exclusiveMinimum, exclusiveMaximum } = schema;
  if (!(value >= minimum && value <= maximum)) return false;
  if (exclusiveMinimum !== undefined && !(value > exclusiveMinimum)) return false;
  return exclusiveMaximum === undefined || value < exclusiveMaximum;
}

function listMatches(
  { minItems = 0, maxItems, items }: PlainSchema,
  list: readonly unknown[],
  formats: Formats,
): boolean {
  if (list.length < minItems || list.length > (maxItems ?? list.length)) return false;
  return items === undefined || list.every((item) => matches(items, item, formats));
}

function objectMatches(schema: PlainSchema, value: Readonly<Record<string, unknown>>, formats: Formats): boolean {
  const { properties = {}, patternProperties = {}, additionalProperties = true, required = [] } = schema;
  const keys = Object.keys(value);
  if (keys.length < (schema.minProperties ?? 0) || keys.length > (schema.maxProperties ?? keys.length)) return false;
  if (!required.every((key) => value[key] !== undefined)) return false;
  const patterns = Object.entries(patternProperties).map(
    ([pattern, part]) => [new RegExp(pattern, 'u'), part] as const,
  );
  return keys.every((key) => {
    const own = Object.hasOwn(properties, key) ? (properties[key] as PlainSchema) : undefined;
    const parts = [
      ...(own === undefined ? [] : [own]),
      ...patterns.flatMap(([name, part]) => (name.test(key) ? [part] : [])),
    ];
    // A missing property may be written as undefined.
    if (own !== undefined && value[key] === undefined) return true;
    if (parts.length > 0) return parts.every((part) => matches(part, value[key], formats));
    if (typeof additionalProperties === 'boolean') return additionalProperties;
    return matches(additionalProperties as PlainSchema, value[key], formats);
  });
}
