import { isPlainObject } from '../../../src/lib/json.ts';

/** The items of a list in an answer; none if it is no list. */
export const itemsOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** The objects of a list in an answer. */
export const objectsOf = (value: unknown): readonly Readonly<Record<string, unknown>>[] =>
  itemsOf(value).filter(isPlainObject);

/** A member of an object of an answer; undefined for anything else. */
export const memberOf = (value: unknown, name: string): unknown => (isPlainObject(value) ? value[name] : undefined);

/** Cursor of the next page, in any of the forms of the interface; null: there is none. */
export function nextOf(answer: unknown): string | null {
  const token = memberOf(answer, 'paginationToken') ?? memberOf(memberOf(answer, 'pagination'), 'nextCursor');
  return typeof token === 'string' && token !== '' ? token : null;
}

export const moreSentence = (next: string | null): string =>
  next === null ? 'That is all.' : 'There are more: pass `next` as cursor.';
