import { CompiledQuery } from 'kysely';
import { lazy } from '../lib/lru.ts';
import type { Queries, Store } from './store.ts';

/** A prebuilt statement for hot paths, where building it for each call would cost more than running it. */
export type RawQuery<Row> = (db: Queries, parameters: readonly unknown[]) => Promise<readonly Row[]>;

/**
 * `text` calls `place` for the placeholder of each parameter, in parameter order. It is called at the first query, because the store is
 * not open before. Errors: those of the store.
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
