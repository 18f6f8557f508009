import { CompiledQuery } from 'kysely';
import type { Dialect, Queries } from '../../ports/store.ts';

/** Parameters of a statement that is written as text, so that hot paths do not build it anew each time. */
export interface Parameters {
  /** Adds a value and gives its placeholder. */
  add(value: unknown): string;
  readonly values: readonly unknown[];
}

export function createParameters(dialect: Dialect): Parameters {
  const values: unknown[] = [];
  return {
    values,
    add(value) {
      values.push(value);
      return dialect === 'sqlite' ? '?' : `$${values.length}`;
    },
  };
}

export async function query<Row>(db: Queries, text: string, parameters: Parameters): Promise<readonly Row[]> {
  return (await db.executeQuery<Row>(CompiledQuery.raw(text, [...parameters.values]))).rows;
}

/** Like `query`, for a statement without `returning`; gives the number of changed rows. */
export async function change(db: Queries, text: string, parameters: Parameters): Promise<number> {
  const { numAffectedRows } = await db.executeQuery(CompiledQuery.raw(text, [...parameters.values]));
  return Number(numAffectedRows ?? 0n);
}

/**
 * Fills a list up to the next power of two with `filler`, so that few different statement texts are made and their prepared forms are
 * used again.
 */
export function padded<T>(list: readonly T[], filler: T): readonly T[] {
  let size = 1;
  while (size < list.length) size *= 2;
  return [...list, ...Array.from({ length: size - list.length }, () => filler)];
}
