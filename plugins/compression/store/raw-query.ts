import { CompiledQuery } from 'kysely';
import type { Dialect } from '../../../src/ports/store.ts';
import type { Db } from './tables.ts';

/** A finished statement for hot paths, where building it anew for each call would cost more than running it. */
export type RawQuery<Row> = (db: Db, parameters: readonly unknown[]) => Promise<readonly Row[]>;

/** `text` calls `place` where the next parameter stands, in the order in which they are given. Errors: those of the store. */
export function rawQuery<Row>(dialect: Dialect, text: (place: () => string) => string): RawQuery<Row> {
  let count = 0;
  const statement = text(() => {
    count += 1;
    return dialect === 'sqlite' ? '?' : `$${count}`;
  });
  return async (db, parameters) => (await db.executeQuery<Row>(CompiledQuery.raw(statement, [...parameters]))).rows;
}
