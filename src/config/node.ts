import { resolve } from 'node:path';
import { isPlainObject } from '../lib/json.ts';

export type ConfigPath = readonly (string | number)[];

/** The parts of a JSON schema that the configuration code uses. TypeBox schemas are such objects. */
export interface SchemaNode {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly SchemaNode[];
  readonly items?: SchemaNode;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly patternProperties?: Readonly<Record<string, SchemaNode>>;
  readonly additionalProperties?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  /** One of the formats of validate.ts; other formats are documentation. */
  readonly format?: string;
  readonly description?: string;
  readonly default?: unknown;
  /** Its values never appear in logs, dumps or errors. */
  readonly secret?: boolean;
  /** A reload changes it in the running daemon, with `set` unless it is null or empty before or after; other keys need a restart. */
  readonly reloadable?: boolean | 'set';
  /** Only for a key that was renamed: its new name. */
  readonly renamedTo?: string;
}

/**
 * A copy of `value` in which missing fields have their defaults. A section without content (`http:`) counts as empty. Values of the wrong
 * type stay unchanged; the validation reports them.
 */
export function fillDefaults(schema: SchemaNode, value: unknown): unknown {
  if (schema.type !== 'object' || schema.properties === undefined) {
    return value === undefined ? structuredClone(schema.default) : value;
  }
  if (value !== undefined && value !== null && !isPlainObject(value)) return value;
  const given: Record<string, unknown> = value ?? {};
  const filled: Record<string, unknown> = { ...given };
  for (const [key, field] of Object.entries(schema.properties)) {
    const next = fillDefaults(field, given[key]);
    if (next !== undefined) filled[key] = next;
  }
  return filled;
}

type ChangeText = (text: string, schema: SchemaNode, path: ConfigPath) => string;

/** A copy of `value` in which `change` has replaced all texts; it gets the schema of each. */
export function mapTexts(schema: SchemaNode, value: unknown, change: ChangeText, path: ConfigPath = []): unknown {
  if (typeof value === 'string') return change(value, schema, path);
  const branch = typeof value === 'object' && value !== null ? branchFor(schema, value) : schema;
  if (Array.isArray(value))
    return value.map((item, index) => mapTexts(branch.items ?? {}, item, change, [...path, index]));
  if (!isPlainObject(value)) return value;
  const rest = Object.values(branch.patternProperties ?? {})[0] ?? {};
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      mapTexts(branch.properties?.[key] ?? rest, item, change, [...path, key]),
    ]),
  );
}

/** The branch of a union that describes lists or sections. */
function branchFor(schema: SchemaNode, value: object): SchemaNode {
  const wanted = Array.isArray(value) ? 'array' : 'object';
  return schema.anyOf?.find((branch) => branch.type === wanted) ?? schema;
}

export const hasFormat = (schema: SchemaNode, format: string): boolean =>
  schema.format === format || (schema.anyOf ?? []).some((branch) => hasFormat(branch, format));

/** A copy in which the relative paths of keys with the format `path`, `file` or `store-url` are absolute. */
export function resolvePaths(schema: SchemaNode, value: unknown, baseDir: string): unknown {
  return mapTexts(schema, value, (text, node) => {
    if (text !== '' && (hasFormat(node, 'path') || hasFormat(node, 'file'))) return resolve(baseDir, text);
    const [, file] = hasFormat(node, 'store-url') ? (/^sqlite:(?:\/\/)?([^/].*)$/.exec(text) ?? []) : [];
    return file === undefined ? text : `sqlite:${resolve(baseDir, file)}`;
  });
}

/** Whether the value of the key may not be shown: marked `secret`, or an address, as providers put keys into paths and queries. */
export function isSecret(schema: SchemaNode): boolean {
  return schema.secret === true || /-url$/.test(schema.format ?? '') || (schema.anyOf ?? []).some(isSecret);
}

const HIDDEN = '***';

/** Scheme and host of an address, with `***` for parts that may contain a key; `***` for text that is not an address. */
export function maskText(text: string): string {
  if (text === '' || text.startsWith('sqlite:')) return text;
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return HIDDEN;
  }
  if (url.host === '') return HIDDEN;
  const bare = url.pathname === '/' || url.pathname === '';
  const open = bare && url.search === '' && url.hash === '' && url.username === '' && url.password === '';
  return `${url.protocol}//${url.host}` + (open ? '' : `/${HIDDEN}`);
}
