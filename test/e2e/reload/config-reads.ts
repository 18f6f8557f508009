import type { SchemaNode } from '../../../src/config/node.ts';
import { isPlainObject } from '../../../src/lib/json.ts';

/** Dotted paths of all keys, with their schemas; lists and records count as one value. */
export function keysOf(schema: SchemaNode, path: readonly string[] = []): (readonly [string, SchemaNode])[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, node]) =>
    node.properties === undefined ? [[[...path, key].join('.'), node] as const] : keysOf(node, [...path, key]),
  );
}

/** Wraps the sections of a configuration and counts how often each key is read. */
export function countReads<T extends object>(schema: SchemaNode, target: T, reads: Map<string, number>): T {
  const sections = new WeakMap<object, object>();
  const wrap = (node: SchemaNode, section: object, path: string): object => {
    const known = sections.get(section);
    if (known !== undefined) return known;
    const made = new Proxy(section, {
      get(inner, name, receiver) {
        const value: unknown = Reflect.get(inner, name, receiver);
        const field = typeof name === 'string' ? node.properties?.[name] : undefined;
        if (field === undefined) return value;
        const key = path === '' ? String(name) : `${path}.${String(name)}`;
        if (field.properties !== undefined && isPlainObject(value)) return wrap(field, value, key);
        reads.set(key, (reads.get(key) ?? 0) + 1);
        return value;
      },
    });
    sections.set(section, made);
    return made;
  };
  return wrap(schema, target, '') as T;
}
