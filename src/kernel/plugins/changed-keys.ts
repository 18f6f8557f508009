import { isDeepStrictEqual } from 'node:util';
import { isPlainObject } from '../../lib/plain-object.ts';

/** Dotted paths of the keys in which two configurations differ. */
export function changedKeys(before: unknown, after: unknown, path = ''): string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isPlainObject(before) || !isPlainObject(after)) return [path];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => changedKeys(before[key], after[key], path === '' ? key : `${path}.${key}`));
}
