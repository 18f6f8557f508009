import { JsonText } from '../../../src/kernel/plugin.ts';

/** Rows of one page: `rows` holds one more than wanted when something follows. */
export interface Page<T> {
  readonly rows: readonly T[];
  /** Where the next page begins after; null at the end. */
  readonly cursor: string | null;
}

/** Cuts rows that were read up to `limit + 1`. */
export function pageOf<T>(rows: readonly T[], limit: number, cursorOf: (last: T) => string): Page<T> {
  const kept = rows.slice(0, limit);
  const last = kept[kept.length - 1];
  return { rows: kept, cursor: rows.length > limit && last !== undefined ? cursorOf(last) : null };
}

/** JSON of a page whose items are texts already. */
export function pageText(items: readonly string[], cursor: string | null): JsonText {
  return new JsonText(`{"items":[${items.join(',')}],"cursor":${JSON.stringify(cursor)}}`);
}
