import { isPlainObject } from '../lib/json.ts';

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
  readonly pattern?: string;
  /** One of the formats of validate.ts; other formats are documentation. */
  readonly format?: string;
  readonly description?: string;
  readonly default?: unknown;
  /** Its values never appear in logs, dumps or errors. */
  readonly secret?: boolean;
  /** Of an old key: its replacement. */
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
