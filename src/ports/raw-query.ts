import { CompiledQuery } from 'kysely';
import { lazy } from '../lib/lru.ts';
import type { Queries, Store } from './store.ts';

/** A finished statement for hot paths, where building it anew for each call would cost more than running it. */
export type RawQuery<Row> = (db: Queries, parameters: readonly unknown[]) => Promise<readonly Row[]>;

/**
 * `text` calls `place` where the next parameter stands, in the order in which they are given. It is called with the first query, because
 * the store is not open before. Errors: those of the store.
 */
export function rawQuery<Row>(store: Pick<Store, 'dialect'>, text: (place: () => string) => string): RawQuery<Row> {
  const statement = lazy(() => {
    const isSqlite = store.dialect === 'sqlite';
    let count = 0;
    return text(() => {
      count += 1;
      return isSqlite ? '?' : `$${count}`;
    });
  });
  return async (db, parameters) => (await db.executeQuery<Row>(CompiledQuery.raw(statement(), [...parameters]))).rows;
}
