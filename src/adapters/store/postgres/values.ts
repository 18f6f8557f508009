import type pg from 'pg';

type TypeId = Parameters<typeof pg.types.getTypeParser>[0];

const BOOL = 16;
const INT8 = 20;
const NUMERIC = 1700;

type Parse = (text: string) => unknown;
interface Parsers {
  getTypeParser(oid: TypeId, format?: 'text' | 'binary'): unknown;
}

/**
 * Makes PostgreSQL answer with the same JavaScript values as SQLite: whole numbers as numbers, booleans as 0 and 1.
 * `sum` of bigint columns is numeric and becomes a number too.
 */
export function sameValues(defaults: Parsers): Parsers {
  const own = new Map<number, Parse>([
    [BOOL, (text) => (text === 't' ? 1 : 0)],
    [INT8, Number],
    [NUMERIC, Number],
  ]);
  return {
    getTypeParser: (oid, format) =>
      (format === 'binary' ? undefined : own.get(oid)) ?? defaults.getTypeParser(oid, format),
  };
}

/** Booleans are integers in our tables. */
export function bindable(parameters: readonly unknown[]): unknown[] {
  if (!parameters.some((value) => typeof value === 'boolean')) return parameters as unknown[];
  return parameters.map((value) => (typeof value === 'boolean' ? Number(value) : value));
}
