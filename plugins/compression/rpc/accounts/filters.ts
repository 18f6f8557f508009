import { Type } from '@sinclair/typebox';
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { decode } from '../../../../src/lib/base58.ts';
import { invalid } from '../errors.ts';
import type { Field } from '../field.ts';
import { integer, objectOf } from '../fields.ts';

/** Bytes that the data of an account must hold at an offset. */
export interface DataFilter {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

const MOST_FILTERS = 5;
const MOST_BYTES = 128;
const MOST_CHARACTERS = 175;
/** No data is longer; larger numbers would not fit the database's functions. */
const MOST_OFFSET = 2 ** 31 - 2;

const pattern: Field<Uint8Array> = {
  schema: Type.String({ maxLength: MOST_CHARACTERS, description: `base58 of at most ${MOST_BYTES} bytes` }),
  absent: null,
  read: (value, name) => {
    const bytes = typeof value === 'string' && value.length <= MOST_CHARACTERS ? decode(value) : null;
    if (bytes === null || bytes.length > MOST_BYTES)
      throw invalid(`field '${name}' must be a base58 string of at most ${MOST_BYTES} bytes`);
    return bytes;
  },
};

/** A place in the data of accounts. */
export const offset = () => integer({ most: MOST_OFFSET, description: 'bytes from the start of the data' });

/** `[{memcmp: {offset, bytes}}]`; null items are refused. */
export function filtersField(): Field<readonly DataFilter[]> {
  const one = objectOf({ memcmp: objectOf({ offset: offset(), bytes: pattern }) });
  return {
    schema: Type.Array(one.schema, { maxItems: MOST_FILTERS }),
    absent: { value: [] },
    read: (value, name) => {
      if (!Array.isArray(value)) throw invalid(`field '${name}' must be an array`);
      if (value.length > MOST_FILTERS)
        throw invalid(`Too many filters. The maximum number of filters allowed is ${MOST_FILTERS}`);
      return value.map((filter: unknown, at) => {
        if (filter === null) throw invalid('Filter instance cannot be null');
        return one.read(filter, `${name}[${at}]`).memcmp;
      });
    },
  };
}

/** Accounts without data match no filter. */
export function matches(column: string, { offset: from, bytes }: DataFilter): RawBuilder<SqlBool> {
  return sql<SqlBool>`substr(${sql.ref(column)}, ${from + 1}, ${bytes.length}) = ${bytes}`;
}
