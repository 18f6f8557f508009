import { isPlainObject } from '../../lib/plain-object.ts';
import type { SchemaNode } from './node.ts';

/**
 * A copy of `value` in which missing fields have their defaults. A section that is written without content (`http:`) counts as
 * empty. Values of the wrong kind stay as they are, for the validation to complain about.
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
